"""The classes that Spark needs as an archive, which Java maps instead of reading, checking and linking them one by one: half the processor time of a start.

Java's own means for that (`-XX:ArchiveClassesAtExit`): see `archivemaker`. An archive belongs to one Java and one installation of pyspark; a Java that finds
anything else there goes on without it. `nadi prepare` makes it, or a node that has run for a minute, beside its work and with the lowest priority.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nadi.config.ownership import make_folders
from nadi.kernel.columns.cached import java_folder

AFTER = 60.0  # seconds that a node has run before it makes one: short runs are not disturbed
_BESIDE = f"""\
import os, time
os.nice(19)
time.sleep({AFTER})
from nadi.pipeline.archivemaker import make
from nadi.pipeline.session import java
make(java())
"""
"""Nothing is imported before its time: a node that starts needs its processors."""


def archive(java: str | None) -> Path | None:
    """Where the archive of a Java (the path of its program) is kept; None without one."""
    if java is None:
        return None
    home = Path(java).resolve().parent.parent
    machine = home / "lib" / "server" / "libjvm.so"
    found = machine.stat() if machine.exists() else Path(java).stat()
    pyspark = find_spec("pyspark")
    told = (home, found.st_size, found.st_mtime_ns, version("pyspark"), pyspark.origin if pyspark else "")
    name = hashlib.sha256("\0".join(map(str, told)).encode()).hexdigest()[:16]
    return java_folder() / f"{name}.jsa"


def use(java: str | None, extra: str) -> str:
    """The option with which Java uses the archive; none where there is no archive, or `extra` options say something of it."""
    path = archive(java)
    if path is None or not path.exists() or "Archive" in extra or "-Xshare" in extra:
        return ""
    with contextlib.suppress(OSError):  # somebody else's, or read only: then nobody here will remove it
        os.utime(path)
    return f"-XX:SharedArchiveFile={path}"


class Later:
    """Makes the archive of a node's Java in a process of its own, once the node has run for a while; ends with the node."""

    def __init__(self, java: str | None, logs: Path) -> None:
        path = archive(java)
        self._process: subprocess.Popen[bytes] | None = None
        if path is None or path.exists():
            return
        make_folders(logs)
        with (logs / "prepare.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BESIDE], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def close(self) -> None:
        """End it where it is not through, and its Java, which would take its time to write what it has loaded."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # from now on it starts nothing
        started = _children(self._process.pid)
        self._process.kill()
        self._process.wait()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """The processes that a process has started; none where the system does not tell."""
    found: list[int] = []
    for told in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, told.read_text().split())
    return found
