"""What is sent again out of the error store comes once, at the place that a cut gives it, whatever dies."""

from __future__ import annotations

import itertools
import json
import math
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pipeline_local
import pytest
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.config import DataSource, ErrorStoring
from nadi.databases import engines
from nadi.errors import NadiError
from nadi.io.controllog import append_again, control_path, sent_again
from nadi.io.errorstore import Row, Wanted
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.live import Live
from nadi.pipeline.node import needed_outputs
from nadi.pipeline.ondemand import ask
from nadi.pipeline.repeats import again_of, send_again
from nadi.pipeline.spec import AppSpec

SOURCE = "@app:name('A') @source(type='test', file='{folder}/in') define stream In (k string, n long);"
SINK = (
    "@sink(type='test', file='{folder}/{name}', refuse='{folder}/{name}.word', on.error='STORE') define stream {name} "
)
OUT, OTHER = SINK.replace("{name}", "Out"), SINK.replace("{name}", "Other")


class App:
    """An app in a folder, fed with lines, whose batches the test makes."""

    def __init__(self, folder: Path, text: str, patch: pytest.MonkeyPatch | None, **more: Any) -> None:
        self.folder = folder
        (folder / "state").mkdir()
        (folder / "in").touch()
        text = text.replace("{folder}", str(folder))
        outputs = needed_outputs(plan_app(text))
        spec = AppSpec("A", text, str(folder / "state"), outputs=outputs, connectors="pipeline_testlog", order_idle=0)
        self.spec = replace(spec, **more)
        self.state = self.spec.place.state
        self.patch = patch
        self.node: LocalNode

    def life(self) -> LocalNode:
        assert self.patch is not None
        self.node = LocalNode(self.spec, self.patch)
        return self.node

    def put(self, *lines: Any, at: int = 1_000) -> None:
        with (self.folder / "in").open("a") as out:
            for i, line in enumerate(lines):
                out.write(f"{at + i}\t{line if isinstance(line, str) else json.dumps(line)}\n")

    def refuse(self, word: str, name: str = "Out") -> None:
        (self.folder / f"{name}.word").write_text(word)

    def take(self, name: str = "Out") -> None:
        (self.folder / f"{name}.word").unlink()

    def errors(self, **wanted: Any) -> list[Row]:
        return list(self.spec.open_errors().rows(Wanted(**wanted)))

    def rows(self, *columns: str, name: str = "Out") -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in committed(self.folder / name)]

    def send(self, *rows: Row, **how: Any) -> Any:
        """Send again while batches are made."""
        live = Live(self.node.spec, 0)
        return meanwhile(lambda: send_again(live, rows, within=60, **how), self.node.batch)


def meanwhile(call: Callable[[], Any], work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        while not answer.done():
            work()
        return answer.result()


def running(folder: Path, patch: pytest.MonkeyPatch, text: str, **more: Any) -> App:
    made = App(folder, text, patch, **more)
    made.life()
    return made


def condition(call: Callable[[], Any]) -> str:
    with pytest.raises(NadiError) as said:
        call()
    return said.value.condition


TWO = (
    SOURCE
    + OUT
    + "(k string, n long); "
    + OTHER
    + "(k string); from In select k, n insert into Out; from In select k insert into Other;"
)
PLAIN = SOURCE + OUT + "(k string, n long); from In select k, n insert into Out;"


# ---- messages --------------------------------------------------------------------------------------------------------


def test_a_message_is_decoded_again_at_the_place_of_its_record_or_kept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, PLAIN.replace("select k, n", "select k, count() as n"))
    app.put(["a", 1], "[broken", ["b", 2])
    app.node.run()
    (broken,) = app.errors()
    assert (broken["id"], broken["kind"], broken["stream"]) == ("1-0-0", "source", "In")
    assert app.send(broken, payload=b'["c", 3]').count == 1
    assert app.rows("k", "n") == [("a", 1), ("b", 2), ("c", 3)]
    app.send(broken, repeat=True)
    (_, again) = app.errors()
    assert again["id"] == "3-0-0"
    assert {n: v for n, v in again.items() if n not in ("id", "cut", "time")} == {
        n: v for n, v in broken.items() if n not in ("id", "cut", "time")
    }
    assert app.send(again, payload=b'[["d", 4], ["e", 5]]').count == 1
    assert app.rows("k", "n")[3:] == [("e", 5)]  # one chunk
    assert sent_again(control_path(app.state)).keys() == {"1-0-0", "3-0-0"}


def test_where_the_stream_has_a_fault_stream_by_now_it_goes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(tmp_path, monkeypatch, PLAIN)
    app.put("[broken")
    app.node.run()
    text = app.spec.text.replace("define stream In", "@OnError(action='STREAM') define stream In", 1)
    text += " from !In select k, 7L as n insert into Out;"
    app.spec = replace(app.spec, text=text)
    app.life()
    app.send(*app.errors())
    assert app.rows("k", "n") == [(None, 7)]
    assert len(app.errors()) == 1


# ---- events ----------------------------------------------------------------------------------------------------------

OBJECTS = SOURCE.replace("n long", "n long, o object")
FRAGILE = (
    OBJECTS + OUT + "(k string, n long); " + OTHER + "(k string); "
    "from In select k insert into Other; from In select k, sizeOfSet(o) + n as n insert into Out;"
)


def test_an_event_comes_to_its_stream_again_at_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(tmp_path, monkeypatch, FRAGILE)
    app.put(["a", 1, "no set"])
    app.node.run()
    (failed,) = app.errors()
    assert (failed["kind"], failed["origin"], failed["payload"]) == ("query", "query of In", '["a", 1, "no set"]')
    app.send(failed, payload=b'["b", 2, "neither"]')
    (_, again) = app.errors()
    assert (again["payload"], again["time"]) == ('["b", 2, "neither"]', failed["time"])
    seen = [(r["k"], r["__ts"]) for r in committed(tmp_path / "Other")]
    assert seen == [("a", 1_000), ("b", 1_000)]


KEYED = (
    OBJECTS + OUT + "(k string, n long, c long); partition with (k of In) begin "
    "from In[n < 0 or sizeOfSet(o) > 9] select k, n, count() as c insert into Out; end;"
)


def test_in_an_app_that_is_sharded_by_key_an_event_comes_back_to_the_state_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, KEYED, buckets=2)
    assert plan_app(app.spec.text).sharding.kind == "key"
    for i in range(12):  # each key has two events that pass, and one that fails
        app.put([f"k{i % 4}", -1 if i < 8 else 1, "no set"], at=1_000 + i)
    app.node.run()
    failed = app.errors()
    assert sorted(json.loads(row["payload"])[0] for row in failed) == [f"k{k}" for k in range(4)]
    assert {row["again"]["bucket"] for row in failed} == {0, 1}
    for row in failed:
        app.send(row, payload=json.dumps([json.loads(row["payload"])[0], -5, None]).encode())
    assert sorted(app.rows("k", "n", "c"))[0::3] == [(f"k{k}", -5, 3) for k in range(4)]


def test_a_change_that_failed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(
        tmp_path, monkeypatch, OBJECTS + "define table T (k string, o object); from In select k, o insert into T;"
    )
    app.put(["a", 1, "no set"])
    app.node.run()
    query = "delete T on sizeOfSet(T.o) == 1"
    live = Live(app.node.spec, 0)
    assert condition(lambda: meanwhile(lambda: ask(live, query), app.node.batch)) == "CHANGE_FAILED"
    (failed,) = app.errors()
    assert (failed["kind"], failed["origin"]) == ("query", "query of on-demand queries")
    app.send(failed)
    assert [json.loads(row["payload"])[1] for row in app.errors()] == [query, query]
    assert condition(lambda: app.send(failed, repeat=True, payload=b"[]")) == "ERROR_NOT_REPLAYABLE"


# ---- payloads --------------------------------------------------------------------------------------------------------


def test_a_payload_goes_to_its_sink_alone_as_it_was_with_rows_of_its_own_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, TWO)
    app.refuse('"bad"')
    app.refuse('"bad"', "Other")
    app.put(["a", 1], ["bad", 2])
    app.node.run()
    assert [row["origin"] for row in app.errors(kind="sink")] == ["sink test of Out", "sink test of Other"]
    first = app.errors(stream="Out")[0]
    app.take()
    app.put(["c", 3], at=2_000)
    app.send(first)
    sent = [(r["k"], r["n"], r["__ts"]) for r in committed(tmp_path / "Out")]
    assert sorted(sent) == [("a", 1, 1_000), ("bad", 2, 1_001), ("c", 3, 2_000)]
    assert app.rows("k", name="Other") == [("a",), ("c",)]


def test_what_is_refused_again_is_kept_again_under_its_new_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(tmp_path, monkeypatch, PLAIN)
    app.refuse('"bad"')
    app.put(["bad", 1])
    app.node.run()
    (first,) = app.errors()
    app.send(first)
    (_, second) = app.errors()
    assert (second["payload"], second["partition"], second["position"]) == (first["payload"], -1, 0)
    app.send(second)
    third = app.errors()[2]
    assert (third["partition"], third["position"]) == (-1, 1 << 20)
    app.take()
    app.send(third)
    assert app.rows("k") == [("bad",)]


def test_numbers_that_json_has_no_form_for_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = SOURCE.replace("n long", "n double") + OUT + "(k string, n double); from In select k, n insert into Out;"
    app = running(tmp_path, monkeypatch, text)
    app.refuse('"bad"')
    app.put(["bad", math.inf])
    app.node.run()
    (kept,) = app.errors()
    app.take()
    app.send(kept)
    assert app.rows("n") == [(math.inf,)]


def test_what_is_refused_again_is_kept_though_the_sink_sends_refusals_to_a_fault_stream_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, TWO)
    app.refuse('"bad"')
    app.put(["bad", 1])
    app.node.run()
    (first,) = app.errors()
    text = app.spec.text.replace("on.error='STORE')", "on.error='STREAM') @OnError(action='STREAM')", 1)
    app.spec = replace(app.spec, text=text + " from !Out select k insert into Other;")
    app.life()
    app.send(first)
    assert [row["partition"] for row in app.errors()] == [0, -1]
    app.put(["bad", 2], at=2_000)
    app.node.run()
    assert app.rows("k", name="Other") == [("bad",), ("bad",), ("bad",)]  # of its own query twice, of !Out once
    assert len(app.errors()) == 2


# ---- marks, refusals -------------------------------------------------------------------------------------------------


def test_what_was_sent_is_not_sent_once_more_unless_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(tmp_path, monkeypatch, PLAIN)
    app.put("[one", "[two", "[three")
    app.node.run()
    one, two, three = app.errors()
    app.send(one, payload=b'["one", 1]')
    assert condition(lambda: app.send(one)) == "ERROR_REPLAYED"
    assert condition(lambda: app.send(two, one)) == "ERROR_REPLAYED"  # none of them is sent
    assert len(app.errors()) == 3
    done = app.send(one, two, three, skip=True)
    assert (done.count, done.before, done.impossible) == (2, ("1-0-0",), {})
    assert app.send(one, repeat=True, payload=b'["one", 1]').count == 1
    assert app.rows("k") == [("one",), ("one",)]


def test_two_that_send_the_same_at_once_send_it_once(tmp_path: Path):
    rows = [again_of({**_row(n), "id": f"1-0-{n}"}) for n in range(200)]
    path = control_path(tmp_path)
    counts: list[int] = []

    def send() -> None:
        done = append_again(path, rows, skip=True)
        counts.append(len(rows) - len(done.before))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 0, 0, 200]
    assert len(path.read_text().splitlines()) == 200


def _row(n: int) -> Row:
    about = {"kind": "source", "origin": "source test of In", "stream": "In", "time": n, "partition": 0, "position": n}
    return {**about, "payload": f'["k", {n}]', "again": {"ordinal": 0}, "cut": 1}


def test_what_cannot_be_sent_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = running(tmp_path, monkeypatch, PLAIN)
    app.put("[one")
    app.node.run()
    (one,) = app.errors()
    for row, reason in (
        ({n: v for n, v in one.items() if n != "again"}, "older nadi"),
        ({**one, "again": {"ordinal": 7}}, "no such source of 'In'"),
        ({**one, "kind": "query", "stream": "Gone", "again": {}}, "no stream 'Gone'"),
        ({**one, "kind": "query", "again": {}}, "do not fit"),
        ({**one, "kind": "query", "payload": "[1]", "again": {}}, "a JSON list of 2 values: k, n"),
        ({**one, "kind": "query", "payload": '["k", "x"]', "again": {}}, "do not fit"),
        ({**one, "kind": "sink", "stream": "Out", "again": {"ordinal": 0, "rows": [[1, ["k"]]]}}, "other attributes"),
        ({**one, "final": "so it is", "again": None}, "so it is"),
    ):
        with pytest.raises(NadiError) as said:
            app.send(row)
        assert (said.value.condition, reason in str(said.value)) == ("ERROR_NOT_REPLAYABLE", True), said.value
    assert not control_path(app.state).exists()
    done = app.send({**one, "final": "so it is", "again": None}, one, skip=True)
    assert (done.count, done.impossible) == (1, {"1-0-0": "so it is"})


def test_a_record_that_the_app_does_not_take_any_more_is_an_error_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, PLAIN)
    gone = {**_row(1), "id": "1-0-9", "kind": "query", "stream": "Gone", "again": {"bucket": 0}}
    append_again(control_path(app.state), [again_of(gone)])
    app.put(["a", 1])
    app.node.run()
    (kept,) = app.errors()
    assert kept["reason"] == "error 1-0-9 could not be sent again: the app has no stream 'Gone' any more"
    assert kept["final"].startswith("the app has no stream")
    assert app.rows("k") == [("a",)]


# ---- death -----------------------------------------------------------------------------------------------------------


def test_a_batch_that_is_made_again_sends_nothing_twice_and_a_replay_of_the_logs_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = running(tmp_path, monkeypatch, PLAIN.replace("select k, n", "select k, count() as n"))
    app.refuse('"bad"')
    app.put(["bad", 1], "[broken")
    app.node.run()
    app.take()
    broken, refused = (app.errors(kind=kind)[0] for kind in ("source", "sink"))
    append_again(control_path(app.state), [again_of(broken, b'["b", 1]'), again_of(refused)])
    assert app.node.batch(settled=False)
    app.life()
    assert app.node.batch(recorded=False)
    app.life()
    app.node.run()
    assert app.rows("k") == [("b",), ("bad",)]
    assert len(app.errors()) == 2
    with Inputs(app.spec) as inputs:
        emitted = [*Replayer(app.spec).all(inputs, logged(open_cut_log(app.spec)))]
    made = [row["k"] for each in emitted for batch in each.batches.values() for row in batch.to_pylist()]
    assert made == ["bad", "b"]


def test_in_a_database_rows_are_kept_once_though_it_is_away_and_batches_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engines, "BUSY_WITHIN", 0.1)
    url = f"jdbc:sqlite:{tmp_path}/errors.db"
    store = ErrorStoring(datasource=DataSource("E", url))
    app = running(tmp_path, monkeypatch, PLAIN, error_store=store, max_events=1)
    app.put("[one", "[two", "[three")
    app.node.batch()
    app.node.batch(recorded=False)
    with sqlite3.connect(f"{tmp_path}/errors.db") as other:
        other.execute("begin immediate")
        with pytest.raises(NadiError) as away:
            app.life().run()
        assert away.value.condition == "CONNECTION_UNAVAILABLE"
    other.close()
    app.life().run()
    assert [(row["id"], row["payload"]) for row in app.errors()] == [
        ("1-0-0", "[one"),
        ("2-0-0", "[two"),
        ("3-0-0", "[three"),
    ]
    assert not (app.state / "errors.jsonl").exists()
    assert app.send(*app.errors(), skip=True).count == 3
    assert len(app.errors()) == 6


@pytest.mark.slow
def test_kill_9_in_the_middle_of_many_repeats_loses_none_and_doubles_none(tmp_path: Path):
    count = 400
    app = App(tmp_path, PLAIN, None, until_end=True, max_events=20)
    app.refuse('"bad"')
    app.put(*(["bad", n] for n in range(count // 2)), *(f"[broken {n}" for n in range(count // 2)))
    command = [sys.executable, str(Path(pipeline_local.__file__)), app.spec.to_json()]
    assert subprocess.run(command, check=False, timeout=120).returncode == 0
    kept = app.errors()
    assert len(kept) == count
    app.take()

    def again(row: Row) -> Any:
        place = row["position"] - count // 2
        return again_of(row, json.dumps(["good", place]).encode() if row["kind"] == "source" else None)

    sender = (
        "import sys\nfrom pathlib import Path\nimport msgspec\nfrom nadi.io.controllog import Again, append_again\n"
        "wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Again])\n"
        "for a in wanted: append_again(Path(sys.argv[1]), [a], skip=True)\n"
    )
    given = msgspec.json.encode([again(row) for row in kept])
    path = control_path(app.state)
    app.put(["last", 1], at=2_000)
    for part in itertools.count(1):
        with subprocess.Popen([sys.executable, "-c", sender, str(path)], stdin=subprocess.PIPE) as sending:
            assert sending.stdin is not None
            sending.stdin.write(given)
            sending.stdin.close()
            with subprocess.Popen(command) as process:
                wanted = min(count, part * count // 4)
                while path.exists() and len(path.read_bytes().splitlines()) < wanted and sending.poll() is None:
                    """Until so much is noted."""
                for each in (sending, process):
                    if part < 4 and each.poll() is None:
                        each.send_signal(signal.SIGKILL)
        if part > 4:
            break
    # until_end ends where the finite input does: one more message for what was noted after that
    app.put(["last", 2], at=3_000)
    assert subprocess.run(command, check=False, timeout=120).returncode == 0
    found: dict[str, list[int]] = {}
    for k, n in app.rows("k", "n"):
        found.setdefault(str(k), []).append(n)
    assert {k: sorted(v) for k, v in found.items()} == {
        "bad": [*range(count // 2)],
        "good": [*range(count // 2)],
        "last": [1, 2],
    }
    assert len(app.errors()) == count
