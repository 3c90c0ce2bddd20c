"""Folders that are this user's alone: where a node keeps its state, its secrets and its sockets, and what it keeps to run again.

A link in the place of a folder is refused, as somebody else may have put it there; a path that a user names is resolved first.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nadi.errors import NadiError, error

OWN_FOLDER = 0o700
OWN_FILE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


def make_private(folder: Path) -> bool:
    """Make a folder that only this user can enter. One that is there, belongs to this user and can only be written by this user is closed to others; whether it
    was open before.

    Errors: FOLDER_NOT_PRIVATE, where it belongs to somebody else, others may write to it, or it is no folder; FOLDER_NOT_MADE.

    >>> from tempfile import mkdtemp
    >>> made = Path(mkdtemp()) / "state"
    >>> make_private(made), oct(made.stat().st_mode & 0o777)
    (False, '0o700')
    >>> made.chmod(0o755)
    >>> make_private(made), make_private(made)
    (True, False)
    """
    try:
        folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        found = folder.lstat()
        wrong = _wrong(found, (os.geteuid(),))
        if wrong:
            raise _refused(folder, wrong)
        opened = bool(found.st_mode & _OTHERS)
        if opened or found.st_mode & OWN_FOLDER != OWN_FOLDER:
            folder.chmod(OWN_FOLDER)
    except FileExistsError:
        raise _refused(folder, "is no folder") from None
    except OSError as reason:
        raise error("FOLDER_NOT_MADE", folder=folder, reason=reason.strerror) from reason
    return opened


def check_own(folder: Path) -> None:
    """Refuse a folder whose files somebody else may have put there: only this user and root may write to it. One that is not there is right.

    Errors: FOLDER_NOT_PRIVATE.
    """
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    except OSError as reason:
        raise _refused(folder, f"cannot be looked at: {reason.strerror}") from reason
    if wrong := _wrong(found, (os.geteuid(), _ROOT)):
        raise _refused(folder, wrong)


def is_own(folder: Path) -> bool:
    """Whether a folder is there, belongs to this user, only this user may write to it, and it is no link."""
    try:
        return not _wrong(folder.lstat(), (os.geteuid(),))
    except OSError:
        return False


def own_file(path: str, flags: int) -> int:
    """What `open` is to open a file with (`opener`) that only this user may read, where it makes one."""
    return os.open(path, flags, OWN_FILE)


def _wrong(found: os.stat_result, owners: tuple[int, ...]) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid not in owners:
        return f"belongs to another user (number {found.st_uid})"
    if found.st_mode & _WRITE:
        return f"can be written by other users (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


def _refused(folder: Path, reason: str) -> NadiError:
    return error("FOLDER_NOT_PRIVATE", folder=folder, reason=reason)
