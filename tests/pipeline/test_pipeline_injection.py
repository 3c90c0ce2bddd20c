"""Events of simulations are records of the control log: each comes once, at its place, to the state of its key, and a replay makes the same of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pipeline_local
import pytest
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.errors import NadiError
from nadi.io import linefile
from nadi.io.controllog import Record, Simulated, SimulatedAppender, append, control_path
from nadi.io.errorstore import Wanted
from nadi.io.rotatedlog import RotatedLog
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.replay import Inputs, Replayer, Start, logged
from nadi.pipeline.injection import Injection
from nadi.pipeline.live import Live
from nadi.pipeline.node import needed_outputs
from nadi.pipeline.revision.revisions import forget
from nadi.pipeline.spec import AppSpec

TEXT = (
    "@app:name('A') @source(type='test', file='{folder}/in') define stream In (k string, n long);"
    "@sink(type='test', file='{folder}/Out') define stream Out (k string, n long, c long);"
)
COUNTS = TEXT + "from In#window.length(9) select k, n, count() as c insert into Out;"
KEYED = TEXT + "partition with (k of In) begin from In select k, n, count() as c insert into Out; end;"
VIA = TEXT + (
    "from In select k as name, n insert into Mid;"
    "partition with (name of Mid) begin from Mid select name as k, n, count() as c insert into Out; end;"
)


def spec_of(folder: Path, text: str, **more: Any) -> AppSpec:
    (folder / "state").mkdir()
    (folder / "in").touch()
    text = text.replace("{folder}", str(folder))
    outputs = needed_outputs(plan_app(text))
    return AppSpec(
        "A", text, str(folder / "state"), outputs=outputs, connectors="pipeline_testlog", order_idle=0, **more
    )


def events(stream: str, *rows: tuple[Any, ...], at: int = 5_000) -> Simulated:
    return Simulated(stream, [at + i for i in range(len(rows))], [list(column) for column in zip(*rows, strict=True)])


def rows(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in committed(folder / "Out")]


def test_simulated_events_come_one_by_one_with_their_own_timestamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    node = LocalNode(spec_of(tmp_path, COUNTS), monkeypatch)
    injection = Injection(Live(node.spec, 0))
    assert injection.send([events("In", ("a", 1), ("b", 2)), events("In", ("c", None), at=9_000)]) == 1
    node.run()
    assert rows(tmp_path, "k", "n", "c", "__ts") == [
        ("a", 1, 1, 5_000),
        ("b", 2, 2, 5_001),
        ("c", None, 3, 9_000),
    ]
    assert injection.taken() == 2


def test_what_waits_for_a_batch_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    node = LocalNode(spec_of(tmp_path, COUNTS), monkeypatch)
    injection = Injection(Live(node.spec, 0))
    rung = threading.Event()
    watch = injection.watch(rung.set)
    for n in range(3):
        injection.send([events("In", ("a", n))])
    assert (injection.is_behind(2), injection.is_behind(3)) == (True, False)
    node.run()
    assert (injection.is_behind(0), injection.taken()) == (False, 3)
    if watch is not None:  # the machine tells of files
        assert rung.wait(60)
        watch.close()


def test_what_comes_of_events_does_not_depend_on_how_they_were_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = TEXT + "from In#window.lengthBatch(4) select k, n, count() as c insert into Out;"
    given = [(f"k{i}", i) for i in range(12)]
    found = []
    for name, sizes in (("one", [1] * 12), ("all", [12]), ("some", [5, 4, 3])):
        (tmp_path / name).mkdir()
        node = LocalNode(spec_of(tmp_path / name, text), monkeypatch)
        left = iter(enumerate(given))
        records = [[next(left) for _ in range(size)] for size in sizes]
        Injection(Live(node.spec, 0)).send([events("In", *(e for _, e in r), at=5_000 + r[0][0]) for r in records])
        node.run()
        found.append(rows(tmp_path / name, "k", "n", "c", "__ts"))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 3


@pytest.mark.parametrize(("text", "stream"), [(KEYED, "In"), (VIA, "In"), (VIA, "Mid")])
def test_in_a_sharded_app_each_event_meets_the_state_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, stream: str
):
    node = LocalNode(spec_of(tmp_path, text, buckets=3), monkeypatch)
    assert plan_app(node.spec.text).sharding.kind == "key"
    (tmp_path / "in").write_text("".join(f"{1_000 + i}\t{json.dumps([f'k{i % 7}', i])}\n" for i in range(14)))
    node.run()
    Injection(Live(node.spec, 0)).send([events(stream, *((f"k{i % 7}", 100 + i) for i in range(21)))])
    node.run()
    for key in range(7):
        counted = sorted(r[1:] for r in rows(tmp_path, "k", "n", "c") if r[0] == f"k{key}")
        assert counted == [(key, 1), (key + 7, 2), (100 + key, 3), (107 + key, 4), (114 + key, 5)]


def test_a_stream_whose_state_is_found_in_two_ways_cannot_be_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = TEXT + (
        "from In select k as one, k as two, n insert into Mid;"
        "partition with (one of Mid) begin from Mid select one as k, n, count() as c insert into Out; end;"
        "partition with (two of Mid) begin from Mid select two as k, n, count() as c insert into Out; end;"
    )
    node = LocalNode(spec_of(tmp_path, text, buckets=2), monkeypatch)
    assert plan_app(node.spec.text).sharding.kind == "key"
    injection = Injection(Live(node.spec, 0))
    assert "may differ" in injection.problem("Mid")
    assert injection.problem("In") == ""
    injection.send([events("Mid", ("a", "b", 1))])
    node.run()
    (told,) = node.spec.open_errors().rows(Wanted())
    assert "may differ" in told["reason"]


def test_a_record_that_does_not_fit_the_app_any_more_goes_to_the_error_store_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    node = LocalNode(spec_of(tmp_path, COUNTS), monkeypatch)
    Injection(Live(node.spec, 0)).send(
        [
            events("In", ("a", 1)),
            events("In", ("b", "no number")),
            events("In", ("c",)),
            events("Gone", ("d", 1)),
            events("In", ("e", 2)),
        ]
    )
    node.run()
    assert rows(tmp_path, "k", "c") == [("a", 1), ("e", 2)]
    told = [row["reason"] for row in node.spec.open_errors().rows(Wanted())]
    assert len(told) == 3
    assert all(reason.startswith("a simulated event cannot be taken") for reason in told)


def test_texts_for_numbers_that_json_lacks_and_objects_come_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = (
        "@app:name('A') define stream In (d double, f float, b bool, o object);"
        "@sink(type='test', file='{folder}/Out') define stream Out (d string, f float, b bool, o string);"
        "from In select convert(d, 'string') as d, f, b, convert(o, 'string') as o insert into Out;"
    )
    node = LocalNode(spec_of(tmp_path, text), monkeypatch)
    Injection(Live(node.spec, 0)).send([Simulated("In", [1, 2], [["NaN", 1], [0.5, None], [True, None], ["x", None]])])
    node.run()
    assert rows(tmp_path, "d", "f", "b", "o") == [("NaN", 0.5, True, "x"), ("1.0", None, None, None)]


# ---- replay, crashes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [COUNTS, VIA])
def test_a_replay_makes_the_same_of_simulated_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str):
    node = LocalNode(spec_of(tmp_path, text, buckets=2 if text is VIA else 1), monkeypatch)
    injection = Injection(Live(node.spec, 0))
    for n in range(4):
        with (tmp_path / "in").open("a") as out:
            out.write(f"{1_000 + n}\t{json.dumps([f'k{n}', n])}\n")
        injection.send([events("In", *((f"k{i % 3}", 10 * n + i) for i in range(5)), at=2_000 + 100 * n)])
        node.run()
    written = sorted(rows(tmp_path, "k", "n", "c", "__ts", "__group", "__number"))
    assert len(written) == 24
    again = []
    with Inputs(node.spec) as inputs:
        for emitted in Replayer(node.spec).all(inputs, logged(open_cut_log(node.spec))):
            if "Out" in emitted.batches:
                again += emitted.batches["Out"].to_pylist()
    names = ("k", "n", "c", "__ts", "__group", "__number")
    assert sorted(tuple(row[c] for c in names) for row in again) == written


def test_the_log_stays_bounded_and_all_after_the_oldest_revision_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(linefile, "FILE_BYTES", 1_000)
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 2)
    node = LocalNode(spec_of(tmp_path, COUNTS), monkeypatch)
    injection = Injection(Live(node.spec, 0))
    log = control_path(tmp_path / "state")
    largest = 0
    for n in range(40):
        assert injection.send([events("In", *((f"k{i}", 10 * n + i) for i in range(5)), at=1_000 * n)]) == n
        node.run()
        cuts = open_cut_log(node.spec)
        newest = cuts.last()
        assert newest is not None
        forget(node.spec, cuts, max(1, newest.n - 4))  # as after a revision: the oldest one is that of four cuts before
        largest = max(largest, sum(path.stat().st_size for path in log.parent.glob("control*")))
    assert rows(tmp_path, "n") == [(10 * n + i,) for n in range(40) for i in range(5)]
    assert largest < 5_000
    assert injection.taken() == 40
    assert RotatedLog(log).oldest(0) >= 30
    before = Replayer(node.spec, revision_of(node, newest.n - 4))
    with Inputs(node.spec) as inputs:
        again = list(before.all(inputs, logged(open_cut_log(node.spec), newest.n - 4)))
    made = [row for emitted in again for row in emitted.batches["Out"].to_pylist()]
    assert [row["n"] for row in made] == [10 * n + i for n in range(36, 40) for i in range(5)]


def revision_of(node: LocalNode, n: int) -> Start:
    """A revision of cut `n`: kernels without state, which is enough for what is looked at here."""
    cut = open_cut_log(node.spec).at(n)
    assert cut is not None
    return Start(cut, {0: list(Replayer(node.spec)._kernels[0].dump())})


@pytest.mark.slow
def test_every_simulated_event_comes_once_whenever_the_node_is_killed(tmp_path: Path):
    spec = spec_of(tmp_path, COUNTS.replace("#window.length(9)", "#window.length(999)"))
    writer = SimulatedAppender(control_path(tmp_path / "state"))
    for n in range(30):
        writer.append([events("In", (f"k{n}", n), at=n)])
        process = subprocess.Popen(
            [sys.executable, pipeline_local.__file__, spec.to_json()], cwd=Path(pipeline_local.__file__).parent
        )
        ending = threading.Timer(0.3 + 0.02 * n, process.send_signal, (signal.SIGKILL,))
        ending.start()
        process.wait()
        ending.cancel()
    subprocess.run(
        [sys.executable, pipeline_local.__file__, spec.to_json()], cwd=Path(pipeline_local.__file__).parent, check=True
    )
    assert rows(tmp_path, "n", "c") == [(n, n + 1) for n in range(30)]


# ---- the log ---------------------------------------------------------------------------------------------------------


def records(path: Path) -> list[Record]:
    return [msgspec.json.decode(line, type=Record) for line in path.read_bytes().splitlines()]


def test_many_threads_share_a_write_and_each_hears_the_place_of_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "control.jsonl"
    syncs = []
    begun, go = threading.Event(), threading.Event()

    def sync(_file: int) -> None:
        syncs.append(1)
        begun.set()
        go.wait(60)

    monkeypatch.setattr(linefile.os, "fsync", sync)
    writer = SimulatedAppender(path)
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(writer.append, [events("In", ("first", 0))])
        begun.wait(60)
        asked = {n: pool.submit(writer.append, [events("In", (f"k{n}", n))]) for n in range(19)}
        while len(writer._waiting) < 19:
            pass
        go.set()
        assert first.result() == 0
        places = {n: each.result() for n, each in asked.items()}
    written = records(path)
    assert {n: place for n, place in places.items() if written[place].simulated != events("In", (f"k{n}", n))} == {}
    assert sorted(places.values()) == list(range(1, 20))
    assert len(syncs) == 3  # the first write, the folder of a new file, the second write


def test_what_cannot_be_written_fails_alone_and_a_write_that_fails_fails_for_all_who_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "control.jsonl"
    writer = SimulatedAppender(path)
    with pytest.raises(UnicodeEncodeError):
        writer.append([events("In", ("\ud800", 1))])
    assert not path.exists()
    begun, go = threading.Event(), threading.Event()

    def breaks(_made: object) -> int:
        begun.set()
        go.wait(60)
        raise ZeroDivisionError

    with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(writer._file, "append", breaks)
        first = pool.submit(writer.append, [events("In", ("k", 0))])
        begun.wait(60)
        asked = [pool.submit(writer.append, [events("In", ("k", n))]) for n in range(3)]
        while len(writer._waiting) < 3:
            pass
        go.set()
        for each in (first, *asked):
            with pytest.raises(ZeroDivisionError):
                each.result(60)
    assert writer.append([events("In", ("k", 9))]) == 0


def test_an_appender_goes_on_after_what_others_added_and_drops_what_a_crash_left(tmp_path: Path):
    path = tmp_path / "control.jsonl"
    writer = SimulatedAppender(path)
    assert append(path, "a", "", now=7_000) == 0
    assert writer.append([events("In", ("k", 1)), events("In", ("k", 2))], now=5_000) == 2
    assert append(path, "b", "", now=6_000) == 3
    with path.open("ab") as torn:
        torn.write(b'{"time": 1, "id')
    assert writer.append([events("In", ("k", 3))], now=8_000) == 4
    assert [(r.id, r.time) for r in records(path)] == [
        ("a", 7_000),
        ("simulated", 7_000),
        ("simulated", 7_000),
        ("b", 7_000),
        ("simulated", 8_000),
    ]


def test_events_that_do_not_fit_on_the_disk_are_not_there_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "control.jsonl"
    writer = SimulatedAppender(path)
    writer.append([events("In", ("k", 1))])

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(linefile.os, "fsync", full)
        with pytest.raises(NadiError, match="DISK_FULL"):
            writer.append([events("In", ("k", 2))])
    assert len(records(path)) == 1
    assert writer.append([events("In", ("k", 3))]) == 1
