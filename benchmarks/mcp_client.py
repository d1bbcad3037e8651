"""Compare the MCP client with a bare SDK client and with one process per episode, in one run.

    python benchmarks/mcp_client.py [--quick]

Only the ratios of one run are meaningful on a noisy machine, not absolute times.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.table import Table

from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Fault, ToolCall

SERVER = str(Path(__file__).resolve().parent / "servers" / "sleeper.py")
NUM_EPISODES = 64


def specs() -> tuple[ServerSpec, ...]:
    return parse({"sleeper": {"command": sys.executable, "args": [SERVER]}}, {}, directory=Path.cwd())


async def timed(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def check(results: list[object]) -> None:
    for result in results:
        assert result.fault is Fault.NONE, result  # type: ignore[attr-defined]


async def lease_seconds(pool: Pool, num_leases: int) -> list[float]:
    """Time to lease a toolbox from a warm pool, including the server's state."""
    seconds = []
    for number in range(num_leases):
        started = time.perf_counter()
        async with pool.lease(["sleeper"], f"lease-{number}") as toolbox:
            seconds.append(time.perf_counter() - started)
            check(await toolbox.call([ToolCall("1", "count", {})]))
    return seconds


async def private_lease_seconds(num_bytes: int, num_leases: int) -> list[float]:
    """Time to lease a toolbox whose server has a private copy of a folder, with processes started ahead."""
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "data").open("wb") as file:
            file.truncate(num_bytes)
        block = {
            "command": sys.executable,
            "args": [SERVER, folder],
            "turnwise": {"isolation": "process", "num_warm": num_leases},
        }
        async with Pool(parse({"sleeper": block}, {}, directory=Path.cwd())) as pool:
            assert not await pool.connect()
            assert pool.exposure("sleeper").private
            await asyncio.sleep(5 * num_leases)  # wait until all are ready
            return await lease_seconds(pool, num_leases)


async def cold_lease_seconds(num_leases: int) -> tuple[float, float]:
    """Median time to lease a server that is not started yet: inside walls, and on the real machine."""
    seconds: dict[str, list[float]] = {"private": [], "real": []}
    async with contextlib.AsyncExitStack() as opened:
        pools = {}
        for data in seconds:
            options = {"isolation": "process", "num_warm": 0, "data": data}
            block = {"command": sys.executable, "args": [SERVER], "turnwise": options}
            [spec] = parse({"sleeper": block}, {}, directory=Path.cwd())
            pools[data] = await opened.enter_async_context(Pool([spec]))
            assert not await pools[data].connect()
        for number in range(num_leases + 1):  # the first takes the process that listed the tools
            for data, pool in pools.items():
                started = time.perf_counter()
                async with pool.lease(["sleeper"], f"cold-{number}"):
                    seconds[data].append(time.perf_counter() - started)
    return statistics.median(seconds["private"][1:]), statistics.median(seconds["real"][1:])


async def pooled_calls(pool: Pool, num_calls: int, in_flight: int) -> float:
    async with pool.lease(["sleeper"], "calls") as toolbox:

        async def lane() -> None:
            for _ in range(num_calls // in_flight):
                check(await toolbox.call([ToolCall("1", "echo", {"text": "hello"})]))

        return num_calls / await timed(asyncio.gather(*(lane() for _ in range(in_flight))))


async def bare_calls(client: Client, num_calls: int, in_flight: int) -> float:
    async def lane() -> None:
        for _ in range(num_calls // in_flight):
            await client.call_tool("echo", {"text": "hello"})

    return num_calls / await timed(asyncio.gather(*(lane() for _ in range(in_flight))))


async def call_by_call(pool: Pool, client: Client, num_calls: int) -> tuple[float, float]:
    """Median calls/s, one at a time, alternating between ours and the bare SDK's."""
    seconds: tuple[list[float], list[float]] = ([], [])
    async with pool.lease(["sleeper"], "in turn") as toolbox:
        for _ in range(num_calls):
            started = time.perf_counter()
            check(await toolbox.call([ToolCall("1", "echo", {"text": "hello"})]))
            between = time.perf_counter()
            await client.call_tool("echo", {"text": "hello"})
            seconds[0].append(between - started)
            seconds[1].append(time.perf_counter() - between)
    return 1 / statistics.median(seconds[0]), 1 / statistics.median(seconds[1])


async def seconds_to_notice() -> float:
    """Seconds from a server's death at import to our report; the server records when it died."""
    dying = "import sys, time; print(time.time(), file=sys.stderr); import no_such_module"
    block = {"command": sys.executable, "args": ["-c", dying]}
    async with Pool(parse({"dying": block}, {}, directory=Path.cwd())) as pool:
        failed = (await pool.connect())["dying"]
        return time.time() - float(failed.loss.stderr_tail[0])


async def best_of_each(rounds: int, *sides: Callable[[], Awaitable[float]]) -> list[float]:
    """Alternate between the sides, so that noise affects both; the best round counts."""
    best = [0.0] * len(sides)
    for _ in range(rounds):
        for index, side in enumerate(sides):
            best[index] = max(best[index], await side())
    return best


async def pooled_episodes(pool: Pool) -> float:
    """64 isolated episodes of 5 calls each; every episode counts from 1 to 5."""

    async def episode(number: int) -> None:
        async with pool.lease(["sleeper"], f"episode-{number}") as toolbox:
            for expected in range(1, 6):
                [result] = await toolbox.call([ToolCall("1", "count", {})])
                assert result.content == str(expected), result

    return await timed(asyncio.gather(*(episode(number) for number in range(NUM_EPISODES))))


async def process_episodes(num_episodes: int) -> float:
    """The same with one process per episode, at most 8 at once."""
    slots = asyncio.Semaphore(8)

    async def episode() -> None:
        async with slots, Client(StdioServerParameters(command=sys.executable, args=[SERVER])) as client:
            for _ in range(5):
                await client.call_tool("count", {})

    return await timed(asyncio.gather(*(episode() for _ in range(num_episodes))))


async def slow_calls(pool: Pool) -> float:
    """64 calls of a 0.2 s tool in one turn."""
    async with pool.lease(["sleeper"], "slow") as toolbox:
        calls = [ToolCall(str(number), "sleep", {"seconds": 0.2}) for number in range(64)]
        started = time.perf_counter()
        check(await toolbox.call(calls))
        return time.perf_counter() - started


async def slow_episodes(pool: Pool) -> float:
    """8 episodes with one call of a 0.5 s tool each; TRL takes 4 s."""

    async def episode(number: int) -> None:
        async with pool.lease(["sleeper"], f"slow-{number}") as toolbox:
            check(await toolbox.call([ToolCall("1", "sleep", {"seconds": 0.5})]))

    return await timed(asyncio.gather(*(episode(number) for number in range(8))))


async def measure(is_quick: bool) -> Table:
    num_calls, rounds = (640, 2) if is_quick else (3_200, 5)
    table = Table(title="MCP client", title_justify="left")
    for column in ("what", "turnwise", "beside", "ratio", "goal", "met"):
        table.add_column(column, justify="left" if column == "what" else "right")

    def row(what: str, ours: str, beside: str, ratio: str, goal: str, is_met: bool) -> None:
        table.add_row(what, ours, beside, ratio, goal, "yes" if is_met else "NO")

    bare = Client(StdioServerParameters(command=sys.executable, args=[SERVER]))
    async with Pool(specs()) as pool, bare as client:
        assert not await pool.connect()
        await client.list_tools()
        await pooled_calls(pool, 64, 1)
        lease = statistics.median(await lease_seconds(pool, 100))
        row("lease from a warm pool, median", f"{lease * 1e3:.2f} ms", "-", "-", "< 5 ms", lease < 0.005)
        for size, num_bytes in (("1 KB", 1_000), ("2 GiB", 2 * 2**30)):
            lease = statistics.median(await private_lease_seconds(num_bytes, 5))
            what = f"warm lease with a private folder of {size}"
            row(what, f"{lease * 1e3:.2f} ms", "-", "-", "< 5 ms", lease < 0.005)
        walled, real = await cold_lease_seconds(10 if is_quick else 40)
        beside, ratio = f"{real * 1e3:.0f} ms without walls", f"{walled / real:.2f}"
        is_met = walled - real < 0.1
        row("cold lease inside walls", f"{walled * 1e3:.0f} ms", beside, ratio, "< 0.1 s more", is_met)
        for in_flight in (1, 64):
            if in_flight == 1:
                ours, theirs = await call_by_call(pool, client, num_calls)
            else:
                ours, theirs = await best_of_each(
                    rounds,
                    lambda: pooled_calls(pool, num_calls, 64),
                    lambda: bare_calls(client, num_calls, 64),
                )
            what = f"calls/s, {in_flight} in flight"
            bare_text = f"{theirs:,.0f} bare SDK"
            row(what, f"{ours:,.0f}", bare_text, f"{ours / theirs:.2f}", ">= 0.9", ours >= 0.9 * theirs)
        episodes = await pooled_episodes(pool)
        num_sampled = 8 if is_quick else NUM_EPISODES
        processes = await process_episodes(num_sampled) * NUM_EPISODES / num_sampled
        row(
            "64 isolated episodes x 5 calls",
            f"{episodes:.2f} s",
            f"{processes:.1f} s process each",
            f"{processes / episodes:.0f}x",
            "<= 3 s",
            episodes <= 3,
        )
        slow = await slow_calls(pool)
        row("64 calls of a 0.2 s tool", f"{slow:.3f} s", "0.2 s ideal", "-", "<= 0.3 s", slow <= 0.3)
        eight = await slow_episodes(pool)
        row("8 episodes x one 0.5 s tool", f"{eight:.3f} s", "0.5 s ideal", "-", "<= 0.6 s", eight <= 0.6)
    noticed = await seconds_to_notice()
    row(
        "death at import, until reported",
        f"{noticed:.2f} s",
        "180 s verifiers 0.4.0",
        "-",
        "<= 2 s",
        noticed <= 2,
    )
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, and 8 processes scaled to 64")
    Console(width=120).print(asyncio.run(measure(parser.parse_args().quick)))
