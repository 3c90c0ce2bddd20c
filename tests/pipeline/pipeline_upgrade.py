"""State folders that an older nadi has left (`data/README.md`), unpacked and gone on with.

old = Old("sharded", tmp_path)
old.run(patch)     # a start with this version, to where nothing more comes
old.check()        # sinks and state are those of a replay of all cuts
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline_node
import pytest
from pipeline_local import LocalNode
from pipeline_reference import write_input
from pipeline_testlog import committed

from nadi.kernel.contract import GROUP, NUMBER
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import StoredRevision, newest_good
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.engine import make_kernel, plan_app
from nadi.pipeline.history.replay import Inputs, Replayer, Start, logged
from nadi.pipeline.history.replaystart import named_start
from nadi.pipeline.node import AppText, NodeOptions, make_spec, spec_to_restore
from nadi.pipeline.revision import restore, upgrade
from nadi.pipeline.revision.savedstate import SavedState, copy_state
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.lines import Line
from nadi.pipeline.statelog.recovery import load
from nadi.pipeline.statelog.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
CURRENT = frozenset({"sharded", "tasks", "rows", "columns", "database"})
"""Those whose state is in a checkpoint; the others are behind a restore."""
BY_LAYOUT = frozenset({"columns", "database"})
"""Those of whose state the bytes tell how it was filled, too: `more` shows whether it is right."""

FILTER: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11 before 3.11.4 knows no filters, and Python from 3.12 on warns where none is named."""
Row = tuple[object, ...]


class Old:
    """A state folder with its app, its input and its targets. Spark notes absolute paths in a checkpoint: they become those of `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        with tarfile.open(DATA / f"{name}.tar.gz") as packed:
            packed.extractall(folder, **FILTER)
        for noted in folder.glob("state/Old/checkpoint*/state/0/_metadata/v2/*"):
            noted.write_text(
                re.sub(r"file:/[^\"]*?(?=/state/Old/)", folder.as_uri().replace("///", "/"), noted.read_text())
            )
        made = json.loads((folder / "made.json").read_text())
        self.name = name
        self.text = (DATA / f"{made['app']}.siddhi").read_text().format(folder=folder, endless="false")
        conf = {key: value.format(folder=folder) for key, value in made["conf"].items()}
        self.options = NodeOptions(
            folder / "state",
            "local[2,4]",
            {"nadi.batch.events": "100", **conf},
            until_end=True,
            connectors="pipeline_testlog",
        )

    @property
    def state(self) -> Path:
        return self.folder / "state" / "Old"

    @property
    def checkpoint(self) -> Path:
        return self.state / "checkpoint"

    def spec(self) -> AppSpec:
        """As a node makes it."""
        made = make_spec(AppText(self.text), plan_app(self.text), self.options, 2, "")
        return replace(made, order_idle=0)

    def session(self) -> SparkSession:
        """Where Spark copies; a test says."""
        raise NotImplementedError

    def begun(self) -> AppSpec:
        """As a node opens it."""
        spec = self.spec()
        return upgrade.upgraded(self.session, spec) if upgrade.is_old(spec) else spec

    def last(self) -> Cut:
        """The last cut of the log."""
        found = open_cut_log(self.spec()).last()
        assert found is not None
        return found

    def rows(self, stream: str) -> list[dict[str, object]]:
        """What the target of a stream has."""
        return committed(self.folder / stream.lower())

    def run(self, patch: pytest.MonkeyPatch) -> int:
        """One life of a node, without a query; how many cuts it took."""
        spec = self.begun()
        node = LocalNode(spec, patch, spread=spec.buckets > 1)
        try:
            return node.run()
        finally:
            node.close()

    def start(self) -> subprocess.Popen[bytes]:
        """A node as a process, until the input is at its end."""
        app = self.folder / "app"
        app.write_text(self.text)
        conf = json.dumps({**self.options.conf, "nadi.kernel": "rows"})
        command = [sys.executable, pipeline_node.__file__, str(self.folder / "state"), "no", conf, str(app)]
        with (self.folder / "node.out").open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out)

    def restore(self) -> restore.Prepared:
        """Put the revision that the old version has made into the folder."""
        stored = self._stored()
        app = plan_app(self.text)
        spec = spec_to_restore(AppText(self.text), app, self.options, 2, stored.buckets)
        return restore.prepare(spec, stored)

    def more(self, count: int) -> None:
        """Further events in the input."""
        write_input(self.folder / "further", count, seed=2)
        lines = (self.folder / "in").read_text().splitlines()
        ahead = int(lines[-1].split("\t")[0]) - 1_000_000 + 10
        told = [line.split("\t") for line in (self.folder / "further").read_text().splitlines()]
        with (self.folder / "in").open("a") as out:
            out.writelines(f"{int(time) + ahead}\t{rest}\n" for time, rest in told)

    # ---- what must be so at the end

    def check(self) -> None:
        """All of the input was taken; targets have what a replay of the cuts gives, each row once; so has the state."""
        spec, last = self.spec(), self.last()
        assert last.ends[0, 0] == len((self.folder / "in").read_text().splitlines())
        replayer, wanted = self._replayed(spec)
        assert len(wanted["Out"]) > 500
        for stream, rows in wanted.items():
            found = self.rows(stream)
            assert _by_number(found) == rows
            assert len(found) == len(rows), "a row came twice"
        recovered = open_commit_log(spec).recovered()
        assert recovered is not None
        assert recovered.n == last.n
        if self.name in BY_LAYOUT:
            return
        store = open_store(str(self.state / "log"))
        for bucket, kernel in enumerate(replayer.kernels):
            loaded = make_kernel(replayer.app, spec.outputs, bucket, spec.properties)
            assert load(store, recovered.lines.get(bucket, Line()), bucket, loaded.load) is None
            assert list(loaded.dump()) == list(kernel.dump())

    def _replayed(self, spec: AppSpec) -> tuple[Replayer, dict[str, dict[Row, Row]]]:
        """What a replay gives, by stream; of cuts that the log no longer has what the old version has written."""
        wanted: dict[str, dict[Row, Row]] = {name: {} for name in ("Out", "Late")}
        cuts, start = open_cut_log(spec), None
        if cuts.at(0) is None:
            start = self._start(spec)
            for name in wanted:
                for path in (self.folder / name.lower()).glob("*.jsonl"):
                    if int(path.name.split("-")[0]) <= start.cut.n:
                        wanted[name] |= _by_number([json.loads(line) for line in path.read_text().splitlines()])
        replayer = Replayer(spec, start)
        with Inputs(spec) as inputs:
            for before, cut in logged(cuts, replayer.at):
                for emitted in replayer.take(cut, inputs.read(before, cut)):
                    for stream, batch in emitted.batches.items():
                        wanted[stream] |= _by_number(batch.to_pylist())
        return replayer, wanted

    def _start(self, spec: AppSpec) -> Start:
        """The state in the revision of the old version."""
        stored = self._stored()
        text = replace(spec, text=stored.revision.meta.text)  # it has the paths of where it was made
        return named_start(text, stored, open_cut_log(spec))

    def _stored(self) -> StoredRevision:
        found = newest_good(FileStore(self.folder / "state" / "siddhi-app-persistence"), "Old")[0]
        assert found is not None
        return found


def _by_number(rows: list[dict[str, object]]) -> dict[Row, Row]:
    return {(row[GROUP], row[NUMBER]): tuple(sorted((k, str(v)) for k, v in row.items())) for row in rows}


class Copies:
    """What Spark copies of a folder, once for all tests that begin with the same one: a copying takes seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, int, int], SavedState] = {}
        self.asked = 0

    def of(self, old: Old) -> Callable[[SparkSession, AppSpec, Path], SavedState]:
        """A stand-in for `copy_state`."""

        def copied(session: SparkSession, spec: AppSpec, folder: Path) -> SavedState:
            self.asked += 1
            batch = upgrade.restored.last_batch(old.checkpoint)
            assert batch is not None
            key = (old.name, batch, spec.partitions)
            if key not in self._made:
                self._made[key] = copy_state(session, spec, self._folder / "-".join(map(str, key)))
            kept = self._made[key]
            shutil.copytree(kept.saved[0].file.parent, folder)
            return replace(kept, saved=tuple(replace(b, file=folder / b.file.name) for b in kept.saved))

        return copied
