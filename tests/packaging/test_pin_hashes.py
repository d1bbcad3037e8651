"""What pip installs is compared with the pinned digests."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "pin_hashes.py"
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
DIGESTS = [line.split("  ") for line in (ROOT / "constraints.sha256").read_text().splitlines()]


def check(report: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "check", str(report)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write_report(path: Path, file: str, digest: str) -> Path:
    source = {"url": f"https://example.com/{file}", "archive_info": {"hashes": {"sha256": digest}}}
    path.write_text(json.dumps({"install": [{"download_info": source}]}))
    return path


def test_every_pinned_package_has_digests() -> None:
    files = {file.lower().replace("-", "_").replace(".", "_") for _, file in DIGESTS}
    for name, version in PINS.items():
        beginning = f"{name}-{version}".lower().replace("-", "_").replace(".", "_")
        assert any(file.startswith(beginning) for file in files), name


def test_a_forged_file_that_pip_would_install_is_found(tmp_path: Path) -> None:
    wheel = tmp_path / f"idna-{PINS['idna']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        info = f"idna-{PINS['idna']}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: idna\nVersion: {PINS['idna']}\n"
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    report = tmp_path / "report.json"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-index"]
    where = ["--find-links", str(tmp_path), "--report", str(report), "idna"]
    subprocess.run([*pip, *where], check=True, env={**os.environ, "PIP_EXTRA_INDEX_URL": ""})
    found = check(report)
    assert found.returncode == 1
    assert f"{wheel.name}: is another file than the pinned one" in found.stderr
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in found.stderr


def test_a_file_with_its_pinned_digest_passes_and_a_package_without_a_pin_too(tmp_path: Path) -> None:
    digest, file = DIGESTS[0]
    assert check(write_report(tmp_path / "known", file, digest)).returncode == 0
    unpinned = write_report(tmp_path / "unpinned", "setuptools-80.0-py3-none-any.whl", "0")
    assert check(unpinned).returncode == 0


def test_a_file_that_the_list_does_not_have_is_named(tmp_path: Path) -> None:
    report = write_report(tmp_path / "report", f"numpy-{PINS['numpy']}-cp399-cp399-win_amd64.whl", "0" * 64)
    found = check(report)
    assert found.returncode == 0
    assert "has no pinned digest" in found.stderr
