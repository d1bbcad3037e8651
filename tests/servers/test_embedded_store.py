"""The embedded world is the same everywhere, quick to make and to read, and its cache may break."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnwise.servers.embedded.store import WORLD_VERSION, open_image
from turnwise.servers.embedded.world import open_world

DIGEST = """
import dataclasses, hashlib, sys
from pathlib import Path
from turnwise.servers.embedded.sessions import HOURLY_SESSIONS, MINUTE_SESSIONS
from turnwise.servers.embedded.store import make_image, open_database, read_market
from turnwise.servers.embedded.workspace import make_workspace

database = open_database(make_image(int(sys.argv[1])))
digest = hashlib.sha256()
for table in ("company", "daily", "quarters", "article", "page"):
    for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid"):
        digest.update(repr(row).encode())
market = read_market(database, int(sys.argv[1]))
for company in market.companies()[::40]:
    digest.update(repr(market.hourly_bars(company.symbol, HOURLY_SESSIONS[0])).encode())
    digest.update(repr(market.minute_bars(company.symbol, MINUTE_SESSIONS[0])).encode())
    digest.update(repr(market.quote(company.symbol)).encode())
digest.update(repr(dataclasses.asdict(make_workspace(market))).encode())
print(digest.hexdigest())
"""

FILE = f"world-{WORLD_VERSION}-0.db"

PINNED = (1, "47fed4d03455865170cee60f3d264107e38b7bf923e42008bdae38d44708a95c")
"""World version and digest of seed 0: where the digest changes, raise WORLD_VERSION and pin both anew."""

PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
OTHER_PYTHONS = sorted(str(path) for path in (PYENV / "versions").glob("3.1[2-9].*/bin/python"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache file of seed 0, made once."""
    cache_dir = tmp_path_factory.getbasetemp() / "worlds" / "turnwise"
    open_image(0, cache_dir)
    return cache_dir / FILE


def digest(seed: int, *, python: str = sys.executable, hash_seed: str = "0") -> str:
    source = Path(__file__).parents[2] / "src"
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [python, "-c", DIGEST, str(seed)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_world_is_pinned_to_its_version() -> None:
    assert (WORLD_VERSION, digest(0)) == PINNED


def test_the_world_does_not_depend_on_the_hash_seed() -> None:
    assert digest(0, hash_seed="1") == digest(0, hash_seed="4242")


@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_the_world_is_the_same_on_every_other_python(python: str) -> None:
    assert digest(0, python=python) == PINNED[1]


def test_another_seed_gives_another_world() -> None:
    assert digest(7) != PINNED[1]


def test_reading_the_world_needs_neither_the_mcp_sdk_nor_the_tools() -> None:
    code = "import sys, turnwise.servers.embedded.world; assert 'mcp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_making_takes_under_two_seconds_and_reading_under_a_fifth(tmp_path: Path) -> None:
    start = time.process_time()
    open_world(0, cache_dir=tmp_path)
    made_seconds = time.process_time() - start
    readings = []
    for _ in range(3):
        start = time.process_time()
        world = open_world(0, cache_dir=tmp_path)
        world.market.quote("NORVC")
        readings.append(time.process_time() - start)
    # The goal is 2 s; of CPU time, and twice that, since the machine that runs the tests is shared.
    assert made_seconds < 4.0
    assert min(readings) < 0.2


def test_a_cached_world_answers_like_a_fresh_one(tmp_path: Path) -> None:
    fresh, cached = open_world(3, cache_dir=tmp_path), open_world(3, cache_dir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"world-{WORLD_VERSION}-3.db"]
    assert fresh.articles == cached.articles
    for one, other in zip(fresh.market.companies(), cached.market.companies(), strict=True):
        assert one == other
        assert fresh.market.quote(one.symbol) == cached.market.quote(one.symbol)


def test_the_cache_is_read_and_not_made_again(made: Path) -> None:
    before = made.stat()
    open_image(0, made.parent)
    after = made.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, made: Path, damage: str) -> None:
    whole = made.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    broken = {"empty": b"", "cut": whole[:-100], "flipped": flipped, "text": b"hello" * 99}[damage]
    (tmp_path / FILE).write_bytes(broken)
    assert open_image(0, tmp_path) == open_image(0, made.parent)
    assert (tmp_path / FILE).read_bytes() == whole


def test_a_cache_directory_that_cannot_be_written_only_costs_time(tmp_path: Path, made: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the directory should be")
    assert open_image(0, blocked / "turnwise") == open_image(0, made.parent)


def test_a_user_without_a_home_still_gets_a_world(made: Path) -> None:
    assert open_image(0, None) == open_image(0, made.parent)


def test_a_directory_in_place_of_the_cache_file_leaves_no_litter(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert len(open_world(0, cache_dir=tmp_path).market.companies()) == 200
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_processes_that_make_the_world_at_once_all_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from turnwise.servers.embedded.world import open_world;"
        "print(len(open_world(0, cache_dir=Path(sys.argv[1])).market.companies()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [maker.communicate(timeout=120)[0] for maker in makers] == ["200\n"] * 4
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


async def test_a_world_opened_in_one_thread_serves_another(made: Path) -> None:
    world = open_world(0, cache_dir=made.parent)
    quote = await asyncio.to_thread(world.market.quote, "NORVC")
    assert quote == world.market.quote("NORVC")
