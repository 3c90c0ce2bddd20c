"""The folder that keeps what was compiled, and for which apps all was. Does not need Numba, so that whoever starts an app can look."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from nadi.config.ownership import check_own, make_folders
from nadi.kernel.columns.sweeping import touch


def cache_root() -> Path:
    """What nadi keeps for later starts of this user, whatever they start. What lies there is run: nobody but this user and root may write to it.

    Errors: FOLDER_NOT_PRIVATE.
    """
    named, caches = os.environ.get("NADI_CACHE"), os.environ.get("XDG_CACHE_HOME")
    root = Path(named) if named else Path(caches or Path.home() / ".cache") / "nadi"
    check_own(root)
    return root


CHECKED = os.environ.get("NADI_CHECKED", "0") not in ("", "0")
"""Whether loops look at each index before they use it: for state of strangers, in which an index may be any."""


def cache_folder() -> Path:
    """Where compiled loops are kept; those that check their indices have a folder of their own. Errors: FOLDER_NOT_PRIVATE."""
    folder = cache_root() / ("checked" if CHECKED else "loops")
    check_own(folder)
    return folder


def java_folder() -> Path:
    """Where is kept what Java loads. Errors: FOLDER_NOT_PRIVATE."""
    folder = cache_root() / "java"
    check_own(folder)
    return folder


@cache
def build() -> str:
    """Tells one state of this package from another: Numba does not see that a function has changed that a cached loop calls."""
    told = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        told.update(file.read_bytes())
    return told.hexdigest()


def _mark(text: str, outputs: Iterable[str]) -> Path:
    """The file that says that all of an app is compiled: by this package at this place, and this Numba."""
    told = "\0".join(
        (text, *outputs, build(), str(Path(__file__)), version("numba"), os.environ.get("NUMBA_CACHE_DIR", ""))
    )
    return cache_folder() / f"app_{hashlib.sha256(told.encode()).hexdigest()[:24]}"


def is_compiled(text: str, outputs: Iterable[str]) -> bool:
    """Whether all loops of an app were compiled once."""
    mark = _mark(text, outputs)
    touch(mark)
    return mark.exists()


def note_compiled(text: str, outputs: Iterable[str]) -> None:
    """Say that they are. Where the folder cannot be written, nothing is kept."""
    path = _mark(text, outputs)
    try:
        make_folders(path.parent)
        path.touch()
    except OSError:
        return
