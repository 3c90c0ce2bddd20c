"""What cannot be decoded and what targets refuse: where it goes, once, whatever is repeated."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.errors import NadiError
from nadi.io import segmentedlines
from nadi.io.contract import Connector, Delivery, Messages, Undecodable
from nadi.io.faultlog import Fault, fault_log
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, OUTPUT_COLUMNS, ArrivalBatch
from nadi.lang.tree import Annotation
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutlog import CutLog
from nadi.pipeline.engine import make_kernel, plan_app
from nadi.pipeline.history.replay import Inputs, Replayer, Start, logged
from nadi.pipeline.inputs.faults import fault_record, reentry, undecodable_events, undecodable_text
from nadi.pipeline.inputs.pieces import Piece
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.pipeline.live import Live
from nadi.pipeline.ondemand import ask
from nadi.pipeline.revision.revisions import forget
from nadi.pipeline.spec import AppSpec

IN = "@app:name('A') @source(type='test', file='{folder}/in') {route} define stream In (k string, n long);"
OUT = "@sink(type='test', file='{folder}/out', refuse='{folder}/word', on.error='{action}') {route} define stream Out"
TO = "@sink(type='test', file='{folder}/{name}') define stream {name}"
STREAM = "@OnError(action='STREAM')"


class App:
    """An app in a folder, fed with lines."""

    def __init__(self, folder: Path, text: str, patch: pytest.MonkeyPatch, **more: Any) -> None:
        self.folder = folder
        self.patch = patch
        (folder / "state").mkdir()
        (folder / "in").touch()
        self.text = text
        planned = plan_app(text)
        outputs = tuple(s.key for s in planned.streams.values() if any(a.name == "sink" for a in s.annotations))
        spec = AppSpec("A", text, str(folder / "state"), outputs=outputs, connectors="pipeline_testlog", order_idle=0)
        self.spec = replace(spec, **more)
        self.node = self.again()

    def again(self) -> LocalNode:
        """Another life of the node."""
        self.node = LocalNode(self.spec, self.patch)
        return self.node

    def put(self, *lines: Any, at: int = 1_000) -> None:
        with (self.folder / "in").open("a") as out:
            for i, line in enumerate(lines):
                out.write(f"{at + i}\t{line if isinstance(line, str) else json.dumps(line)}\n")

    def refuse(self, word: str) -> None:
        (self.folder / "word").write_text(word)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in committed(self.folder / name)]

    def errors(self) -> list[dict[str, object]]:
        return list(self.spec.open_errors().rows())

    def faults(self) -> list[Fault]:
        log = fault_log(self.folder / "state")
        pieces = log.read(0, 0, log.end(0))
        return [msgspec.json.decode(line, type=Fault) for piece in pieces for line in piece.payloads]


# ---- undecodable messages --------------------------------------------------------------------------------------------


def undecodable(folder: Path, patch: pytest.MonkeyPatch, route: str, query: str, **more: Any) -> App:
    kinds = {"Good": "(k string, n long)", "Bad": "(k string, n long, reason object)"}
    outs = " ".join(TO.format(folder=folder, name=name) + f" {schema};" for name, schema in kinds.items())
    return App(folder, f"{IN.format(folder=folder, route=route)} {outs} {query}", patch, **more)


BOTH = "from In select k, n insert into Good; from !In select k, n, _error as reason insert into Bad;"


def test_an_undecodable_message_is_an_event_of_the_fault_stream_with_null_attributes_and_no_error_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = undecodable(tmp_path, monkeypatch, STREAM, BOTH)
    app.put(["a", 1], "[broken", ["b", 2])
    app.node.run()
    assert app.rows("Good", "k", "n", "__ts") == [("a", 1, 1_000), ("b", 2, 1_002)]
    ((k, n, reason, at),) = app.rows("Bad", "k", "n", "reason", "__ts")
    assert (k, n, at) == (None, None, 1_001)
    text = json.loads(reason)
    assert text.startswith("UNDECODABLE: Expecting")
    assert text.endswith("(source test of In, 0/1); message: [broken")
    assert app.errors() == []


def test_without_a_fault_stream_it_goes_to_the_error_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = undecodable(tmp_path, monkeypatch, "", "from In select k, n insert into Good;")
    app.put(["a", 1], "[broken")
    app.node.run()
    assert [(e["position"], e["payload"]) for e in app.errors()] == [(1, "[broken")]


def test_it_comes_at_the_place_of_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    query = "from In select k, n insert into All; from !In select 'bad' as k, -1L as n insert into All;"
    app = undecodable(
        tmp_path, monkeypatch, STREAM, query + " from All#window.length(9) select k, count() as n insert into Good;"
    )
    app.put(["a", 1], "[broken", ["b", 2], "[", ["c", 3])
    app.node.run()
    assert app.rows("Good", "k", "n") == [("a", 1), ("bad", 2), ("b", 3), ("bad", 4), ("c", 5)]


KEYED = """partition with (k of In) begin from In#window.length(9) select k, sum(n) as n insert into Good; end;
    from !In select k, n, _error as reason insert into Bad;"""


def test_in_an_app_that_is_sharded_by_key_it_is_met_once_and_by_nothing_that_is_keyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert plan_app(IN.format(folder="f", route=STREAM) + KEYED).sharding.kind == "key"
    app = undecodable(tmp_path, monkeypatch, STREAM, KEYED, buckets=2)
    app.put(["a", 1], "[broken", ["b", 2], ["a", 3], "[")
    app.node.run()
    assert sorted(app.rows("Good", "k", "n")) == [("a", 1), ("a", 4), ("b", 2)]
    assert len(app.rows("Bad", "k")) == 2


def test_in_playback_it_does_not_move_the_clock_of_events():
    text = "@app:playback @OnError(action='STREAM') define stream In (n long); from In#window.time(1 sec) select n insert all events into Out;"
    app = plan_app(text + " from !In select n insert into Bad;")
    kernel = make_kernel(app, ("Out", "Bad"))
    kernel.start(0)

    def arrival(key: str, ts: int, *values: Any) -> ArrivalBatch:
        fields = [*arrow_schema(app.streams[key].schema), *ARRIVAL_COLUMNS]
        arrays = [pa.array([v], f.type) for v, f in zip((*values, 5, 0, 0, ts, 0), fields, strict=True)]
        return ArrivalBatch(key, 0, 0, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))

    kernel.process([arrival("In", 100, 1)], 10)
    late = kernel.process([arrival("!In", 1 << 40, None, '"why"')], 20).batches
    assert list(late) == ["Bad"]  # the event of 100 has not expired
    assert late["Bad"].column("__ts").to_pylist() == [100]


def test_the_text_of_a_message_that_is_none_is_base64():
    source = Connector("S", plan_app("define stream S (n int);").streams["S"].schema, "kafka", {}, Annotation("map"), 0)
    text = undecodable_text(source, 2, Undecodable(7, "not UTF-8", b"\xff"))
    assert text == "UNDECODABLE: not UTF-8 (source kafka of S, 2/7); message (base64): /w=="


def test_failures_of_one_message_are_one_chunk_behind_its_events():
    app = plan_app("@OnError(action='STREAM') define stream S (n int); from S select n insert into Out;")
    source = Connector("S", app.streams["S"].schema, "kafka", {}, Annotation("map"), 0)

    def split(batch: pa.RecordBatch, message: Any, partition: int) -> Any:
        raise AssertionError(partition)

    made = undecodable_events(app, source, split)
    assert made is not None
    messages = Messages(np.array([10, 11]), np.array([1, 2]), [b"x", b"y"])
    with pytest.raises(AssertionError, match="3"):
        made(messages, 3, [Undecodable(11, "b", b"y")])
    made = undecodable_events(app, source, make_splitter(app, "S", source.schema, 1))
    assert made is not None
    piece = made(messages, 0, [Undecodable(11, "b", b"y"), Undecodable(10, "a", b"x"), Undecodable(11, "c", b"y")])
    assert piece.message.tolist() == [0, 1, 1]
    assert piece.split.runs.tolist() == [2**31 - 1] * 3


# ---- what targets refuse ---------------------------------------------------------------------------------------------

AGAIN = """from In select k, n insert into Out;
    from !Out select k, n, _error as reason insert into Bad;"""


def refusing(folder: Path, patch: pytest.MonkeyPatch, action: str = "STREAM", query: str = AGAIN, **more: Any) -> App:
    route = STREAM if "!Out" in query else ""
    text = f"""{IN.format(folder=folder, route="")} {OUT.format(folder=folder, action=action, route=route)} (k string, n long);
        {TO.format(folder=folder, name="Bad")} (k string, n long, reason object); {query}"""
    return App(folder, text, patch, **more)


def test_what_a_target_refuses_comes_back_in_the_next_batch_as_an_event_of_the_fault_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = refusing(tmp_path, monkeypatch)
    app.refuse('"bad"')
    app.put(["a", 1], ["bad", 2], ["c", 3])
    assert app.node.run() == 2
    assert app.rows("out", "k", "__number") == [("a", 0), ("c", 2)]
    why = "REFUSED: sink test of Out refused: it has b'\"bad\"'"
    assert app.rows("Bad", "k", "n", "reason", "__ts") == [("bad", 2, json.dumps(why), 1_001)]
    (fault,) = app.faults()
    assert (fault.stream, fault.cut, fault.number, fault.rows) == ("Out", 1, 1, [(1_001, ["bad", 2])])
    assert app.errors() == []


def test_events_of_one_payload_come_back_as_one_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    query = "from In select k, n insert into Out; from !Out select k, sum(n) as n, _error as reason insert into Bad;"
    app = refusing(tmp_path, monkeypatch, query=query)
    app.refuse('"bad"')
    app.put([["bad", 1], ["b", 2]], ["bad", 4])
    app.node.run()
    assert app.rows("out", "k") == []
    # a chunk gives its last event (the chunk rule), the sum goes on over both chunks
    assert app.rows("Bad", "k", "n") == [("b", 3), ("bad", 7)]


def test_a_batch_that_is_repeated_after_its_commit_adds_no_fault_whatever_the_target_says_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = refusing(tmp_path, monkeypatch)
    app.refuse('"bad"')
    app.put(["a", 1], ["bad", 2])
    app.node.batch(recorded=False)
    before = app.faults()
    app.refuse('"a"')
    node = app.again()  # kill -9 of everything between the commit of the sinks and that of Spark
    node.run()
    assert app.faults() == before
    assert app.rows("Bad", "k") == [("bad",)]


def test_a_batch_that_died_before_its_commit_leaves_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = refusing(tmp_path, monkeypatch)
    app.refuse('"bad"')
    app.put(["a", 1], ["bad", 2])
    app.node.batch(settled=False)
    assert app.faults() == []
    app.refuse('"a"')
    app.again().run()
    assert app.rows("Bad", "k") == [("a",)]
    assert app.rows("out", "k") == [("bad",)]


def test_a_replay_of_the_cut_log_gives_the_same_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    query = AGAIN + " from !Out#window.length(2) select k, count() as n, _error as reason insert into Bad;"
    app = refusing(tmp_path, monkeypatch, query=query, max_events=2)
    app.refuse('"b')
    for i in range(5):
        app.put([f"a{i}", i], [f"b{i}", i], at=1_000 + 10 * i)
    count = app.node.run()
    first = app.rows("Bad", "k", "n", "__number", "__ts")
    assert len(first) == 10
    shutil.rmtree(tmp_path / "Bad")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "word").unlink()  # by now the target would take everything: what was refused stays refused
    for record in (app.spec.place.state / "cuts").glob("commits-*"):
        record.unlink()  # the group has done nothing yet
    assert app.again().run() == count
    assert app.rows("Bad", "k", "n", "__number", "__ts") == first


def test_faults_that_no_revision_needs_are_forgotten_and_what_comes_after_the_oldest_one_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segmentedlines, "FILE_BYTES", 1)
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 2)
    app = refusing(tmp_path, monkeypatch)
    app.refuse('"bad"')
    for i in range(8):
        app.put(["bad", i], ["good", i], at=1_000 + 10 * i)
        app.node.run()
    log = CutLog(app.spec.place.state / "cuts", 0)
    last = log.last()
    assert last is not None
    assert last.n == 16
    oldest, before = log.at(9), Replayer(app.spec)
    assert oldest is not None
    with Inputs(app.spec) as inputs:
        pairs = list(logged(log))
        for pair in pairs[:9]:
            before.take(pair[1], inputs.read(*pair))
        start = Start(oldest, {bucket: list(kernel.dump()) for bucket, kernel in enumerate(before._kernels)})
        wanted = list(before.all(inputs, pairs[9:]))
    assert len(list(tmp_path.glob("state/faults*.jsonl"))) == 8
    forget(app.spec, log, 9)
    left = fault_log(app.spec.place.state)
    assert (left.oldest(0), left.end(0)) == (4, 8)  # cut 8 has taken four, and is the one before the oldest
    with Inputs(app.spec) as inputs:
        again = list(Replayer(app.spec, start).all(inputs, logged(CutLog(app.spec.place.state / "cuts", 0), 9)))
    assert [(e.cut.n, e.batches) for e in again] == [(e.cut.n, e.batches) for e in wanted]
    app.put(["bad", 8], at=2_000)
    app.node.run()  # the app does not notice
    assert [n for (n,) in app.rows("Bad", "n")] == list(range(9))


def test_in_a_backlog_it_comes_with_the_clock_of_its_cut_before_what_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    query = """from In select k, n insert into Out; from In select k, n, createSet('') as reason insert into Bad;
        from !Out select k, n, _error as reason insert into Bad;"""
    app = refusing(tmp_path, monkeypatch, query=query, max_events=2)
    app.refuse('"b')
    for i in range(3):
        app.put([f"a{i}", i], [f"b{i}", i], at=1_000 + 10 * i)
    app.node.run()
    # cuts of two messages, what was refused among them
    assert [k for (k,) in app.rows("Bad", "k")] == ["a0", "b0", "b0", "a1", "b1", "a2", "b1", "b2", "b2"]
    cuts = CutLog(tmp_path / "state" / "cuts", 0)
    assert [f.cut for f in app.faults()] == [1, 3, 4]
    assert [f.time for f in app.faults()] == [cut.clock for n in (1, 3, 4) if (cut := cuts.at(n))]
    assert [f.time for f in app.faults()][:2] == [1_001, 1_020]  # times of the log, not of the machine


KEYED_AGAIN = """partition with (k of In) begin from In select k, n insert into Out; end;
    from !Out select k, n, _error as reason insert into Back;
    partition with (k of Back) begin from Back select k, sum(n) as n, reason insert into Bad; end;"""


def test_in_an_app_that_is_sharded_by_key_events_come_back_to_the_state_of_their_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = refusing(tmp_path, monkeypatch, query=KEYED_AGAIN, buckets=2)
    assert plan_app(app.text).sharding.kind == "key"
    app.refuse("bad")
    for i in range(6):
        app.put([f"bad{i % 3}", i], [f"good{i}", i], at=1_000 + 10 * i)
        app.node.run()
    assert sorted(app.rows("Bad", "k", "n")) == [(f"bad{k}", n) for k in range(3) for n in (k, 2 * k + 3)]
    assert {f.bucket for f in app.faults()} == {0, 1}


def test_with_store_the_payload_goes_to_the_error_store_with_origin_place_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = refusing(tmp_path, monkeypatch, "STORE", "from In select k, n insert into Out;")
    app.refuse('"bad"')
    app.put(["a", 1], ["bad", 2], "[broken")
    app.node.run()
    undecoded, refused = sorted(app.errors(), key=lambda e: str(e["origin"]), reverse=True)
    assert undecoded["origin"] == "source test of In"
    assert json.loads(str(refused.pop("payload")))["k"] == "bad"
    assert undecoded["again"] == {"ordinal": 0}
    assert refused == {
        "id": "1-0-1",
        "kind": "sink",
        "again": {"ordinal": 0, "bucket": 0, "rows": [[1_001, ["bad", 2]]]},
        "time": 1_001,
        "app": "A",
        "origin": "sink test of Out",
        "stream": "Out",
        "partition": 0,
        "position": 1,
        "reason": "it has b'\"bad\"'",
        "cut": 1,
    }


def test_stream_without_a_fault_stream_is_store_and_log_is_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for action, kept in (("STREAM", ["sink test of Out"]), ("LOG", [])):
        folder = tmp_path / action
        folder.mkdir()
        app = refusing(folder, monkeypatch, action, "from In select k, n insert into Out;")
        app.refuse('"bad"')
        app.put(["a", 1], ["bad", 2])
        app.node.run()
        assert [e["origin"] for e in app.errors()] == kept
        assert app.faults() == []
        assert app.rows("out", "k") == [("a",)]


def test_what_is_dropped_is_told_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    app = refusing(tmp_path, monkeypatch, "LOG", "from In select k, n insert into Out;")
    app.refuse('"bad"')
    app.put(["bad", 2])
    app.node.run()
    said = capsys.readouterr().out
    assert "refused and dropped" in said
    assert "sink test of Out" in said


def test_a_run_to_the_end_ends_when_what_was_refused_is_processed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = refusing(tmp_path, monkeypatch, until_end=True)
    app.refuse('"bad"')
    app.put(["bad", 2])
    finished = []
    while app.node.batch():
        finished.append(app.node.group.status.finished)
    assert finished == [False, False]
    assert app.node.group.status.finished
    assert app.rows("Bad", "k") == [("bad",)]


def test_the_fault_log_keeps_its_ordinal_whatever_else_an_app_gets():
    def inputs(text: str) -> list[tuple[str, int]]:
        spec = AppSpec("A", text, "/nowhere", connectors="pipeline_testlog")
        return [(c.type, c.ordinal) for c in spec.sources(plan_app(text))]

    start, query = IN.format(folder="f", route=""), "from In select k, n insert into Out;"
    plain = OUT.format(folder="f", action="STORE", route=STREAM) + "(k string, n long);"
    routed = OUT.format(folder="f", action="stream", route=STREAM) + "(k string, n long);"
    table = "define table T (k string);"
    assert inputs(start + plain + query) == [("test", 0), ("control", 1)]
    assert inputs(start + plain + table + query) == [("test", 0), ("control", 1)]
    with_faults = [("test", 0), ("control", 1), ("faults", 2)]
    assert inputs(start + routed + query) == inputs(start + routed + table + query) == with_faults


def test_an_on_demand_change_is_waited_for_in_its_own_input_though_the_fault_log_is_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    query = "define table T (k string); from In select k insert into T; " + AGAIN
    app = refusing(tmp_path, monkeypatch, query=query)
    app.refuse('"bad"')
    app.put(["bad", 1])
    assert app.node.run() == 2  # the fault log is at 1 now, the control input at 0
    live = Live(app.node.spec, 0)
    with pytest.raises(NadiError) as late:
        ask(live, "delete T on T.k == 'bad'", within=0.1)
    assert late.value.condition == "ANSWER_LATE"
    assert app.node.run() == 1
    assert thread_result(lambda: ask(live, "delete T on T.k == 'a'", within=60), app.node.batch) is None


def thread_result(call: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
    """What a call in another thread gives, while something else is done again and again."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        while not answer.done():
            meanwhile()
        return answer.result()


VALUES = st.tuples(
    st.none() | st.text(max_size=5),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(width=32),
    st.none() | st.floats(),
    st.none() | st.booleans(),
    st.none() | st.just('{"a": [1, null]}'),
)
TYPES = "@OnError(action='STREAM') define stream S (a string, b int, c long, d float, e double, f bool, g object);"


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_rows_come_back_as_they_were(rows: list[tuple[Any, ...]]):
    app = plan_app(TYPES + "from S select a insert into Out;")
    sink = Connector("S", app.streams["S"].schema, "http", {}, Annotation("map"), 3)
    fields = [*arrow_schema(sink.schema), *OUTPUT_COLUMNS]
    marked = [(*row, i + 7, 7, 1_000 + i, 5) for i, row in enumerate(rows)]
    arrays = [pa.array(values, f.type) for values, f in zip(zip(*marked), fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    record = fault_record(99, sink, Delivery(1, 4, batch, [b""], [0]), 0, len(rows), "no")
    line = msgspec.json.encode(record)
    (piece,) = reentry(app, 2)(Messages(np.array([0]), np.array([99]), [line]), 0).pieces
    assert isinstance(piece, Piece)
    assert piece.stream == "!S"
    assert _same(piece.batch.select(sink.schema.names).to_pylist(), batch.select(sink.schema.names).to_pylist())
    assert piece.batch.column("_error").to_pylist() == ['"no"'] * len(rows)
    assert piece.stamps is not None
    assert piece.stamps.tolist() == [1_000 + i for i in range(len(rows))]
    assert set(zip(piece.split.buckets.tolist(), piece.split.groups.tolist(), strict=True)) == {(1, 5)}


def _same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    def plain(value: Any) -> Any:
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    return [[plain(v) for v in r.values()] for r in one] == [[plain(v) for v in r.values()] for r in other]
