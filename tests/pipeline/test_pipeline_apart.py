"""Hosts that have nothing of the node's state folder: what travels, what lies in the store, what is refused."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_local import LocalNode
from pipeline_reference import APP as RISES
from pipeline_reference import write_input
from pipeline_work import Rig, Within, cuts_of, spec_of

from nadi.errors import NadiError
from nadi.io import controllog, errorstore, faultlog
from nadi.io import registry as connectors
from nadi.io.contract import Connector
from nadi.io.errorfile import FileErrorStore
from nadi.io.faultlog import Fault
from nadi.io.linelog import LineLog
from nadi.io.sinks import ledger
from nadi.kernel.contract import Segment
from nadi.kernel.control import CONTROL
from nadi.lang.tree import Annotation
from nadi.pipeline import engine
from nadi.pipeline.apart import check_apart
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.supplies import ready
from nadi.pipeline.cutting.restored import fresh_folder, write_bucket
from nadi.pipeline.cutting.seeds import drop_seeds, give_seed, seed_parts
from nadi.pipeline.executor.liveapp import LiveApp
from nadi.pipeline.inputs.brought import pack_brought
from nadi.pipeline.outputs import stagedrows
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.stores import open_store
from nadi.plan.nodes import Schema

TABLE = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, n long);
define table Names (k string, n long);
from In select k, n insert into Out;"""
CLUSTER = {"cluster": True, "token": "t"}


def apart(folder: Path, text: str = RISES, **more: Any) -> AppSpec:
    return spec_of(folder, text, **CLUSTER, store=str(folder / "store"), **more)


# ---- what travels


def test_error_rows_and_faults_that_came_with_a_receipt_are_kept_as_if_they_had_been_staged(tmp_path: Path):
    rows = [{"time": 5, "app": "A", "kind": "source", "stream": "S", "reason": "ü", "position": 1 << 40, "rate": 0.5}]
    faults = [Fault(5, "Out", 0, 3, 1, 0, 7, "too large", [(5, ["a", 1, None, 2.5])])]
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    staged = stagedrows.stage(here, 3, 1, rows, faults)
    carried = stagedrows.carried(rows, faults)
    assert {name: carried[name] for name in staged} == staged
    stagedrows.stage_carried(there, 3, {"bucket": 1, **carried})
    for folder in (here, there):
        FileErrorStore(folder).commit(3, [1])
        faultlog.commit(folder, 3, [1])
    for name in ("errors.jsonl", "faults.jsonl"):
        assert (here / name).read_bytes() == (there / name).read_bytes() != b""


def test_a_host_stages_nothing_in_a_state_folder_that_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for where in (errorstore, faultlog):
        monkeypatch.setattr(where, "stage", lambda *_: pytest.fail("it is not there"))
    (tmp_path / "in").write_text('1\t["a", 1]\n2\tnonsense\n')
    within = Within(tmp_path / "scratch")
    rig = Rig(apart(tmp_path, TABLE), cuts_of(tmp_path / "in", [2]))
    told = rig.run(within)["buckets"][0]
    assert (told["errors"], len(told["carried"])) == (1, 2)
    assert [*(tmp_path / "state").iterdir()] == []
    within.close()
    assert not [*(tmp_path / "scratch").glob("app-*")]


def test_records_of_the_control_log_come_with_the_request(tmp_path: Path):
    spec = apart(tmp_path, TABLE)
    path = tmp_path / "elsewhere.jsonl"
    controllog.append(path, "id1", "select 'a' as k, 1L as n insert into Names;", now=5)
    log = LineLog(path)
    messages = list(log.read(0, 0, log.end(0)))
    log.close()
    app = LiveApp(spec, tmp_path / "scratch", None, lambda: 1, nullcontext)
    control = next(ordinal for ordinal, stream in app.streams.items() if stream == CONTROL)
    head = {"n": 1, "clock": 10, "started": 0, "ranges": [[control, 0, 0, 1, 0, None]]}
    rows = list(app.read({**head, "brought": pack_brought({control: messages})}))
    app.close()
    assert [row.head["o"] for row in rows if row.head["k"] == "events"] == [control]


# ---- what lies in the store


def test_what_kernels_begin_with_is_in_the_store_once_and_until_a_cut_is_committed(tmp_path: Path):
    spec = apart(tmp_path, buckets=2)
    folder = fresh_folder(spec.place.state)
    parts = [[Segment("q", 0, bytes([n]) * 5_000_000), b"delta"] for n in range(2)]
    for bucket in range(2):
        write_bucket(folder, bucket, iter(parts[bucket]))
    seeded = give_seed(replace(spec, begin=str(folder)))
    assert give_seed(replace(spec, begin=str(folder))) == seeded
    assert [list(seed_parts(seeded, bucket)) for bucket in range(2)] == parts
    store = open_store(seeded.seed_place)
    assert len(store.list()) == 2
    torn = Path(store.name) / store.list()[0]
    torn.write_bytes(torn.read_bytes()[:-1])
    assert list(seed_parts(give_seed(replace(spec, begin=str(folder))), 0)) == parts[0]
    drop_seeds(seeded)
    assert store.list() == []


def test_an_app_with_a_store_is_cut_and_goes_on_from_there(tmp_path: Path):
    spec = apart(tmp_path)
    write_input(tmp_path / "in", 300)
    node = LocalNode(spec)
    assert node.run() > 0
    node.close()
    assert open_store(spec.log_place).list()
    assert not (tmp_path / "state" / "log").exists()
    Group(spec, lambda: None).close()


def test_a_store_that_is_not_the_one_of_before_is_found_out(tmp_path: Path):
    spec = apart(tmp_path)
    write_input(tmp_path / "in", 300)
    node = LocalNode(spec)
    node.run()
    node.close()
    with pytest.raises(NadiError) as caught:
        Group(replace(spec, store=str(tmp_path / "other")), lambda: None)
    assert caught.value.condition == "STATE_LOG_ELSEWHERE"
    assert str(tmp_path / "other") in str(caught.value)


def test_the_run_of_a_sink_is_the_one_that_the_node_knows(tmp_path: Path):
    spec = replace(apart(tmp_path), state=str(tmp_path / "state"))
    sink = Connector("Out", Schema(()), "kafka", {}, Annotation("map"), 1)
    node = replace(spec.place, notes=spec.place_in(tmp_path).notes)
    ledger.give_run(sink, node)
    hosts = [spec.place_in(tmp_path / name) for name in "ab"]
    assert {ledger.run(ledger.shared(sink, place)) for place in hosts} == {ledger.run(ledger.folder(sink, spec.place))}


def test_the_run_of_tables_in_stores_is_the_one_that_the_node_knows(tmp_path: Path):
    spec = replace(apart(tmp_path), state=str(tmp_path / "state"))
    stored = "@store(type='rdbms', jdbc.url='jdbc:postgresql://h/d') define table T (k string);"
    ready(replace(spec, text=spec.text.replace("partition with", f"{stored}\npartition with", 1)))
    hosts = [spec.place_in(tmp_path / name) for name in "ab"]
    known = ledger.run(ledger.folder(ledger.STORES, spec.place))
    assert {ledger.run(ledger.shared(ledger.STORES, place)) for place in hosts} == {known}


# ---- what is refused


@pytest.mark.parametrize(
    ("source", "sink", "journal", "named"),
    [
        ("type='file', file.uri='x'", "type='http', publisher.url='http://h/x'", False, "@source 'file' of In"),
        ("type='http', receiver.url='http://h:1/x'", "type='http', publisher.url='http://h/x'", False, "nadi.journal"),
        ("type='http', receiver.url='http://h:1/x'", "type='log'", True, "@sink 'log' of Out"),
        ("type='nats', destination='d'", "type='nats', destination='e'", True, "@sink 'nats' of Out"),
        ("type='inMemory', topic='t'", "type='http', publisher.url='http://h/x'", False, "@source 'inmemory' of In"),
    ],
)
def test_what_needs_the_state_folder_is_refused_by_name(source: str, sink: str, journal: bool, named: str):
    with pytest.raises(NadiError) as caught:
        check_apart(_app(source, sink), connectors, journal)  # type: ignore[arg-type]  # a module
    assert caught.value.condition == "NEEDS_STATE_FOLDER"
    assert named in str(caught.value)


def test_what_is_reached_over_the_network_is_not_refused():
    kafka = "type='kafka', topic{}='t', bootstrap.servers='h:1'"
    check_apart(_app(kafka.format(".list"), kafka.format("")), connectors, False)  # type: ignore[arg-type]


def _app(source: str, sink: str) -> Any:
    text = f"@source({source}, @map(type='json')) define stream In (a int);"
    return engine.plan_app(
        f"{text} @sink({sink}, @map(type='json')) define stream Out (a int); from In select a insert into Out;"
    )
