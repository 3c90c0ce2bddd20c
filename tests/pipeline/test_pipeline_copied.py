"""An app whose services have copies goes on at the copies, from nothing but what was prepared before the first node died: wherever it died, outputs are equal.

Each life has services of its own, of which the next life's begin empty, catch up, and take records. A node dies at a record: before the other one has it,
or when that has it and nothing was written here.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from eventsync.pair_recording import recorder_in
from pipeline_local import LocalNode

from nadi.eventsync.contract import Copy, Surplus
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.logscopy import LogsCopy
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.io import errortable
from nadi.io.jetstream import Stream, ensure_stream, stream_config
from nadi.io.journal import open_journal
from nadi.io.journallog import JournalLog
from nadi.io.journalrecords import CONTROL
from nadi.io.natsclient import NatsClient, shared
from nadi.io.natsserver import NatsServer
from nadi.pipeline.cutting import epochtable
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.lives import settle_in
from nadi.pipeline.shape import as_before
from nadi.pipeline.spec import AppSpec
from nadi.replica.address import with_replica
from nadi.replica.contract import JournalAppend, ObjectPut, Record, Statements

TEXT = """@app:name('A')
@source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream In (k string, n long);
@sink(type='file', file.uri='{folder}/lines', @map(type='json'))
@sink(type='file', dir.uri='{folder}/parts', @map(type='json'))
@sink(type='rdbms', url='jdbc:sqlite:{folder}/out.db', table.name='rows')
define stream Out (k string, n long, top long, total long);
@sink(type='nats', destination='moves.{{{{k}}}}', url='{nats}', on.error='STREAM', @map(type='json'))
@sink(type='inMemory', topic='told', @map(type='json'))
@OnError(action='STREAM') define stream Told (k string, n long);
@source(type='inMemory', topic='told', @map(type='json')) define stream Heard (k string, n long);
@sink(type='file', file.uri='{folder}/heard', @map(type='json')) define stream Echo (k string, n long);
@sink(type='file', file.uri='{folder}/bad', @map(type='json')) define stream Bad (k string, n long);
define table Limits (k string, top long);
from In join Limits on In.k == Limits.k select In.k as k, n, top insert into Known;
from Known select k, n, top, sum(n) as total insert into Out;
from In select k, n insert into Told;
from !Told select k, n insert into Bad;
from Heard select k, n insert into Echo;"""


class Died(Exception):
    """The node is not there any more."""


class Site:
    """The services of a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = Path("/nobody")  # until the site is the active one
        self._server = NatsServer(folder / "journal")
        self._server.start()
        self.copies: tuple[JournalCopy, LogsCopy, ObjectsCopy] = (
            JournalCopy(self._server.url),
            LogsCopy(folder / "logs.db"),
            ObjectsCopy(folder / "state"),
        )

    @property
    def journal(self) -> str:
        return with_replica(self._server.url, self.socket)

    @property
    def cuts(self) -> str:
        return with_replica(f"sqlite:///{self.folder}/logs.db", self.socket)

    @property
    def store(self) -> str:
        return with_replica(f"file://{self.folder}/state/A", self.socket)

    def of(self, record: Record) -> Copy:
        return next(copy for copy in self.copies if isinstance(record, copy.kinds))

    def close(self) -> None:
        for client in (shared(self.journal), self.copies[0], self.copies[1]):
            client.close()
        for engine in (*epochtable.engines(), *errortable._ENGINES.values()):
            engine.dispose()
        self._server.stop()
        shutil.rmtree(self.folder)


class Lives:
    """The lives of the app: that of a node ends with its services, and the next one goes on with the copies."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, dies: Callable[[int], str]) -> None:
        """`dies` says for the record of a number whether the node dies there: "" (no), "before" or "after" the other one has it."""
        self.folder, self._patch, self._dies = folder, patch, dies
        self.outside = NatsServer(folder / "outside")
        self.outside.start()
        client = NatsClient(self.outside.url)
        client.call(lambda nc: ensure_stream(nc, stream_config("moves", ["moves.>"])))
        client.close()
        self.text = TEXT.format(folder=folder, nats=self.outside.url)
        self.count = 0
        self.prepared = 0
        self.deaths: list[Record] = []
        self.kinds: set[type] = set()
        self.passive = Site(folder / "site0")
        self.begin()

    def begin(self) -> None:
        """The node with the copies goes on; the other one comes back with an empty disk, and catches up."""
        self.count += 1
        self.active, self.passive = self.passive, Site(self.folder / f"site{self.count}")
        for mine, theirs in zip(self.active.copies, self.passive.copies):
            surplus = asyncio.run(_caught_up(mine, theirs))
            assert surplus == []
        self.recorder = recorder_in(self._patch)
        self.active.socket = self.recorder.socket
        self.recorder.before = self._prepared
        self.dead = False
        self.node: LocalNode | None = None

    def _prepared(self, record: Record) -> None:
        if self.dead:
            raise Died
        self.kinds.add(type(record))
        how = self._dies(self.prepared)
        self.prepared += 1
        if how == "before":
            self._die(record)
        if isinstance(record, ObjectPut):  # its bytes go beside the records
            made = self.passive.copies[2].receive(record.path, record.length)
            made.write(self.active.copies[2].place(record.path).read_bytes())
            made.done()
        if how == "after":
            self.recorder.records.append(record)
            self._die(record)

    def _die(self, record: Record) -> None:
        self.deaths.append(record)
        self.dead = True
        # what the dying code still says is heard by nobody
        self.recorder.confirm = self.recorder.abandon = lambda _ticket: None  # type: ignore[method-assign]
        raise Died

    def take_over(self) -> None:
        """Write what was prepared and not abandoned, in order, but for what a later record for the same place replaces; all else of the dead node is gone."""
        if self.node is not None:
            self.node.close()
        recorder = self.recorder
        kept = [r for ticket, r in enumerate(recorder.records) if ticket not in recorder.abandoned]
        asyncio.run(_applied(self.passive, _unreplaced(kept)))
        self.active.close()
        shutil.rmtree(self.folder / f"home{self.count}", ignore_errors=True)
        self.begin()

    def running(self) -> LocalNode:
        """The node, with the app."""
        if self.node is None:
            self.node = LocalNode(self.spec(), self._patch)
        return self.node

    def spec(self) -> AppSpec:
        app = plan_app(self.text)
        outputs = tuple(s.key for s in app.streams.values() if any(a.name == "sink" for a in s.annotations))
        spec = AppSpec(
            "A",
            self.text,
            str(self.folder / f"home{self.count}" / "A"),
            journal=self.active.journal,
            cuts=self.active.cuts,
            store=self.active.store,
            owner=self.count,
            outputs=outputs,
            order_idle=0,
        )
        Path(spec.state).mkdir(parents=True, exist_ok=True)
        settle_in(spec)
        shape = as_before(Path(spec.state), app, spec)
        return replace(spec, buckets=shape.buckets, inputs=dict(shape.inputs))

    def surely(self, do: Callable[[], object]) -> None:
        """Do something at whichever node is alive when it is done."""
        while True:
            try:
                do()
                return
            except Exception:
                if not self.dead:
                    raise
                self.take_over()

    def send(self, *events: tuple[str, int]) -> None:
        """Events of a sender who sends again what was not acknowledged, and is recognised by what it sends."""
        bodies = [json.dumps({"event": {"k": k, "n": n}}).encode() for k, n in events]

        def do() -> None:
            known = {body for _, body in self.events(0)}
            left = [body for body in bodies if body not in known]
            if left:
                open_journal(self.active.journal, "A").append(0, [(1_000, body, {}) for body in left])

        self.surely(do)

    def change(self, id_: str, query: str) -> None:
        """A change on demand."""

        def do() -> None:
            if not any(id_.encode() in body for _, body in self.events(CONTROL)):
                self.running().spec.open_control().append(id_, query)

        self.surely(do)

    def take(self) -> None:
        """Cuts until all that is there was taken."""

        def do() -> None:
            node, come = self.running(), threading.Event()
            node.group.wake(come.set)
            while True:
                node.run()
                if self._has_taken_all(node.spec):
                    return
                come.wait(1)
                come.clear()

        self.surely(do)

    def _has_taken_all(self, spec: AppSpec) -> bool:
        last = open_cut_log(spec).last()
        for source in spec.sources(plan_app(self.text)):
            log = spec.open_log(source)
            end = log.end(0)
            log.close()
            if end and (last is None or last.ends.get((source.ordinal, 0), 0) < end):
                return False
        return True

    def events(self, ordinal: int | str) -> list[tuple[int, bytes]]:
        log = JournalLog(shared(self.active.journal), "A", ordinal)
        found = [
            (int(position), bytes(body))
            for messages in log.read(0, log.beginning(0), log.end(0))
            for position, body in zip(messages.positions, messages.payloads)
        ]
        log.close()
        return found

    def close(self) -> None:
        if self.node is not None:
            self.node.close()
        self.active.close()
        self.passive.close()
        self.outside.stop()

    # ---- what is outside

    def lines(self, name: str) -> list[dict[str, object]]:
        return [json.loads(line)["event"] for line in (self.folder / name).read_text().splitlines()]

    def parts(self) -> list[dict[str, object]]:
        files = sorted((self.folder / "parts").glob("part-*"))
        return [json.loads(line)["event"] for file in files for line in file.read_text().splitlines()]

    def table(self) -> list[dict[str, object]]:
        with closing(sqlite3.connect(self.folder / "out.db")) as connection:
            found = connection.execute("select k, n, top, total from rows").fetchall()
        return [dict(zip(("k", "n", "top", "total"), row)) for row in found]

    def published(self) -> list[dict[str, object]]:
        client = NatsClient(self.outside.url)
        stream = Stream(client, "moves")
        found = [json.loads(m.data)["event"] for some in stream.read(1, stream.bounds().last + 1) for m in some]
        client.close()
        return found


async def _caught_up(mine: Copy, theirs: Copy) -> list[Surplus]:
    found: list[Surplus] = []
    await theirs.restore(mine.missing(await theirs.standing()), found.extend)
    return found


async def _applied(site: Site, records: list[Record]) -> None:
    for record in records:
        await site.of(record).apply(record)


def _unreplaced(records: list[Record]) -> list[Record]:
    last = {place: i for i, record in enumerate(records) if (place := _place(record)) is not None}
    return [record for i, record in enumerate(records) if last.get(_place(record), i) == i]


def _place(record: Record) -> object:
    if isinstance(record, JournalAppend):
        return record.subject, record.first
    return record.n if isinstance(record, Statements) else None


def played(folder: Path, patch: pytest.MonkeyPatch, dies: Callable[[int], str]) -> Lives:
    """The whole story, whoever is alive."""
    folder.mkdir()
    lives = Lives(folder, patch, dies)
    wanted, told, bad, heard, total = [], [], [], [], 0
    lives.change("c0", "select 'a' as k, 0L as top insert into Limits")
    lives.take()
    for turn in range(1, 4):
        lives.send(("a", turn), ("x y", turn), ("a", 10 * turn))
        lives.take()
        for n in (turn, 10 * turn):
            total += n
            wanted.append({"k": "a", "n": n, "top": turn - 1, "total": total})
            told.append({"k": "a", "n": n})
        bad.append({"k": "x y", "n": turn})
        heard += [{"k": k, "n": n} for k, n in (("a", turn), ("x y", turn), ("a", 10 * turn))]
        lives.change(f"c{turn}", f"update Limits set Limits.top = {turn}L on Limits.k == 'a'")
        lives.take()
    assert lives.lines("lines") == wanted
    assert lives.parts() == wanted
    assert lives.table() == wanted
    assert lives.published() == told
    assert lives.lines("bad") == bad
    assert lives.lines("heard") == heard
    return lives


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lives"


def test_nothing_durable_is_written_that_was_not_prepared(folder: Path, monkeypatch: pytest.MonkeyPatch):
    lives = played(folder, monkeypatch, lambda _record: "")
    assert lives.kinds == {JournalAppend, Statements, ObjectPut}
    assert lives.recorder.open == []
    lives.take_over()  # everything that the first node had is gone
    lives.send(("a", 1_000))
    lives.take()
    assert lives.lines("lines")[-1] == {"k": "a", "n": 1_000, "top": 3, "total": 66 + 1_000}
    lives.close()


@pytest.mark.parametrize("seed", range(3))
def test_outputs_are_equal_wherever_nodes_die(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int):
    dice = random.Random(seed)
    points = {dice.randrange(4, 150): dice.choice(["before", "after"]) for _ in range(4)}
    lives = played(folder, monkeypatch, lambda n: points.get(n, ""))
    assert lives.deaths
    lives.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after"])
def test_outputs_are_equal_for_each_record_at_which_a_node_can_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    at, died = 0, True
    while died:
        lives = played(tmp_path / f"lives{at}", monkeypatch, lambda n, at=at: how if n == at else "")
        died = bool(lives.deaths)
        lives.close()
        shutil.rmtree(tmp_path / f"lives{at}")
        at += 1
    assert at > 50
