"""Turns at NATS servers: who has lost the turn is refused, and whoever takes over knows what is there, whatever happened in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from centre_brokers import EAST, WEST, Asleep, NatsCentres
from eventually import eventually
from log_contract import payloads
from sample import connector, delivery

from nadi.cli.centres import switch
from nadi.errors import NOWHERE, NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Delivery, Place
from nadi.io.jetstream import MESSAGE_ID, Outgoing, Stream, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log, open_sink, sink_kind
from nadi.io.sinks import natsturn
from nadi.io.sinks.natsfence import Fence
from nadi.io.sinks.natsturn import Note, Register
from nadi.io.sinks.numbers import Numbers
from nadi.io.turn import Turn

TURN = Turn(1, "west", "a7")
MADE_BY = "alerts/0@a7"

APP = """
@app:name('Alerts')
@source(type = 'inMemory', topic = 'in', @map(type = 'passThrough'))
define stream In (name string, size int);
@sink(type = 'natsMultiDC', destination = '{name}', bootstrap.servers = '{servers}', publish = 'active', centre = 'any',
      sequence.id = 'alerts', @map(type = 'json'))
define stream Out (name string, size int);
from In select name, size insert into Out;
"""


@pytest.fixture
def client(nats: NatsServer) -> Iterator[NatsClient]:
    made = NatsClient(nats.url)
    yield made
    made.close()


@pytest.fixture
def subject(client: NatsClient) -> str:
    """One whose stream forgets the ids of messages at once, as every stream does after a while."""
    name = f"t{uuid4().hex[:8]}"
    config = {**stream_config(name, [name, f"{name}.other"]), "duplicate_window": 100_000_000}
    client.call(lambda nc: ensure_stream(nc, config))
    return name


@pytest.fixture
def register(client: NatsClient, subject: str) -> Register:
    made = Register(client, subject)
    made.make()
    made.give(TURN, 0)
    return made


def row(register: Register, number: int) -> Outgoing:
    headers = {"Nadi-Producer": MADE_BY, "Nadi-Group": "0", "Nadi-Number": str(number), "Nadi-Count": "1"}
    return Outgoing(register.place, str(number).encode(), headers)


def begun(register: Register, turn: Turn = TURN) -> Fence:
    fence = Fence(register, register.make(), "alerts/0")
    fence.begin(turn, MADE_BY)
    return fence


def append(fence: Fence, register: Register, *given: int) -> None:
    """Publish rows that are not there, as the sink does it."""
    rows = [Numbers(0, n, 1) for n in given]
    fence.append([row(register, of.number) for of in rows if not fence.delivered.has(of)], rows)


def stored(register: Register) -> list[str]:
    log = open_log(connector("nats", {"destination": register.place, "url": register.client.url}), Place("A", Path()))
    try:
        return [p.decode() for p in payloads(log) if isinstance(p, bytes)]
    finally:
        log.close()


def refused(action: Callable[[], object]) -> str:
    with pytest.raises(NadiError) as failure:
        action()
    return failure.value.condition


def test_who_has_begun_before_is_refused_as_soon_as_somebody_else_begins(register: Register) -> None:
    first = begun(register)
    append(first, register, 0, 1)
    register.give(Turn(2, "east", "a7"), register.turn()[1])
    append(first, register, 2)  # the new one has not begun yet
    second = begun(register, Turn(2, "east", "a7"))
    assert refused(lambda: append(first, register, 3, 4)) == "SEQUENCE_TAKEN"
    append(second, register, 1, 2, 3)
    assert stored(register) == ["0", "1", "2", "3"]


def test_who_has_lost_the_turn_cannot_begin_again_even_where_it_has_read_the_turn_before(register: Register) -> None:
    later = Turn(2, "east", "a7")
    register.give(later, register.turn()[1])
    second = begun(register, later)
    register.turn = lambda: (TURN, 1)  # type: ignore[method-assign]  # what it read before it slept
    assert refused(lambda: begun(register)) == "FENCED"
    append(second, register, 0)  # and it has kept nobody from publishing
    assert stored(register) == ["0"]


def test_a_turn_that_is_given_while_the_one_before_begins_is_found(register: Register) -> None:
    register.give(Turn(2, "east", "a7"), register.turn()[1])
    assert refused(lambda: begun(register)) == "FENCED"
    second = begun(register, Turn(2, "east", "a7"))
    append(second, register, 0)
    assert stored(register) == ["0"]


def test_rows_that_nobody_has_noted_are_found_by_their_numbers_and_never_come_twice(register: Register) -> None:
    first = begun(register)
    append(first, register, 0, 1)
    first._publish([row(register, n) for n in (2, 3, 4)])  # it dies before it notes them
    for _ in range(2):
        heir = begun(register)
        append(heir, register, 2)  # it has cut otherwise; 3 and 4 are still not noted
    heir = begun(register)
    append(heir, register, 3)
    append(heir, register, 4, 5)
    assert stored(register) == [str(n) for n in range(6)]
    assert register.note("alerts.0")[0].numbers == {0: 6}


def test_who_takes_over_reads_no_further_back_than_to_what_was_noted(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begun(register)
    for n in range(0, 200, 10):
        append(first, register, *range(n, n + 10))
    first._publish([row(register, 200)])
    read: list[int] = []
    whole = Stream.read

    def counted(self: Stream, start: int, end: int) -> Iterator[Any]:
        for part in whole(self, start, end):
            read.extend(m.sequence for m in part)
            yield part

    monkeypatch.setattr(Stream, "read", counted)
    heir = begun(register)
    assert len(read) == 1
    append(heir, register, 200, 201)
    monkeypatch.undo()
    assert stored(register) == [str(n) for n in range(202)]


def test_a_note_that_comes_late_does_not_replace_a_newer_one(register: Register) -> None:
    sleeper = begun(register)
    heir = begun(register)
    append(heir, register, 0, 1)
    late = Note("alerts/0", 1, {0: 1})
    assert refused(lambda: register.keep("alerts.0", late, sleeper._noted)) == "SEQUENCE_TAKEN"
    assert register.note("alerts.0")[0].numbers == {0: 2}


def test_what_others_write_to_the_stream_keeps_nobody_from_publishing(register: Register, client: NatsClient) -> None:
    fence = begun(register)
    for n in range(5):
        client.call(lambda nc: publish_all(nc, [Outgoing(f"{register.place}.other", b"x", {})] * 3))
        append(fence, register, n)
    assert stored(register) == [str(n) for n in range(5)]


def test_buckets_begin_each_for_itself(register: Register) -> None:
    one, other = begun(register), Fence(register, register.make(), "alerts/1")
    other.begin(TURN, "alerts/1@a7")
    append(one, register, 0)
    assert stored(register) == ["0"]


def test_a_stream_that_holds_the_subjects_already_is_left_as_it_is(client: NatsClient) -> None:
    name = f"t{uuid4().hex[:8]}"
    client.call(lambda nc: ensure_stream(nc, stream_config(name, [f"{name}.>"])))
    before = client.call(lambda nc: api(nc, f"STREAM.INFO.{name}"))["config"]
    assert Register(client, f"{name}.hot").make() == name
    assert client.call(lambda nc: api(nc, f"STREAM.INFO.{name}"))["config"] == before


def test_a_stream_that_drops_what_was_read_takes_no_turns(client: NatsClient) -> None:
    name = f"t{uuid4().hex[:8]}"
    client.call(lambda nc: ensure_stream(nc, {**stream_config(name, [name]), "retention": "interest"}))
    with pytest.raises(NadiError, match="retention policy interest"):
        Register(client, name).make()


def test_a_server_that_would_not_compare_what_rows_say_takes_no_turns(client: NatsClient) -> None:
    old: Any = SimpleNamespace(connected_server_version=SimpleNamespace(major=2, minor=10))
    with pytest.raises(NadiError, match=r"turns need a server from 2\.11 on"):
        asyncio.run(Register(client, "t")._make(old))


def test_of_two_that_give_the_turn_at_the_same_time_one_is_refused(register: Register) -> None:
    given = connector("natsmultidc", {"destination": register.place, "bootstrap.servers": register.client.url})
    one, other = natsturn.NatsSwitch(given), natsturn.NatsSwitch(given)
    assert one.begin() == other.begin() == TURN
    one.give(Turn(2, "east", "a7"))
    with pytest.raises(NadiError, match="somebody else is switching"):
        other.give(Turn(2, "west", "a7"))


def test_a_destination_that_depends_on_the_row_takes_no_turns() -> None:
    options = {"destination": "t.{{name}}", "bootstrap.servers": "a:1,b:1", "publish": "active"}
    given = connector("natsmultidc", {**options, "centre": "west", "sequence.id": "x"})
    with pytest.raises(NadiError) as failure:
        sink_kind("natsmultidc").check(given, NOWHERE)
    assert failure.value.condition == "OPTION_INVALID"


# ---- two clusters, two servers ---------------------------------------------------------------------------------------


class Cluster:
    """One of the two: it computes the rows 0 … `count` - 1 of each bucket, and cuts them as it happens."""

    def __init__(self, world: World, name: str) -> None:
        more = {"publish": "active", "centre": name, "sequence.id": "alerts", "away.after": str(world.patience)}
        given = connector("natsmultidc", {**world.centres.options, **more})
        self.sink: Any = open_sink(given, Place("Alerts", world.folder / name))
        self._world = world
        self._next = dict.fromkeys(range(world.buckets), 0)
        self._cut = 0
        self._again: dict[int, Delivery] = {}

    def step(self, bucket: int) -> None:
        """Write the next cut of a bucket, or the last one once more where it was not written."""
        given = self._again.pop(bucket, None) or self._new(bucket)
        try:
            self.sink.commit(given.cut, [self.sink.write(given)])
        except ConnectionUnavailableException:
            self._again[bucket] = given

    def turn_over(self) -> None:
        """Fall asleep, or wake up."""
        held = self.sink._followers
        self.sink._followers = [f.awake if isinstance(f, Asleep) else Asleep(f) for f in held]

    def wake(self) -> None:
        self.sink._followers = [f.awake if isinstance(f, Asleep) else f for f in self.sink._followers]

    def _new(self, bucket: int) -> Delivery:
        first = self._next[bucket]
        end = min(self._world.count, first + self._world.draw.randint(0, 4))
        self._next[bucket] = end
        self._cut += 1
        return delivery(self._cut, [f"{bucket}:{n}" for n in range(first, end)], first, bucket, bucket)


class World:
    """Two servers and two clusters, to which things happen as `draw` says: also in the middle of what one of them does."""

    buckets, count = 2, 24

    def __init__(self, centres: NatsCentres, folder: Path, draw: random.Random, patience: int, pauses: bool) -> None:
        self.centres, self.folder, self.draw, self.patience, self.pauses = centres, folder, draw, patience, pauses
        self._app = folder / "alerts.siddhi"
        self._app.write_text(APP.format(name=centres.name, servers=centres.servers))
        self.clusters = [Cluster(self, name) for name in ("west", "east")]
        self.others: Sequence[Cluster] = ()
        self._inside = False

    def happen(self, whom: Sequence[Cluster]) -> None:
        what = self.draw.random()
        one = self.draw.choice(whom)
        if what < 0.65:
            one.step(self.draw.randrange(self.buckets))
        elif what < 0.87:
            self.switch(self.draw.choice(["west", "east"]))
        else:
            one.turn_over()

    def switch(self, to: str) -> None:
        try:
            switch(self._app, to, True, ())
        except NadiError as reason:
            if "somebody else is switching" not in str(reason):
                raise

    def pause(self, whom: Sequence[Cluster], chance: float = 0.1) -> None:
        """Perhaps something happens to the others now."""
        if self._inside or not whom or self.draw.random() > chance:
            return
        self._inside = True
        try:
            for _ in range(self.draw.randint(1, 9)):
                self.happen(whom)
        finally:
            self._inside = False

    def run(self, steps: int) -> None:
        for _ in range(steps):
            one = self.draw.choice(self.clusters)
            self.others = [each for each in self.clusters if each is not one] if self.pauses else []
            self.happen([one])
            self.others = []

    def finish(self) -> None:
        for one in self.clusters:
            one.wake()
        self.switch(self.draw.choice(["west", "east"]))
        eventually(self._is_done, 60)
        for one in self.clusters:
            one.sink.close()

    def _is_done(self) -> bool:
        for one in self.clusters:
            for bucket in range(self.buckets):
                one.step(bucket)
        try:
            found = [set(self.stored(centre)) for centre in (WEST, EAST)]
            return set.union(*found) == set(self.rows()) and (not self.pauses or found[WEST] == found[EAST])
        except ConnectionUnavailableException:
            return False  # its server has come back only just

    def rows(self) -> list[str]:
        return [f"{bucket}:{n}" for bucket in range(self.buckets) for n in range(self.count)]

    def stored(self, centre: int) -> list[str]:
        log = self.centres.log(centre)
        try:
            return [p.decode() for p in payloads(log) if isinstance(p, bytes)]
        finally:
            log.close()


def forgotten(message: Outgoing) -> Outgoing:
    """A message without its id: as if the server had forgotten all ids before, as it does after a while."""
    return Outgoing(message.subject, message.data, {n: v for n, v in message.headers.items() if n != MESSAGE_ID})


def broken_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let things happen between any two steps of a publisher towards a server, and in the middle of what it publishes; and connections be lost there."""

    def pausing(kind: type, name: str) -> None:
        plain = getattr(kind, name)

        def paused(self: Any, *given: Any) -> Any:
            world.pause(world.others)
            found = plain(self, *given)
            world.pause(world.others)
            return found

        monkeypatch.setattr(kind, name, paused)

    for name in ("turn", "give", "note", "keep"):
        pausing(Register, name)
    publish_whole = Fence._publish

    def in_parts(self: Fence, messages: Sequence[Outgoing]) -> list[int]:
        messages = [forgotten(each) for each in messages]
        half = world.draw.randint(0, len(messages))
        stored = publish_whole(self, messages[:half])
        world.pause(world.others, 0.7)
        if world.draw.random() < 0.1:
            raise error("CONNECTION_UNAVAILABLE", connector="the server", reason="the connection was lost")
        return stored if len(stored) < half else stored + publish_whole(self, messages[half:])

    monkeypatch.setattr(Fence, "_publish", in_parts)
    monkeypatch.setattr(natsturn, "LOOK", 0.0)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCentres]:
    made = NatsCentres(tmp_path_factory.mktemp("centres"))
    yield made
    made.stop()


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 60))])
def test_with_both_servers_there_each_has_every_row_once_and_in_order_whatever_happens(
    servers: NatsCentres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world = World(servers.renamed(), tmp_path, random.Random(seed), patience=60_000, pauses=True)
    broken_up(world, monkeypatch)
    world.run(60)
    world.finish()
    for centre in (WEST, EAST):
        found = world.stored(centre)
        assert len(found) == len(set(found)), "a row is there twice"
        for bucket in range(world.buckets):
            of = [name for name in found if name.startswith(f"{bucket}:")]
            assert of == [name for name in world.rows() if name.startswith(f"{bucket}:")]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 20))])
def test_with_a_server_away_for_a_while_none_has_a_row_twice_and_each_row_is_at_one_of_them(
    servers: NatsCentres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    world = World(servers.renamed(), tmp_path, draw, patience=400, pauses=False)
    broken_up(world, monkeypatch)
    world.run(12)
    away = draw.choice([WEST, EAST])
    servers.kill(away)
    try:
        world.run(15)
    finally:
        servers.start(away)
    world.run(15)
    world.finish()
    for centre in (WEST, EAST):
        found = world.stored(centre)
        assert len(found) == len(set(found)), "a row is there twice"
