"""The embedded world is the same everywhere, and its cache may be damaged or missing."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.worlds.market import store
from turnwise.worlds.market.store import WORLD_VERSION, open_image
from turnwise.worlds.market.world import World, open_world

DIGEST = """
import dataclasses, hashlib
from turnwise.worlds.market.data.sessions import HOURLY_SESSIONS, MINUTE_SESSIONS
from turnwise.worlds.market.store import make_image, open_database, read_market
from turnwise.worlds.market.tools.workspace import make_workspace

database = open_database(make_image(0))
digest = hashlib.sha256()
for table in ("company", "daily", "quarters", "article", "page"):
    for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid"):
        digest.update(repr(row).encode())
market = read_market(database, 0)
for company in market.companies()[::40]:
    digest.update(repr(market.hourly_bars(company.symbol, HOURLY_SESSIONS[0])).encode())
    digest.update(repr(market.minute_bars(company.symbol, MINUTE_SESSIONS[0])).encode())
    digest.update(repr(market.quote(company.symbol)).encode())
digest.update(repr(dataclasses.asdict(make_workspace(market))).encode())
print(digest.hexdigest())
"""
FILE = f"world-{WORLD_VERSION}-0.db"
PINNED = (1, "47fed4d03455865170cee60f3d264107e38b7bf923e42008bdae38d44708a95c")
"""World version and digest of seed 0. If the digest changes, raise WORLD_VERSION and pin both again."""

PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
PYTHONS = [sys.executable, *sorted(map(str, (PYENV / "versions").glob("3.1[2-9].*/bin/python")))]


@pytest.fixture
def image(world: World, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The cached image of seed 0; a test that has it made again gets the same one without the wait."""
    image = open_image(0, cache_dir)
    monkeypatch.setattr(store, "make_image", lambda seed: image)
    return image


@pytest.mark.parametrize("python", PYTHONS)
def test_the_world_is_pinned_to_its_version_on_every_python_and_hash_seed(python: str) -> None:
    source = Path(__file__).parents[3] / "src"
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "random", "PYTHONPATH": str(source)}
    done = subprocess.run([python, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert (WORLD_VERSION, done.stdout.strip()) == PINNED


def test_reading_the_world_does_not_import_the_mcp_sdk() -> None:
    code = "import sys, turnwise.worlds.market.world; assert 'mcp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_cache_is_read_and_not_made_again(cache_dir: Path, image: bytes) -> None:
    before = (cache_dir / FILE).stat()
    assert open_image(0, cache_dir) == image
    after = (cache_dir / FILE).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text"])
def test_a_damaged_cache_is_made_again(tmp_path: Path, cache_dir: Path, image: bytes, damage: str) -> None:
    kept = (cache_dir / FILE).read_bytes()
    middle = len(kept) // 2
    flipped = kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :]
    broken = {"empty": b"", "cut": kept[:-100], "flipped": flipped, "text": b"hello" * 99}[damage]
    (tmp_path / FILE).write_bytes(broken)
    assert open_image(0, tmp_path) == image
    assert (tmp_path / FILE).read_bytes() == kept


def test_without_a_cache_that_can_be_written_the_world_is_made_every_time(
    tmp_path: Path, image: bytes
) -> None:
    (tmp_path / "file").write_text("a file where the directory should be")
    assert open_image(0, tmp_path / "file" / "turnwise") == image
    assert open_image(0, None) == image, "for a user without a home"
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    assert open_image(0, tmp_path / "folder") == image
    assert [path.name for path in (tmp_path / "folder").iterdir()] == [FILE], "no temporary file is left"


def test_processes_that_make_the_world_at_once_all_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from turnwise.worlds.market.world import open_world;"
        "print(len(open_world(0, cache_dir=Path(sys.argv[1])).market.companies()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [maker.communicate(timeout=120)[0] for maker in makers] == ["200\n"] * 2
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


async def test_a_world_opened_in_one_thread_serves_another(cache_dir: Path) -> None:
    world = open_world(0, cache_dir=cache_dir)
    quote = await asyncio.to_thread(world.market.quote, "NORVC")
    assert quote == world.market.quote("NORVC")
