"""The classes that Spark needs as an archive, which Java maps instead of reading, checking and linking them one by one: half the processor time of a start.

Java's own means for that (`-XX:ArchiveClassesAtExit`): a small app runs on Spark, and what was loaded is written when that Java ends. An archive belongs
to one Java and one installation of pyspark; a Java that finds anything else there goes on without it. `nadi prepare` makes it, or a node that has run for a
minute, beside its work and with the lowest priority.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nadi.errors import error
from nadi.kernel.columns.cached import cache_root

AFTER = 60.0  # seconds that a node has run before it makes one: short runs are not disturbed
WRITTEN_WITHIN = 180.0  # seconds for Java to write it
PRIORITY = 19
KEPT = 30 * 24 * 3600.0
"""Seconds without a use after which an archive goes when another one is made: that of a Java or an installation that is gone."""

_APP = """\
@app:name('Prepare')
@source(type='file', file.uri='{folder}/in.jsonl', @map(type='json'))
define stream In (key string, price double);
@sink(type='file', file.uri='{folder}/out.jsonl', append='false', @map(type='json'))
define stream Out (key string, low double, high double);
partition with (key of In) begin
    from every e1=In -> e2=In[price > e1.price] select e1.key as key, e1.price as low, e2.price as high insert into Out;
end;
"""


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
    return cache_root() / "java" / f"{name}.jsa"


def use(java: str | None, extra: str) -> str:
    """The option with which Java uses the archive; none where there is no archive, or `extra` options say something of it."""
    path = archive(java)
    if path is None or not path.exists() or "Archive" in extra or "-Xshare" in extra:
        return ""
    with contextlib.suppress(OSError):  # somebody else's, or read only: then nobody here will remove it
        os.utime(path)
    return f"-XX:SharedArchiveFile={path}"


def make(java: str | None) -> Path:
    """Make the archive, unless it is there or somebody else makes it, who is waited for. Errors: SPARK_NOT_STARTED, ARCHIVE_NOT_MADE."""
    path = archive(java)
    if path is None:
        raise error("ARCHIVE_NOT_MADE", reason="there is no java on the path", log="")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unused = [p for p in path.parent.glob("*.jsa") if time.time() - p.stat().st_mtime > KEPT]
        for left in (*path.parent.glob(f"{path.stem}-*.new"), *unused):
            left.unlink(missing_ok=True)
        if not path.exists():
            _make(path)
    return path


def _make(path: Path) -> None:
    fresh = path.with_name(f"{path.stem}-{os.getpid()}.new")
    folder = Path(tempfile.mkdtemp(prefix="nadi-prepare-"))
    try:
        _run(folder, fresh)
        if not fresh.exists():
            raise error("ARCHIVE_NOT_MADE", reason="Java wrote none", log=folder / "logs" / "spark-output.log")
        fresh.replace(path)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        fresh.unlink(missing_ok=True)


def _run(folder: Path, fresh: Path) -> None:
    """A small app, on a Java that writes the archive when it ends."""
    from nadi.pipeline.engine import plan_app
    from nadi.pipeline.node import AppText, NodeOptions, make_spec
    from nadi.pipeline.run import end_session
    from nadi.pipeline.session import SessionOptions, build_session
    from nadi.pipeline.supervisor import supervise

    events = (b'{"event":{"key":"k%d","price":%d.5}}\n' % (i % 7, i % 50) for i in range(2_000))
    (folder / "in.jsonl").write_bytes(b"".join(events))
    conf = {"nadi.batch.events": "400", "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}"}
    options = NodeOptions(folder / "state", conf=conf, until_end=True)
    session = build_session(SessionOptions(options.master, folder / "logs", options.spark(), "nadi prepare"))
    try:
        text = _APP.format(folder=folder)
        spec = make_spec(AppText(text), plan_app(text), options, 2, "")
        (ended,) = supervise(session, [spec], options, threading.Event(), lambda _progress: None).apps
    finally:
        end_session(session, WRITTEN_WITHIN)
    if ended.error is not None:
        raise ended.error


class Later:
    """Makes the archive of a node's Java in a process of its own, once the node has run for a while; ends with the node."""

    def __init__(self, java: str | None, logs: Path) -> None:
        path = archive(java)
        self._process: subprocess.Popen[bytes] | None = None
        if path is None or path.exists():
            return
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / "prepare.log").open("wb") as log:
            command = [sys.executable, "-m", "nadi.pipeline.classarchive", "--after", str(AFTER)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def close(self) -> None:
        """End it where it is not through. Its Java ends with it, as nobody writes to that any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """What the process does."""
    from nadi.pipeline.session import java

    options = argparse.ArgumentParser(description="Make the archive of Java's classes.")
    options.add_argument("--after", type=float, default=0.0, help="seconds to wait before")
    asked = options.parse_args()
    os.nice(PRIORITY)
    time.sleep(asked.after)
    make(java())


if __name__ == "__main__":
    main()
