"""
Files of compiled code, kept from one process to the next.

The content of a file is executed.  So a file must belong to the user, be writable by no one else,
and hold undamaged the data written under its name; otherwise it is ignored.  Failed writes are
ignored too: a cache never makes a call fail.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path

DIGEST = 16  # bytes
LARGEST = 2**27  # bytes of a file that is read; compiled code takes some hundred thousand
MONTH = 30 * 24 * 3600.0  # seconds after which an unused folder is removed
MARKER = ".dlref"  # a file that says that a folder was made here
TEMPORARY = "tmp-"
#: How a file is opened: never through a link, and as bytes, which Windows has to be asked for.
FLAGS = os.O_RDONLY | sum(
    getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "NOFOLLOW", "BINARY")
)


def user_folder() -> Path | None:
    """Return the folder that the platform reserves for caches, or None."""
    chosen = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if chosen.is_absolute():  # a relative one would follow the working directory
        return chosen
    variable, inside = {
        "win32": ("LOCALAPPDATA", "AppData/Local"),
        "darwin": ("", "Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    path = Path(os.environ.get(variable, ""))
    if path.is_absolute():  # the specification of XDG has others ignored
        return path
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        return None
    # an empty HOME would mean the root
    return home / inside if home.is_absolute() and home != home.parent else None


def folder_of(key: str) -> Path | None:
    """Return the folder for compiled code of some kind, or None if there is none to be trusted."""
    root = user_folder()
    if root is None:
        return None
    folder = root / "dlref" / key
    try:
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            (folder / MARKER).touch(mode=0o600)
            _remove_unused(folder)
        except FileExistsError:
            with contextlib.suppress(OSError):  # read-only
                os.utime(folder)  # it is used
        return folder if _is_ours(folder) else None
    except OSError:
        return None


def _is_safe(status: os.stat_result) -> bool:
    """Return whether a file or folder is the user's own, and no one else can write to it."""
    return not hasattr(os, "geteuid") or (
        status.st_uid == os.geteuid() and not status.st_mode & 0o022
    )


def _is_ours(folder: Path) -> bool:
    """
    Return whether nobody else can put another folder in the place of one.

    The folder and the one above were made here: they are no links, and no one else writes to them.
    Further up a folder may be root's, and may be writable by all if it is sticky, as /tmp is.
    """
    made = [folder.lstat(), folder.parent.lstat()]
    if not all(stat.S_ISDIR(status.st_mode) and _is_safe(status) for status in made):
        return False
    return all(_keeps_names(above.stat()) for above in folder.parent.resolve().parents)


def _keeps_names(status: os.stat_result) -> bool:
    """Return whether other users cannot rename what lies in a folder."""
    trusted = not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())
    return trusted and (not status.st_mode & stat.S_IWOTH or bool(status.st_mode & stat.S_ISVTX))


def _remove_unused(folder: Path) -> None:
    """Remove dlref's own sibling folders of a new one that have not been used for a month."""
    for other in folder.parent.iterdir():
        status = other.lstat()
        own = stat.S_ISDIR(status.st_mode) and _is_safe(status) and (other / MARKER).is_file()
        if own and time.time() - status.st_mtime > MONTH:
            shutil.rmtree(other, ignore_errors=True)  # refuses links


def _remove_temporary(folder: Path) -> None:
    """Remove the files of processes that ended while they wrote, an hour ago or more."""
    for path in folder.glob(f"{TEMPORARY}*"):
        if time.time() - path.lstat().st_mtime > 3600:
            path.unlink(missing_ok=True)


def _path(folder: Path, name: str) -> Path:
    return folder / hashlib.blake2b(name.encode(), digest_size=DIGEST).hexdigest()


def _digest(name: str, data: bytes) -> bytes:
    """Return a digest of a name and its data, which shows damage and exchanged files."""
    return hashlib.blake2b(name.encode() + b"\0" + data, digest_size=DIGEST).digest()


def read(folder: Path | None, name: str) -> bytes | None:
    """Return the data written under a name, or None."""
    if folder is None:
        return None
    try:
        # a pipe in the file's place would wait for a writer
        number = os.open(_path(folder, name), FLAGS)
        with open(number, "rb") as file:
            status = os.fstat(number)
            if not (
                stat.S_ISREG(status.st_mode) and _is_safe(status) and status.st_size <= LARGEST
            ):
                return None
            digest, data = file.read(DIGEST), file.read()
    except OSError:
        return None
    return data if digest == _digest(name, data) else None


def write(folder: Path | None, name: str, data: bytes) -> None:
    """Write a file atomically, replacing an old one; ignore failures."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may have been removed
        _remove_temporary(folder)
        number, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
        try:
            with open(number, "wb") as file:
                file.write(_digest(name, data) + data)
            os.replace(temporary, _path(folder, name))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
