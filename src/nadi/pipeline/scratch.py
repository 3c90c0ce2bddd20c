"""Where Spark puts on one machine what it needs for a while: its shuffles, which hold events, and the libraries that Java unpacks.

Spark's own choice is the temporary folder of all users, with files that each of them may read, and a JVM that is killed leaves them there. Here it is a folder
per process that starts Spark, `<own folder>/spark-<process id>`, for this user only. It begins empty, and goes when Spark has ended; what processes that were
killed have left goes with the next start of any.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nadi.config.ownership import make_private
from nadi.pipeline.hosting.hostclient import is_gone, own_folder

_PREFIX = "spark-"


def make_scratch() -> Path:
    """An empty folder for the Spark of this process. Errors: HOST_UNAVAILABLE, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
    folder = _folder()
    for left in folder.parent.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX)
        if owner.isdecimal() and (left == folder or is_gone(int(owner))):
            shutil.rmtree(left, ignore_errors=True)
    make_private(folder)
    return folder


def remove_scratch() -> None:
    """Remove the folder of this process, whose Spark has ended."""
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return own_folder() / f"{_PREFIX}{os.getpid()}"
