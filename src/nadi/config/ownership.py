"""Folders that are this user's alone: where a node keeps its state, its secrets and its sockets, and what it keeps to run again.

A link in the place of a folder is refused, as somebody else may have put it there; a path that a user names is resolved first.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from nadi.errors import NadiError, error

OWN_FOLDER = 0o700
OWN_FILE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
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
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(OWN_FOLDER, exist_ok=True)
        found = folder.lstat()
        reason = _wrong(found, (os.geteuid(),))
        if reason:
            raise _refused(folder, reason)
        opened = bool(found.st_mode & _OTHERS)
        if opened or found.st_mode & OWN_FOLDER != OWN_FOLDER:
            folder.chmod(OWN_FOLDER)
    except FileExistsError:
        raise _refused(folder, "is no folder") from None
    except OSError as reason:
        raise error("FOLDER_NOT_MADE", folder=folder, reason=reason.strerror) from reason
    return opened


def make_folders(folder: Path) -> None:
    """Make a folder, and what is missing above it, for this user only. (`mkdir` makes those above as the mask of the process says.)"""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(OWN_FOLDER, exist_ok=True)


def check_own(folder: Path) -> None:
    """Refuse a folder whose files somebody else may have put there: only this user and root may write to it. What is no folder, or cannot be looked at, has no
    files that could be taken: that is for whoever wants to use it.

    Errors: FOLDER_NOT_PRIVATE.
    """
    try:
        found = folder.stat()
    except OSError:
        return
    reason = _wrong(found, (os.geteuid(), _ROOT))
    if reason and stat.S_ISDIR(found.st_mode):
        raise _refused(folder, reason)


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
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_alone_in(found.st_gid)):
        return f"can be written by other users (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


def _is_alone_in(group: int) -> bool:
    """Whether a group is the one that a user has for himself, as many systems make it, where the mask lets groups write."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def _refused(folder: Path, reason: str) -> NadiError:
    return error("FOLDER_NOT_PRIVATE", folder=folder, reason=reason)
