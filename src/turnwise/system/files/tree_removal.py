"""Remove a folder that an untrusted process may have filled: never raises, follows no link, needs no stack.

`shutil.rmtree` recurses (Python 3.11) or keeps a descriptor open for each level (3.14), so a thousand nested
folders stop it, and it gives up on folders without permissions. Here every folder is moved up into the one
that is being removed, then emptied: paths stay short, however deep the tree was.
"""

import itertools
import os
import secrets
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NUM_PASSES = 64
"""Most scans of one folder. A file system may skip entries while others are removed, but not that often."""


def remove_tree(path: Path) -> str:
    """Remove a folder with its contents, a file or a link; return why something is left, or an empty text."""
    try:
        os.unlink(path)  # noqa: PTH108 (as below, where the path is relative to a descriptor)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if not path.is_dir() or path.is_symlink():
            return _reason(path.name, error)
    else:
        return ""
    try:
        parent = os.open(path.parent, _FOLDER & ~os.O_NOFOLLOW)
    except OSError as error:
        return _reason(path.name, error)
    try:
        return _Removal(path.name, parent).run()
    finally:
        os.close(parent)


class _Removal:
    """The removal of one folder. What cannot be removed is counted, and everything else is removed."""

    def __init__(self, name: str, parent: int) -> None:
        self._name = name
        self._parent = parent
        self._mark = f".removed-{secrets.token_hex(8)}-"
        self._numbers = itertools.count()
        self._waiting: list[str] = []
        self._reason = ""
        self._num_left = 0

    def run(self) -> str:
        _allow(self._name, self._parent)
        try:
            root = os.open(self._name, _FOLDER, dir_fd=self._parent)
        except OSError as error:
            return _reason(self._name, error)
        try:
            self._empty(root, root)
            while self._waiting:
                self._remove(self._waiting.pop(), root)
        finally:
            os.close(root)
        self._rmdir(self._name, self._parent)
        more = f", and {self._num_left - 1:,} more" if self._num_left > 1 else ""
        return f"{self._reason}{more}" if self._reason else ""

    def _remove(self, name: str, root: int) -> None:
        """Empty and remove a folder that was moved into the root."""
        _allow(name, root)
        try:
            folder = os.open(name, _FOLDER, dir_fd=root)
        except OSError as error:
            self._leave(name, error)
            return
        try:
            self._empty(folder, root)
        finally:
            os.close(folder)
        self._rmdir(name, root)

    def _empty(self, folder: int, root: int) -> None:
        """Unlink a folder's files and move its folders into the root, until nothing changes any more."""
        for _ in range(_NUM_PASSES):
            left = self._reason, self._num_left
            num_removed = 0
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        num_removed += self._take(entry, folder, root)
            except OSError as error:
                self._leave("a folder", error)
            if not num_removed:
                return
            self._reason, self._num_left = left  # the next pass meets what is left once more

    def _take(self, entry: "os.DirEntry[str]", folder: int, root: int) -> bool:
        """Return whether the entry is out of its folder."""
        if folder == root and entry.name.startswith(self._mark):
            return False
        try:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                return True
            self._waiting.append(self._moved(entry.name, folder, root))
        except OSError as error:
            self._leave(entry.name, error)
            return False
        return True

    def _moved(self, name: str, folder: int, root: int) -> str:
        """Move a folder into the root and return its new name. OSError if something is mounted there."""
        new = f"{self._mark}{next(self._numbers)}"
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=root)
        except PermissionError:  # moving a folder writes to it
            _allow(name, folder)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=root)
        return new

    def _rmdir(self, name: str, parent: int) -> None:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if not self._reason:  # else what is left inside is the reason
                self._leave(name, error)

    def _leave(self, name: str, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):  # somebody else removed it
            return
        self._reason = self._reason or _reason(name, error)
        self._num_left += 1


def _allow(name: str, parent: int) -> None:
    """Allow ourselves everything in a folder. A link is not followed; a failure shows at the next call."""
    try:
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
    except (OSError, NotImplementedError, ValueError):  # ValueError: it needs /proc, which is not mounted
        return


def _reason(name: str, error: OSError) -> str:
    return f"{name[:80]!r}: {error.strerror}"
