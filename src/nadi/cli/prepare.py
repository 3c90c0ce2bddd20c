"""`nadi prepare`: what later starts are quicker with; exit status 0, 1 where it could not be made."""

from __future__ import annotations

import sys
import time

from nadi.errors import NadiError
from nadi.pipeline.archivemaker import make
from nadi.pipeline.classarchive import archive
from nadi.pipeline.session import java


def prepare() -> int:
    """Make the archive of Java's classes unless it is there, and say what was done."""
    path = archive(java())
    if path is not None and path.exists():
        print(f"{path} is there ({path.stat().st_size / 1e6:,.0f} MB)")
        return 0
    begin = time.monotonic()
    print("running a small app to see what Java loads", flush=True)
    try:
        path = make(java())
    except NadiError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{path} was made in {time.monotonic() - begin:.0f} s ({path.stat().st_size / 1e6:,.0f} MB)")
    return 0
