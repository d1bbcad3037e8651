"""End the servers of an episode that takes too much of the scratch disk, before others find it full."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from turnwise.mcp.stock import Stock

_PERIOD_SECONDS = 0.5


async def watch(disk: Path, stocks: Sequence[Stock]) -> None:
    """Measure the stocks' folders whenever the disk has lost a part of what an episode may take."""
    step = min((stock.max_disk_bytes for stock in stocks), default=0) // 8
    free = _free_bytes(disk)
    while True:
        await asyncio.sleep(_PERIOD_SECONDS)
        now = _free_bytes(disk)
        if free - now >= step:
            for stock in stocks:
                await stock.end_spenders()
            free = _free_bytes(disk)
        free = max(free, now)


def _free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize
