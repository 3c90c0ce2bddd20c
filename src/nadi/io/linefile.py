"""Adding lines to a file that several processes add to: one at a time, whole lines only, on the disk on return.

A line that a crash has torn is dropped by whoever adds next; what does not fit on the disk is taken back, so that it is there whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from nadi.config.ownership import own_file
from nadi.errors import error
from nadi.io.staging import sync_folder

Made = Callable[[bytes], Sequence[bytes]]
"""Given the whole lines that the file has, the lines to add (without their ends)."""


def append_lines(path: Path, made: Made) -> int:
    """Adds lines; -> how many the file had before. Nobody else adds between the call of `made` and the end. Errors: DISK_FULL, those of `made`."""
    try:
        with open(path, "a+b", opener=own_file) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            lines = made(whole)
            if len(content) > len(whole):
                file.truncate(len(whole))
            try:
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), len(whole))
                raise
        sync_folder(path.parent)
    except OSError as reason:
        raise error("DISK_FULL", path=f"{path} ({reason.strerror})") from reason
    return whole.count(b"\n")
