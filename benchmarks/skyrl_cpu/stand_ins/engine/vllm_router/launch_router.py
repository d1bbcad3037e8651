"""The function that SkyRL imports."""

from typing import Any


def launch_router(args: Any) -> None:
    raise NotImplementedError("vllm-router is not installed: set external_proxy_url")
