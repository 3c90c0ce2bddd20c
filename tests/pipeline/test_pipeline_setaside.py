"""Messages that hosts die of: no events are made of them, and a cut is tried message by message to find them."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from eventsync.pair_recording import recorder_in
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.eventsync.logscopy import LogsCopy
from nadi.io.contract import Connector, Decoded, Messages
from nadi.io.errorfile import FileErrorStore
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.lang.tree import Annotation
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.executor.carefully import one_by_one
from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.history.replay import Inputs, logged
from nadi.pipeline.hosting.atwork import AtWork, fatal_requests, kernel_of, message_of, work_file
from nadi.pipeline.inputs.fatrows import Gathered
from nadi.pipeline.inputs.faults import undecodable_events
from nadi.pipeline.inputs.pieces import Decoding, Taken
from nadi.pipeline.inputs.setaside import taken_without
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.pipeline.spec import AppSpec

TEXT = "{on_error} define stream S (n int); from S select n insert into Out;"


class Numbers:
    """A mapper of numbers, several of a message with points between them."""

    def decode(self, messages: Messages) -> Decoded:
        found = [(i, int(n)) for i, payload in enumerate(messages.payloads) for n in bytes(payload).split(b".")]  # type: ignore[arg-type]
        batch = pa.RecordBatch.from_pydict({"n": pa.array([n for _, n in found], pa.int32())})
        return Decoded(batch, np.array([i for i, _ in found], np.int64), None, ())


def decoding(on_error: str = "") -> Decoding:
    app = plan_app(TEXT.format(on_error=on_error))
    source = Connector("S", app.streams["S"].schema, "kafka", {}, Annotation("map"), 0)
    split = make_splitter(app, "S", source.schema, 1)
    return Decoding("S", Numbers(), split, undecodable_events(app, source, split))


def messages(*payloads: bytes, start: int = 10) -> Messages:
    count = len(payloads)
    return Messages(np.arange(start, start + count), np.arange(count) * 100, list(payloads))


def events(taken: Taken) -> dict[str, list[tuple[int, Any]]]:
    return {
        piece.stream: list(zip(piece.message.tolist(), piece.batch.column("n").to_pylist(), strict=True))
        for piece in taken.pieces
    }


def test_a_message_that_is_set_aside_goes_to_the_error_store_and_the_others_stay_where_they_are() -> None:
    taken = taken_without(decoding(), messages(b"1", b"13.14", b"2.3"), 0, (11,))
    assert events(taken) == {"S": [(0, 1), (2, 2), (2, 3)]}
    assert [(f.position, f.payload) for f in taken.failures] == [(11, b"13.14")]
    assert taken.failures[0].reason.startswith("[EVENT_SET_ASIDE]")


def test_the_fault_stream_gets_it_where_the_stream_says_so() -> None:
    taken = taken_without(decoding("@OnError(action='STREAM')"), messages(b"1", b"13", b"2"), 0, (11,))
    assert events(taken) == {"S": [(0, 1), (2, 2)], "!S": [(1, None)]}
    assert taken.failures == ()


@pytest.mark.parametrize("aside", [(), (9, 13)])
def test_positions_of_other_stretches_do_not_matter(aside: tuple[int, ...]) -> None:
    taken = taken_without(decoding(), messages(b"1", b"2"), 0, aside)
    assert (events(taken), taken.failures) == ({"S": [(0, 1), (1, 2)]}, ())


def test_nothing_is_left_of_a_stretch_of_one_message() -> None:
    taken = taken_without(decoding(), messages(b"13"), 0, (10,))
    assert (events(taken), len(taken.failures)) == ({}, 1)


def arrival(ordinal: int, *rows: tuple[int, int, int]) -> ArrivalBatch:
    """Rows: order time, position, value."""
    orders, positions, values = zip(*rows, strict=True)
    runs = [0] * len(rows)
    columns = [values, orders, positions, runs, orders, runs]
    schema = pa.schema([pa.field("n", pa.int32()), *ARRIVAL_COLUMNS])
    made = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return ArrivalBatch("S", ordinal, 0, pa.RecordBatch.from_arrays(made, schema=schema))


def test_a_cut_is_tried_in_the_order_in_which_a_kernel_sees_it() -> None:
    gathered = Gathered(1, 900, 0, [arrival(0, (100, 0, 1), (300, 1, 2), (300, 1, 3)), arrival(1, (200, 7, 4))])
    found = [
        (one.place, one.position, one.until, one.arrival.batch.column("n").to_pylist()) for one in one_by_one(gathered)
    ]
    assert found == [((0, 0), 0, 100, [1]), ((1, 0), 7, 200, [4]), ((0, 0), 1, 300, [2, 3])]
    assert all(column.offset == 0 for one in one_by_one(gathered) for column in one.arrival.batch.columns)


# ---- who goes on with the cut

APP = """@app:name('A')
@source(type='test', file='{folder}/in') define stream In (n long);
@sink(type='test', file='{folder}/out') define stream Out (total long);
from In select sum(n) as total insert into Out;"""


def spec_at(folder: Path, **more: Any) -> AppSpec:
    """The app on a node with this folder; what is outside is beside it."""
    folder.mkdir()
    text = APP.format(folder=folder.parent)
    return AppSpec("A", text, str(folder), outputs=("Out",), connectors="pipeline_testlog", order_idle=0, **more)


def put(folder: Path, *numbers: int) -> None:
    with (folder / "in").open("a") as out:
        out.writelines(f"{1_000 + n}\t{json.dumps([n])}\n" for n in numbers)


def dies_of(node: LocalNode, position: int, times: int, alone: bool = True) -> None:
    """So many hosts have died while they tried the message at a position, of the cut that is next."""
    assert node.group.look()
    for _ in range(times):
        cut = node.group.cut
        assert cut is not None
        id_ = node.spec.id
        node.group.crash([id_, kernel_of(id_, cut.n, "1"), message_of(id_, cut.n, 0, 0, position)], alone)


def totals(folder: Path) -> list[object]:
    return [row["total"] for row in committed(folder / "out")]


@pytest.mark.parametrize(("times", "alone"), [(1, True), (9, False)])
def test_no_message_is_set_aside_for_one_death_or_while_another_kernel_computed(
    tmp_path: Path, times: int, alone: bool
) -> None:
    put(tmp_path, 1, 13, 3)
    node = LocalNode(spec_at(tmp_path / "node"))
    dies_of(node, 1, times, alone)
    assert node.group.failure is None
    node.restart()
    node.run()
    node.close()
    assert totals(tmp_path) == [1, 14, 17]


def test_the_next_run_takes_the_cut_without_the_message_and_counts_it(tmp_path: Path) -> None:
    put(tmp_path, 1)
    node = LocalNode(spec_at(tmp_path / "node"))
    node.run()
    put(tmp_path, 13, 3)
    dies_of(node, 1, 2)
    assert node.group.failure is not None
    assert node.group.failure.condition == "EVENT_SET_ASIDE"
    node.restart()
    node.run()
    put(tmp_path, 4)
    node.run()
    assert totals(tmp_path) == [1, 4, 8]
    assert node.group.shown is not None
    assert (node.group.shown.totals.set_aside, node.group.shown.totals.errors) == (1, 1)
    node.close()


def test_the_other_node_of_a_pair_sets_aside_the_same_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorder_in(monkeypatch)
    put(tmp_path, 1, 13, 3)
    one = LocalNode(spec_at(tmp_path / "one", cuts=f"sqlite:///{tmp_path}/one.db?replica={recorder.socket}", owner=1))
    dies_of(one, 1, 2)
    one.close()
    copies = LogsCopy(tmp_path / "two.db"), LogsCopy(tmp_path / "three.db")

    async def copied() -> None:
        for record in recorder.done():
            await copies[0].apply(record)
        await copies[1].restore(copies[0].missing(await copies[1].standing()), lambda _surplus: None)

    asyncio.run(copied())
    for copy in copies:
        copy.close()
    for name in ("two", "three"):
        two = LocalNode(spec_at(tmp_path / name, cuts=f"sqlite:///{tmp_path}/{name}.db", owner=2))
        two.run()
        ((before, cut),) = [(b, c) for b, c in logged(open_cut_log(two.spec), 0) if c.n]
        with Inputs(two.spec) as inputs:
            (given,) = inputs.read(before, cut)
        two.close()
        assert cut.aside == {(0, 0): (1,)}
        assert [n for arrival in given.arrivals for n in arrival.batch.column("n").to_pylist()] == [1, 3]
        assert totals(tmp_path) == [1, 4]
        assert ["EVENT_SET_ASIDE" in str(row) for row in FileErrorStore(tmp_path / name).rows()] == [True]
        shutil.rmtree(tmp_path / "out")


# ---- what is asked of the next host


def test_a_request_that_a_host_died_with_is_refused_by_the_next_one_and_another_one_is_not(tmp_path: Path) -> None:
    file = work_file(tmp_path, 0)
    with AtWork(file).during(kernel_of("A", 7, "A.2.5")):
        fatal = fatal_requests(file)
    work = CutWork(Apps(tmp_path, fatal=fatal))
    told = {}
    for ask in ("A.2.5", "A.2.6"):
        group = {"app": "A", "epoch": 2, "spec": None, "n": 7, "at": {}, "ask": ask}
        (row,) = work.read(msgspec.msgpack.encode({"k": "run", "deadline": None, "groups": [group]}))
        told[ask] = msgspec.msgpack.decode(row.body)["groups"][0]["state"]
    assert told == {"A.2.5": "left", "A.2.6": "need"}


def test_a_cut_that_came_to_no_end_is_tried_at_once_and_one_that_a_host_died_with_is_asked_for_again(
    tmp_path: Path,
) -> None:
    put(tmp_path, 1)
    node = LocalNode(spec_at(tmp_path / "node"))
    assert node.group.look()
    careful = []
    for looped in (False, True):
        cut = node.group.cut
        assert cut is not None
        node.group.crash([node.spec.id, kernel_of(node.spec.id, cut.n, "1")], alone=True, looped=looped)
        work = node.group.begin()
        assert work is not None
        careful.append(work.careful)
        node.group.again(tell_all=True)
        if not looped:
            node.group.conduct.begin_anew()
    assert careful == [False, True]
    node.close()
