"""Makes the state folders of an older nadi that tests of the upgrade start from: see README.md.

It runs with the modules of that version, those of its tests too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pipeline_node
from pipeline_reference import write_input
from test_pipeline_node import tree

from nadi.io import warmup
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import newest_good
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.progress import read_progress
from nadi.pipeline.revision import restore
from nadi.pipeline.revision.revisions import ask_for

HERE = Path(__file__).parent
NODE = "--node"
COUNT, FIRST, SECOND = 900, 110, 205  # events; lines of the input: before the revision, before the sink is held
KEPT_OUT = ("logs", "nats", "node.lock")


@dataclass(frozen=True)
class Wanted:
    """A state folder: its app, the settings of the node, and whether a revision is put into it and not started, or started and killed once more."""

    name: str
    app: str
    conf: dict[str, str]
    restored: bool = False
    again: bool = False


WANTED = (
    Wanted("sharded", "sharded", {"nadi.buckets": "2", "nadi.hosts": "2"}),
    Wanted("tasks", "sharded", {"nadi.buckets": "5", "nadi.hosts": "2"}),
    Wanted("rows", "single", {"nadi.kernel": "rows"}),
    Wanted("columns", "single", {"nadi.kernel": "auto"}),
    Wanted("database", "single", {"nadi.cuts.url": "sqlite:///{folder}/cuts.db"}),
    Wanted("restored", "sharded", {"nadi.buckets": "2", "nadi.hosts": "2"}, restored=True),
    Wanted("again", "sharded", {"nadi.buckets": "2", "nadi.hosts": "2"}, restored=True, again=True),
)


class Life:
    """One life of a node of the older version."""

    def __init__(self, folder: Path, text: str, conf: dict[str, str]) -> None:
        self.folder = folder
        app = folder / "app"
        app.write_text(text)
        given = {"nadi.batch.events": "100", **conf}
        command = [sys.executable, __file__, NODE, str(folder / "state"), "yes", json.dumps(given), str(app)]
        with (folder / "node.out").open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 240
        while not holds():
            assert self._process.poll() is None, (self.folder / "node.out").read_text()
            assert time.monotonic() < end, (self.folder / "node.out").read_text()
            time.sleep(0.02)

    def took(self, n: int) -> bool:
        found = read_progress(self.folder / "state" / "Old")
        return found is not None and found.totals.events_in.get("In", 0) >= n

    def at(self) -> int:
        found = read_progress(self.folder / "state" / "Old")
        return -1 if found is None else found.n

    def die_in_a_batch(self, more: list[str]) -> None:
        """With a cut that is logged and planned, and which sinks do not come to an end with."""
        (self.folder / "hold").touch()
        put(self.folder, more)
        self.until(lambda: any(self.folder.glob("hold-*")))
        for pid in tree(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for path in self.folder.glob("hold*"):
            path.unlink()


def put(folder: Path, lines: list[str]) -> None:
    with (folder / "in").open("a") as out:
        out.writelines(lines)


def events(lines: list[str]) -> int:
    return sum(len(json.loads(line.split("\t")[1])) for line in lines)


def made(wanted: Wanted, folder: Path) -> None:
    template = (HERE / f"{wanted.app}.siddhi").read_text()
    text = template.format(folder=folder, endless="true")
    conf = {name: value.format(folder=folder) for name, value in wanted.conf.items()}
    write_input(folder / "all", COUNT)
    lines = (folder / "all").read_text().splitlines(keepends=True)
    (folder / "all").unlink()
    life = Life(folder, text, conf)
    put(folder, lines[:FIRST])
    life.until(lambda: life.took(events(lines[:FIRST])))
    ask_for(folder / "state" / "Old", 120)
    put(folder, lines[FIRST:SECOND])
    life.until(lambda: life.took(events(lines[:SECOND])))
    life.die_in_a_batch(lines[SECOND:])
    if wanted.restored:
        put_back(folder, text, conf)
    if wanted.again:
        at = life.at()
        life = Life(folder, text, conf)
        life.until(lambda: life.at() > at + 1)
        (folder / "hold").touch()
        life.die_in_a_batch([])
    told = {"app": wanted.app, "conf": wanted.conf}
    (folder / "made.json").write_text(json.dumps(told, indent=1))
    pack(folder, HERE / f"{wanted.name}.tar.gz")


def put_back(folder: Path, text: str, conf: dict[str, str]) -> None:
    """As `nadi restore` does."""
    app = plan_app(text)
    store = FileStore(folder / "state" / "siddhi-app-persistence")
    stored = newest_good(store, app.name)[0]
    assert stored is not None
    options = NodeOptions(folder / "state", conf=conf, connectors="pipeline_testlog")
    restore.prepare(spec_to_restore(AppText(text), app, options, 2, stored.buckets), stored)


def pack(folder: Path, target: Path) -> None:
    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if Path(info.name).name in KEPT_OUT or info.name in ("./app", "./node.out") else info

    with tarfile.open(target, "w:gz", compresslevel=9) as out:
        out.add(folder, ".", filter=wanted)
    print(target.name, target.stat().st_size, flush=True)


def main() -> None:
    if sys.argv[1:2] == [NODE]:
        warmup.needed = lambda _app: iter(())  # it does not know the connectors of tests
        del sys.argv[1]
        sys.exit(pipeline_node.main())
    for wanted in WANTED:
        if sys.argv[1:] and wanted.name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            made(wanted, Path(folder))


if __name__ == "__main__":
    main()
