"""An app goes on at nodes that have nothing in common but a database, a store, a NATS server and a mount: each node dies in another place, with its home."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pipeline_local import LocalNode

from nadi.io.contract import Place
from nadi.io.faultlog import Fault
from nadi.io.jetstream import ensure_stream, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.lives import settle_in
from nadi.pipeline.shape import as_before
from nadi.pipeline.spec import AppSpec

SINKS = """@app:name('A')
@source(type='file', dir.uri='{folder}/in', file.settle='0', @map(type='csv'))
define stream In (k string, n long);
@sink(type='file', file.uri='{folder}/lines', @map(type='json'))
@sink(type='file', dir.uri='{folder}/parts', @map(type='json'))
@sink(type='nats', destination='moves.out', url='{nats}', @map(type='json'))
@sink(type='rdbms', url='jdbc:sqlite:{folder}/out.db', table.name='rows')
define stream Out (k string, n long, top long, total long);
define table Limits (k string, top long);
from In join Limits on In.k == Limits.k select In.k as k, n, top insert into Known;
from Known select k, n, top, sum(n) as total insert into Out;"""

REFUSED = """@app:name('A')
@source(type='file', dir.uri='{folder}/in', file.settle='0', @map(type='csv'))
define stream In (k string, n long);
@sink(type='nats', destination='moves.{{{{k}}}}', url='{nats}', on.error='STREAM', @map(type='json'))
@OnError(action='STREAM') define stream Out (k string, n long);
@sink(type='file', file.uri='{folder}/lines', @map(type='json')) define stream Bad (k string, n long);
from In select k, n insert into Out;
from !Out select k, n insert into Bad;"""


class Nodes:
    """The lives of an app."""

    def __init__(self, folder: Path, server: NatsServer, text: str, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._server, self._patch = folder, server, patch
        (folder / "in").mkdir()
        self._text = text.format(folder=folder, nats=server.url)
        self._count = self._files = 0
        client = NatsClient(server.url)
        config = {**stream_config("moves", ["moves.>"]), "duplicate_window": 100_000_000}
        client.call(lambda nc: ensure_stream(nc, config))
        client.close()

    def spec(self) -> AppSpec:
        """As a node has it that is given the app now."""
        app = plan_app(self._text)
        outputs = tuple(s.key for s in app.streams.values() if any(a.name == "sink" for a in s.annotations))
        spec = AppSpec(
            "A",
            self._text,
            str(self.folder / f"home{self._count}" / "A"),
            journal=self._server.url,
            cuts=f"sqlite:///{self.folder}/cuts.db",
            store=str(self.folder / "store" / "A"),
            owner=self._count,
            outputs=outputs,
            order_idle=0,
        )
        Path(spec.state).mkdir(parents=True, exist_ok=True)
        settle_in(spec)
        shape = as_before(Path(spec.state), app, spec)
        return replace(spec, buckets=shape.buckets, inputs=dict(shape.inputs))

    def next(self, asleep: bool = False) -> LocalNode:
        """The next node, with an empty home; that of the one before is gone, unless it is only `asleep`."""
        if not asleep:
            shutil.rmtree(self.folder / f"home{self._count}", ignore_errors=True)
        self._count += 1
        return LocalNode(self.spec(), self._patch)

    def put(self, *rows: str) -> None:
        """A file of rows on the mount."""
        self._files += 1
        (self.folder / "in" / f"{self._files:03}.part").write_text("".join(f"{row}\n" for row in rows))
        (self.folder / "in" / f"{self._files:03}.part").rename(self.folder / "in" / f"{self._files:03}.csv")

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line)["event"] for line in (self.folder / "lines").read_text().splitlines()]

    def parts(self) -> list[dict[str, object]]:
        files = sorted((self.folder / "parts").glob("part-*"))
        return [json.loads(line)["event"] for file in files for line in file.read_text().splitlines()]

    def published(self, subject: str) -> list[dict[str, object]]:
        client = NatsClient(self._server.url)
        connector = next(
            replace(c, options={"destination": subject, "url": self._server.url}, type="nats")
            for c in self.spec().user_sources(plan_app(self._text))
        )
        log = open_log(connector, Place("Look", Path()))
        found = [json.loads(bytes(p))["event"] for m in log.read(0, log.beginning(0), log.end(0)) for p in m.payloads]
        log.close()
        client.close()
        return found

    def table(self) -> list[dict[str, object]]:
        connection = sqlite3.connect(self.folder / "out.db")
        found = connection.execute("select k, n, top, total from rows").fetchall()
        connection.close()
        return [dict(zip(("k", "n", "top", "total"), row)) for row in found]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as running:
        yield running


DEATHS = ({"settled": False}, {"recorded": False}, {}, {"recorded": False}, {"settled": False})


def dies(node: LocalNode, **death: bool) -> None:
    """The node dies in the next cut, once its file source has seen that there is something."""
    come = threading.Event()
    node.group.wake(come.set)
    while not node.batch(**death):
        come.wait(1)
        come.clear()


def test_all_sinks_have_each_row_once_and_changes_stand_wherever_the_nodes_die(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    nodes = Nodes(tmp_path, server, SINKS, monkeypatch)
    wanted, total = [], 0
    node = nodes.next()
    node.group.spec.open_control().append("c0", "select 'a' as k, 0L as top insert into Limits")
    node.run()
    for life, death in enumerate(DEATHS, 1):
        nodes.put(f"a,{life}", f"x,{life}", f"a,{10 * life}")
        for n in (life, 10 * life):
            total += n
            wanted.append({"k": "a", "n": n, "top": life - 1, "total": total})
        dies(node, **death)
        node.spec.open_control().append(f"c{life}", f"update Limits set Limits.top = {life}L on Limits.k == 'a'")
        node.close()
        node = nodes.next()
        node.run()
    node.close()
    assert nodes.lines() == wanted
    assert nodes.parts() == wanted
    assert nodes.published("moves.out") == wanted
    assert nodes.table() == wanted


@pytest.mark.parametrize("written", [False, True], ids=["before its hosts write", "before its sinks commit"])
def test_a_node_that_wakes_up_after_another_one_went_on_changes_nothing(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch, written: bool
):
    nodes = Nodes(tmp_path, server, SINKS, monkeypatch)
    sleeper = nodes.next()
    sleeper.spec.open_control().append("c0", "select 'a' as k, 0L as top insert into Limits")
    sleeper.run()
    nodes.put("a,1", "a,2")
    come = threading.Event()
    sleeper.group.wake(come.set)
    while not sleeper.group.look():
        come.wait(1)
        come.clear()
    work = sleeper.group.begin()
    assert work is not None
    receipt = sleeper.asked(work) if written else None
    heir = nodes.next(asleep=True)
    heir.run()
    nodes.put("a,3")
    dies(heir)
    wanted = [{"k": "a", "n": n, "top": 0, "total": total} for n, total in ((1, 1), (2, 3), (3, 6))]
    assert nodes.lines() == wanted
    sleeper.group.settle(receipt or sleeper.asked(work))
    assert sleeper.group.failure is not None
    assert sleeper.group.failure.condition in ("FENCED", "CUT_FENCED")
    sleeper.close()
    heir.run()
    nodes.put("a,4")
    dies(heir)
    heir.close()
    wanted.append({"k": "a", "n": 4, "top": 0, "total": 10})
    assert nodes.lines() == nodes.parts() == nodes.table() == wanted
    assert nodes.published("moves.out") == wanted


def test_what_a_target_refused_is_an_event_once_wherever_the_nodes_die(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    nodes = Nodes(tmp_path, server, REFUSED, monkeypatch)
    node = nodes.next()
    for life, death in enumerate(DEATHS, 1):
        nodes.put(f"good,{life}", f"not good,{life}")
        dies(node, **death)
        node.close()
        node = nodes.next()
        node.run()
    log = node.spec.open_faults().open()
    faults = [msgspec.json.decode(bytes(p), type=Fault) for m in log.read(0, 0, log.end(0)) for p in m.payloads]
    node.close()
    assert nodes.published("moves.good") == [{"k": "good", "n": n} for n in range(1, 6)]
    assert [fault.rows[0][1] for fault in faults] == [["not good", n] for n in range(1, 6)]
    assert nodes.lines() == [{"k": "not good", "n": n} for n in range(1, 6)]


def test_what_an_app_could_not_take_is_found_at_the_next_node(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    nodes = Nodes(tmp_path, server, SINKS, monkeypatch)
    node = nodes.next()
    for life, death in enumerate(DEATHS, 1):
        nodes.put(f"a,{life}", "a,no number")
        dies(node, **death)
        node.close()
        node = nodes.next()
        node.run()
    found = [row["payload"] for row in node.spec.open_errors().rows()]
    node.close()
    assert found == ["a,no number"] * 5
