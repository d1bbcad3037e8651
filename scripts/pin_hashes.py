"""The digests of the pinned packages' files: write them, or compare what pip has installed with them.

    python scripts/pin_hashes.py write             constraints.sha256, from the index, for constraints.txt
    python scripts/pin_hashes.py check REPORT...   the files of pip's reports (pip install --report REPORT)

pip's own --require-hashes refuses editable installs and wants every requirement of every set in one list. So
the files are compared when they are unpacked and nothing of them has been imported yet.
"""

import concurrent.futures
import json
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
PINS, DIGESTS = ROOT / "constraints.txt", ROOT / "constraints.sha256"
INDEX = "https://pypi.org/simple"

_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
_FILE = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*?)(?:\+cpu)?(?:-.+\.whl|\.tar\.gz|\.zip)")
_WANTED = re.compile(
    r".*\.(?:tar\.gz|zip)|.*-none-any\.whl"
    r"|.*-(?:cp31[123]-cp31[123]|cp3\d+-abi3|py3-none)-(?:manylinux.*_(?:x86_64|aarch64)|macosx.*)\.whl"
)
"""Sources, and wheels for CPython 3.11 to 3.13 on Linux and macOS."""


def write() -> None:
    """Write a line for each wanted file. CPU builds of torch are not in the index: their lines are kept."""
    pins = _pins()
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        found = [*workers.map(_files_in_index, pins)]
    if missing := [name for name, files in zip(pins, found, strict=True) if not files]:
        raise SystemExit(f"{INDEX} has no file of {', '.join(missing)}")
    digests = {file: digest for files in found for file, digest in files if _is_of(file, pins)}
    kept = {file: digest for file, digest in _digests().items() if "+cpu" in file and _is_of(file, pins)}
    lines = (f"{digest}  {file}\n" for file, digest in sorted({**digests, **kept}.items()))
    DIGESTS.write_text("".join(lines))


def check(reports: Sequence[Path]) -> list[str]:
    """The files of pinned packages that are not those of the list, in words."""
    digests, pins, wrong = _digests(), _pins(), []
    for report in reports:
        for installed in json.loads(report.read_text())["install"]:
            source = installed["download_info"]
            file = unquote(urlsplit(source["url"]).path.rpartition("/")[2])
            if "archive_info" not in source or not _is_of(file, pins):
                continue  # turnwise itself, or a package that is not pinned, such as setuptools
            digest = source["archive_info"].get("hashes", {}).get("sha256", "unknown")
            if digests.get(file) != digest:
                is_known = file in digests and digest != "unknown"
                why = "is another file than the pinned one" if is_known else "has no pinned digest"
                wrong.append(f"{source['url']}: {why} (sha256 {digest})")
    return wrong


def _files_in_index(name: str) -> list[tuple[str, str]]:
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:  # noqa: S310 (it is https)
        links = _LINK.findall(page.read().decode())
    files = [(unquote(urlsplit(unescape(link)).path.rpartition("/")[2]), digest) for link, digest in links]
    return [(file, digest) for file, digest in files if _WANTED.fullmatch(file)]


def _is_of(file: str, pins: Mapping[str, str]) -> bool:
    found = _FILE.fullmatch(file)
    return found is not None and pins.get(_normal(found["name"])) == found["version"]


def _pins() -> dict[str, str]:
    pins = (line.partition("==") for line in PINS.read_text().split())
    return {_normal(name): version for name, _, version in pins}


def _digests() -> dict[str, str]:
    lines = DIGESTS.read_text().splitlines() if DIGESTS.exists() else []
    return {file: digest for digest, _, file in (line.partition("  ") for line in lines)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["check", *reports]:
            wrong = check([Path(report) for report in reports])
            print("\n".join(wrong), end="\n" * bool(wrong), file=sys.stderr)
            # a file that the list does not have may be for another platform: it is only named
            sys.exit(any("is another file" in line for line in wrong))
        case _:
            sys.exit(__doc__)
