"""Making the archive of Java's classes: a small app runs on Spark, and what was loaded is written when that Java ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from nadi.config.ownership import make_folders
from nadi.errors import error
from nadi.pipeline.classarchive import archive
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, make_spec
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, build_session
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import supervise

WRITTEN_WITHIN = 180.0  # seconds for Java to write it
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


def make(program: str | None) -> Path:
    """Make the archive of a Java (the path of its program), unless it is there or somebody else makes it, who is waited for.

    Errors: SPARK_NOT_STARTED, ARCHIVE_NOT_MADE.
    """
    path = archive(program)
    if path is None:
        raise error("ARCHIVE_NOT_MADE", reason="there is no java on the path", log="")
    make_folders(path.parent)
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
    events = (b'{"event":{"key":"k%d","price":%d.5}}\n' % (i % 7, i % 50) for i in range(2_000))
    (folder / "in.jsonl").write_bytes(b"".join(events))
    conf = {"nadi.batch.events": "400", "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}"}
    options = NodeOptions(folder / "state", conf=conf, until_end=True)
    session = build_session(SessionOptions(options.master, folder / "logs", options.spark(), "nadi prepare"))
    try:
        text = _APP.format(folder=folder)
        spec = make_spec(AppText(text), plan_app(text), options, 2, "")
        (ended,) = supervise(session, [spec], options, StopRequest(), lambda _progress: None).apps
    finally:
        end_session(session, WRITTEN_WITHIN)
    if ended.error is not None:
        raise ended.error
