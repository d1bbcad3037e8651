"""Memory limits of containers and batch jobs, from files as the kernel writes them."""

from pathlib import Path

import pytest

from turnwise.models import device_memory
from turnwise.models.device_memory import Memory, container_limits, memory_of

GIB = 2**30


def second(folder: Path, limit: str, used: int, cached: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used - cached}\nfile {cached}\ninactive_file {cached}\n")


def own(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "own"
    file.write_text(text)
    return file


def test_a_container_s_limit_is_at_the_root_and_cached_files_are_free(tmp_path: Path) -> None:
    second(tmp_path, str(8 * GIB), 3 * GIB, cached=GIB)
    assert [*container_limits(tmp_path, own(tmp_path, "0::/\n"))] == [Memory(6 * GIB, 8 * GIB)]


def test_limits_of_all_groups_above_count(tmp_path: Path) -> None:
    second(tmp_path / "jobs" / "7" / "step", "max", GIB)
    second(tmp_path / "jobs" / "7", str(4 * GIB), 5 * GIB)
    second(tmp_path / "jobs", str(64 * GIB), 6 * GIB)
    found = [*container_limits(tmp_path, own(tmp_path, "0::/jobs/7/step\n"))]
    assert found == [Memory(0, 4 * GIB), Memory(58 * GIB, 64 * GIB)]


def test_the_first_version_has_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / "docker" / "abc"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{2 * GIB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{GIB}\n")
    (folder / "memory.stat").write_text(f"cache 5\ntotal_inactive_file {GIB // 2}\n")
    text = "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n"
    assert [*container_limits(tmp_path, own(tmp_path, text))] == [Memory(GIB + GIB // 2, 2 * GIB)]


def test_without_control_groups_there_are_no_limits(tmp_path: Path) -> None:
    assert [*container_limits(tmp_path, tmp_path / "missing")] == []
    assert [*container_limits(tmp_path, own(tmp_path, "0::/somewhere\n"))] == []


def test_the_smallest_limit_is_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory_of("cpu")
    assert 0 < whole.free <= whole.total
    monkeypatch.setattr(device_memory, "container_limits", lambda: [Memory(GIB // 4, GIB // 2)])
    assert memory_of("cpu") == Memory(GIB // 4, GIB // 2)
