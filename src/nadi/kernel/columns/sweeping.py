"""The folder of compiled loops: what no process has used for a month is deleted, at most once a day, by one that starts while no other one is there.

Who uses the folder holds a lock on a file in it for as long as it lives, together with all others who do. To delete, it must be alone: Numba would fail where a
folder is gone that it has found. What is used is touched. It is too old if others have been used a month later: a folder that nobody uses for long, as that in
the image of a container, stays as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nadi.config.ownership import make_folders

# not on Windows: nothing is deleted there
FILES: Any = import_module("fcntl") if find_spec("fcntl") else None

_DAY = 86_400  # s
_UNUSED = 30 * _DAY

_held: dict[Path, int] = {}
"""The locks of this process, by folder: open files, until it ends."""


def use(folder: Path) -> None:
    """Nobody deletes anything in a folder from now on until this process ends; it comes first. Costs nothing the second time."""
    if FILES is None or folder in _held:
        return
    with suppress(OSError):  # a folder that cannot be written keeps nothing
        make_folders(folder)
        lock = _held[folder] = os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _alone(lock):
                _sweep(folder, os.fstat(lock).st_mtime)
        finally:
            FILES.flock(lock, FILES.LOCK_SH)  # it lets others in that wait, and waits for one that deletes
        os.utime(lock)


def touch(path: Path) -> None:
    """Something was used."""
    with suppress(OSError):  # it is not there, or not ours
        os.utime(path)


def _alone(lock: int) -> bool:
    try:
        FILES.flock(lock, FILES.LOCK_EX | FILES.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path, now: float) -> None:
    """Delete what is too old, if nobody has looked for a day; `now` is when the folder was last used."""
    mark = folder / "swept"
    if mark.exists() and now - mark.stat().st_mtime < _DAY:
        return
    mark.touch()
    os.utime(mark, (now, now))
    for own in _children(folder / "own"):
        if now - own.stat().st_mtime > _UNUSED:
            shutil.rmtree(own)
    gone = set()
    for file in (*folder.glob("loop_*.py"), *folder.glob("app_*")):
        if now - file.stat().st_mtime > _UNUSED:
            gone.add(file.stem)
            file.unlink()
            file.with_suffix(".lock").unlink(missing_ok=True)
    for code in _children(folder / "__pycache__"):
        if code.name.partition(".")[0] in gone:
            code.unlink()


def _children(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
