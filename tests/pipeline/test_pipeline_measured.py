"""What hosts measure of a cut and tell with its receipt: at the level that the cut came with, and with outputs that are the same at any level."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_local import LocalNode

from nadi.kernel.contract import ORDER, ArrivalBatch
from nadi.metrics.levels import Level
from nadi.metrics.measured import NOTHING, Key, Measured
from nadi.pipeline.engine import plan_app
from nadi.pipeline.executor.probe import BATCHES, SAMPLE, orders_of
from nadi.pipeline.node import needed_outputs
from nadi.pipeline.spec import AppSpec

APP = """@app:name('A')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/Out') define stream Out (k string, n long);
define table Last (k string, n long);
define window W (k string, n long) length(2);
@info(name='sums') from In select k, sum(n) as n group by k insert into Out;
@info(name='last') from In select k, n update or insert into Last on Last.k == k;
@info(name='fill') from In insert into W;
"""


class App:
    """An app whose level the test sets."""

    def __init__(self, folder: Path, kernel: str, buckets: int = 1, spread: bool = False) -> None:
        self.folder, self.level, self.lines = folder, Level.OFF, 0
        folder.mkdir(exist_ok=True)
        (folder / "state").mkdir()
        (folder / "in").touch()
        text = APP.replace("{folder}", str(folder))
        if buckets > 1:  # only what is keyed can be split
            text = text.partition("define table")[0] + "@info(name='sums') from In select k, n insert into Out;"
        spec = AppSpec(
            "A",
            text,
            str(folder / "state"),
            outputs=needed_outputs(plan_app(text)),
            connectors="pipeline_testlog",
            order_idle=0,
            buckets=buckets,
            properties={"nadi.kernel": kernel},
        )
        self.node = LocalNode(spec, spread=spread)
        self.node.group._level = lambda: self.level

    def take(self, count: int, level: Level, times: list[int] | None = None) -> Measured:
        """A cut of so many events at a level; what was told of it."""
        self.level = level
        with (self.folder / "in").open("a") as out:
            for i in range(count):
                at = 1_000 + self.lines if times is None else times[i]
                out.write(f"{at}\t{json.dumps(['ab'[i % 2], self.lines])}\n")
                self.lines += 1
        assert self.node.batch()
        return self.node.group.tally.take()

    def out(self) -> str:
        return "".join(path.read_text() for path in sorted((self.folder / "Out").rglob("*")) if path.is_file())


@pytest.mark.parametrize("kernel", ["rows", "auto"])
def test_each_level_tells_what_belongs_to_it_and_is_switched_with_a_cut(tmp_path: Path, kernel: str):
    app = App(tmp_path, kernel)
    assert app.take(3, Level.OFF) == NOTHING
    basic = app.take(4, Level.BASIC)
    assert dict(basic.marks) == {
        Key("Sources", "In", "test"): 4,
        Key("Sinks", "Out", "test"): 4,
        Key("Tables", "Last", "updateOrInsert"): 4,
    }
    assert basic.times.keys() == {Key("Tables", "Last", "updateOrInsert")}
    assert sum(n for _, n in basic.delays) == 4
    detail = app.take(5, Level.DETAIL)
    assert dict(detail.marks) == {
        Key("Sources", "In", "test"): 5,
        Key("Sinks", "Out", "test"): 5,
        Key("Tables", "Last", "updateOrInsert"): 5,
        Key("Windows", "W", "insert"): 5,
        Key("Streams", "In"): 5,
        Key("Streams", "Out"): 5,
    }
    assert {key: sum(n for _, n in pairs) for key, pairs in detail.times.items()} == {
        Key("Queries", "sums"): 5,
        Key("Queries", "last"): 5,
        Key("Queries", "fill"): 5,
        Key("Tables", "Last", "updateOrInsert"): 5,
        Key("Windows", "W", "insert"): 5,
        Key("SourceMappers", "In", "test.passthrough"): 5,
        Key("SinkMappers", "Out", "test.passthrough"): 1,  # the mapper makes one payload of them
    }
    assert all(ms > 0 for pairs in detail.times.values() for ms, _ in pairs)
    assert app.take(2, Level.OFF) == NOTHING
    assert app.take(2, Level.DETAIL).marks[Key("Windows", "W", "insert")] == 2  # nothing of the cut between
    app.node.close()


def test_late_messages_are_counted(tmp_path: Path):
    app = App(tmp_path, "rows")
    found = app.take(4, Level.BASIC, times=[1_000, 3_000, 2_000, 4_000])
    assert found.marks[Key("Inputs", "In")] == 1
    app.node.close()


def test_in_two_stages_all_buckets_tell_and_nothing_is_counted_twice(tmp_path: Path):
    app = App(tmp_path, "rows", buckets=3, spread=True)
    found = app.take(6, Level.DETAIL)
    assert found.marks[Key("Sources", "In", "test")] == found.marks[Key("Streams", "In")] == 6
    assert found.marks[Key("Sinks", "Out", "test")] == 6
    assert sum(n for _, n in found.times[Key("SourceMappers", "In", "test.passthrough")]) == 6
    assert sum(n for _, n in found.delays) == 6
    app.node.close()


def test_outputs_do_not_depend_on_levels(tmp_path: Path):
    outs, states = [], []
    for name, levels in (("off", [Level.OFF] * 6), ("on", [Level.DETAIL, Level.OFF, Level.BASIC] * 2)):
        app = App(tmp_path / name, "auto")
        for level in levels:
            app.take(7, level)
        outs.append(app.out())
        host = next(iter(app.node._hosts.apps._apps.values()))
        with host.kernels.user(0) as live:
            states.append(
                [(s.element, s.group, bytes(s.payload)) for s in live.kernel.dump() if s.element != "app/clock"]
            )
        app.node.close()
    assert outs[0] == outs[1] != ""
    assert states[0] == states[1]


def test_a_cut_that_is_made_again_is_told_once(tmp_path: Path):
    app = App(tmp_path, "rows")
    app.take(3, Level.BASIC)
    app.level = Level.BASIC
    with (tmp_path / "in").open("a") as out:
        out.write('9000\t["a", 1]\n')
    group = app.node.group
    assert app.node.batch(recorded=False)
    assert group.tally.take() == NOTHING
    app.node.group._level = lambda: Level.BASIC
    assert app.node.batch()
    assert app.node.group.tally.take().marks[Key("Sources", "In", "test")] == 1
    app.node.close()


@given(st.lists(st.integers(0, 50), max_size=3 * BATCHES))
def test_log_times_are_sampled_in_proportion(sizes: list[int]):
    arrivals = [
        ArrivalBatch("In", 0, 0, pa.RecordBatch.from_arrays([pa.array(np.arange(n, dtype=np.int64))], names=[ORDER]))
        for n in sizes
    ]
    found = orders_of(arrivals)
    assert len(found) <= SAMPLE * BATCHES
    if all(sizes) or len(sizes) <= BATCHES:
        assert sum(n for _, n in found) == sum(sizes)
    assert all(0 <= order < 50 for order, _ in found)
