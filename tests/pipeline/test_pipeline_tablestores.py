"""Tables in a database under the cuts of a host: what a cut writes there counts once, however often it is taken."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline_bucket import hosts_of_this_process
from pipeline_work import Process, Rig, Within, cuts_of, sides, spec_of

from nadi.functions import default_registry
from nadi.io import registry as connectors
from nadi.pipeline.engine import plan_app
from nadi.pipeline.executor.livekernels import LiveKernels
from nadi.pipeline.hosting.hostclient import Hosts
from nadi.plan.distribution import distribute

TEXT = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string);
@sink(type='test', file='{folder}/out') define stream Out (k string, n int);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{folder}/db.sqlite') @primaryKey('k') define table T (k string, n int);
@store(type='rdbms', jdbc.url='jdbc:sqlite:{folder}/db.sqlite') define table Log (k string, n int);
from In select k, 1 as n update or insert into T set T.n = T.n + n on T.k == k;
from In join T on In.k == T.k select In.k as k, T.n as n insert into Out;
from Out insert into Log;"""


@pytest.fixture
def within(tmp_path: Path) -> Iterator[Within]:
    for made in sides(tmp_path, 1):
        yield made[0]


@pytest.fixture
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(1)


def rig_in(folder: Path, **more: Any) -> Rig:
    (folder / "in").write_text("".join(f"{i * 10}\t{json.dumps([text])}\n" for i, text in enumerate("aababc")))
    return Rig(spec_of(folder, TEXT, **more), cuts_of(folder / "in", (2, 4, 6)))


def rows(folder: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "db.sqlite") as connection:
        return connection.execute(f"select k, n from {table} order by k, n").fetchall()


LOGGED = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)]


def test_cuts_write_into_the_database_and_what_they_read_there_goes_out(tmp_path: Path, within: Within) -> None:
    rig = rig_in(tmp_path)
    for _cut in range(3):
        rig.step(within)
    assert rows(tmp_path, "T") == [("a", 3), ("b", 2), ("c", 1)]
    assert rows(tmp_path, "Log") == LOGGED
    assert sorted((row["k"], row["n"]) for part in rig.delivered().values() for row in part) == LOGGED


def test_a_cut_whose_state_could_not_be_kept_does_not_write_again(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_in(tmp_path)
    rig.step(within)
    with monkeypatch.context() as patched:
        patched.setattr(LiveKernels, "keep", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        assert rig.run(within)["state"] == "failed"
    assert rows(tmp_path, "T") == [("a", 3), ("b", 1)]
    rig.step(within)
    rig.step(within)
    assert rows(tmp_path, "T") == [("a", 3), ("b", 2), ("c", 1)]
    assert len(rows(tmp_path, "Log")) == 6


def test_a_database_that_is_locked_makes_the_cut_fail_and_come_again(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.databases.engines.BUSY_WITHIN", 0.2)
    rig = rig_in(tmp_path)
    rig.step(within)
    with sqlite3.connect(tmp_path / "db.sqlite", isolation_level=None) as other:
        other.execute("begin immediate")
        told = rig.run(within)
        other.execute("rollback")
    assert (told["state"], told["error"]["condition"]) == ("failed", "CONNECTION_UNAVAILABLE")
    rig.step(within)
    rig.step(within)
    assert rows(tmp_path, "Log") == LOGGED


def test_a_cut_that_is_only_tried_writes_nothing(tmp_path: Path, within: Within) -> None:
    rig = rig_in(tmp_path)
    rig.step(within)
    told = rig.run(within, careful=True)
    assert (told["state"], told["probed"]) == ("need", True)
    assert rows(tmp_path, "T") == [("a", 2)]
    rig.step(within)
    assert rows(tmp_path, "T") == [("a", 3), ("b", 1)]


def test_a_host_killed_behind_its_writes_does_not_write_twice(tmp_path: Path, ask: Hosts) -> None:
    mark = tmp_path / "kill"
    rig = rig_in(tmp_path, engine="pipeline_storekill", properties={"mark": str(mark)})
    rig.step(Process(ask, 0))
    mark.touch()
    with pytest.raises((OSError, EOFError)):
        rig.run(Process(ask, 0))
    assert not mark.exists()
    assert rows(tmp_path, "T") == [("a", 3), ("b", 1)]  # it was written
    for _cut in range(2):
        rig.step(Process(ask, 0))
    assert rows(tmp_path, "T") == [("a", 3), ("b", 2), ("c", 1)]
    assert len(rows(tmp_path, "Log")) == 6


PARTS = """@app:name('W1')
@source(type='http') define stream Temp (dev string, t double);
@sink(type='log') define stream Alert (dev string, peak double);
@store(type='rdbms', jdbc.url='jdbc:postgresql://db/hist', username='u', password='p', field.length='dev:40', @cache(size='9'))
@primaryKey('dev') @index('peak') define table Hist (dev string, peak double);
@dist(execGroup='keep', parallel='2') from Temp select dev, t as peak update or insert into Hist set Hist.peak = peak on Hist.dev == dev;
@dist(execGroup='look', parallel='3') from Temp join Hist on Temp.dev == Hist.dev select Temp.dev, Hist.peak as peak insert into Alert;
"""


def test_each_partial_app_has_the_table_as_the_app_has_it() -> None:
    topology = distribute(PARTS, default_registry(), connectors, transport="nats")
    using = {group.name.rpartition("-")[2]: len(group.instances) for group in topology.groups}
    assert (using["keep"], using["look"]) == (2, 3)
    whole = plan_app(PARTS).tables["Hist"]
    for group in topology.groups:
        for instance in group.instances:
            table = plan_app(instance.text).tables.get("Hist")
            if table is None:
                assert group.name.rpartition("-")[2] not in ("keep", "look")
            else:
                assert (table.storage, table.primary_key, table.indexes) == (whole.storage, (0,), (1,))
