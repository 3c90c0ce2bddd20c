"""The journal at two NATS servers: what is read or acknowledged at one was prepared for the other, and a copy becomes equal whatever fails."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from eventsync.pair_recording import Recorder, recorder_in
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError, error
from nadi.eventsync.contract import Surplus, SurplusKind
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.surplus import KeptSurplus, read_surplus
from nadi.io import copiedappends
from nadi.io.copiedappends import remove_stream, trim
from nadi.io.jetstream import Outgoing, ensure_stream
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import journal_config, seen_name, stream_name, subject
from nadi.io.journalseal import seal
from nadi.io.natsclient import NatsClient, api, shared
from nadi.io.natsserver import NatsServer
from nadi.replica.address import with_replica
from nadi.replica.contract import JournalAppend, JournalTrim

_COUNT = itertools.count()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NatsServer, NatsServer]]:
    with NatsServer(tmp_path_factory.mktemp("one")) as one, NatsServer(tmp_path_factory.mktemp("two")) as two:
        yield one, two


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return recorder_in(monkeypatch)


class Pair:
    """The journal of one app at two servers, of which the first is the active one."""

    def __init__(self, servers: tuple[NatsServer, NatsServer], recorder: Recorder) -> None:
        self.app = f"App{next(_COUNT)}"
        self.urls = [server.url for server in servers]
        self.recorder = recorder
        self.copies = [JournalCopy(url) for url in self.urls]
        self.active = 0
        self.applied = 0
        self.client: NatsClient | None = None
        self.begin()

    def begin(self) -> None:
        """The writer is a process that has just begun."""
        if self.client is not None:
            self.client.close()
        self.client = NatsClient(self.url)
        self.journal = Journal(self.client, self.app, within=0.0)

    @property
    def url(self) -> str:
        return with_replica(self.urls[self.active], self.recorder.socket)

    def events(self, node: int, ordinal: int | str = 0) -> dict[int, tuple[int, bytes]]:
        """What readers of a node see."""
        log = JournalLog(shared(self.urls[node]), self.app, ordinal)
        begin, end = log.beginning(0), log.end(0)
        found = {}
        for messages in log.read(0, begin, end):
            for position, time, body in zip(messages.positions, messages.times, messages.payloads):
                found[int(position)] = (int(time), bytes(body))
        log.close()
        return found

    def settle(self) -> None:
        """The writer has died: the service tells of what it has prepared."""
        for ticket in self.recorder.open:
            held = asyncio.run(self.copies[self.active].holds(self.recorder.records[ticket]))
            (self.recorder.confirm if held else self.recorder.abandon)(ticket)
        self.begin()

    def apply(self, all_: bool = False) -> None:
        """The passive node writes what is settled, up to the first record that is not; or all, where it takes over."""
        while self.applied < len(self.recorder.records):
            if self.applied in self.recorder.open and not all_:
                return
            if self.applied not in self.recorder.abandoned:
                asyncio.run(self.copies[1 - self.active].apply(self.recorder.records[self.applied]))
            self.applied += 1

    def catch_up(self) -> list[Surplus]:
        found: list[Surplus] = []

        async def run() -> None:
            passive, active = self.copies[1 - self.active], self.copies[self.active]
            await passive.restore(active.missing(await passive.standing()), found.extend)

        asyncio.run(run())
        self.applied = len(self.recorder.records)
        return found

    def turn(self) -> None:
        """The other node is the active one."""
        self.active, self.applied = 1 - self.active, len(self.recorder.records)
        self.begin()

    def close(self) -> None:
        for url in self.urls:
            client = shared(url)
            client.call(lambda nc: api(nc, f"STREAM.DELETE.{stream_name(self.app)}"))
        for copy in self.copies:
            copy.close()
        assert self.client is not None
        self.client.close()


@pytest.fixture
def pair(servers: tuple[NatsServer, NatsServer], recorder: Recorder) -> Iterator[Pair]:
    made = Pair(servers, recorder)
    yield made
    made.close()


def test_an_event_is_prepared_before_anybody_can_read_it(pair: Pair):
    seen: list[int] = []
    pair.recorder.before = lambda _record: seen.append(len(pair.events(0)))
    pair.journal.append(0, [(1, b"a", {})])
    pair.journal.append(0, [(2, b"b", {}), (3, b"c", {"p": "v"})])
    assert seen == [0, 1]
    assert [r.first for r in pair.recorder.done() if isinstance(r, JournalAppend)] == [0, 1]
    pair.apply()
    pair.apply()
    assert pair.events(1) == pair.events(0) == {0: (1, b"a"), 1: (2, b"b"), 2: (3, b"c")}


def test_an_event_that_the_partner_does_not_have_is_not_in_the_journal(pair: Pair):
    pair.journal.append(0, [(1, b"a", {})])
    pair.recorder.fails = lambda _record: True
    with pytest.raises(NadiError, match="the test says so"):
        pair.journal.append(0, [(2, b"b", {})])
    pair.recorder.fails = lambda _record: False
    assert len(pair.events(0)) == 1
    pair.journal.append(0, [(3, b"c", {})])
    pair.apply()
    assert pair.events(1) == pair.events(0) == {0: (1, b"a"), 1: (3, b"c")}


def test_a_record_is_applied_once(pair: Pair):
    pair.journal.append(0, [(1, b"a", {})])
    seal(pair.url, pair.app, 0)
    for _ in range(2):
        for record in pair.recorder.done():
            asyncio.run(pair.copies[1].apply(record))
    other = JournalCopy(pair.urls[1])  # one that has just begun
    for record in pair.recorder.done():
        asyncio.run(other.apply(record))
    other.close()
    found = shared(pair.urls[1]).call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(pair.app)}"))
    assert found["state"]["messages"] == 2
    assert pair.events(1) == {0: (1, b"a")}


def test_a_gap_and_another_message_in_the_place_are_errors(pair: Pair):
    for i in range(3):
        pair.journal.append(0, [(i, b"%d" % i, {})])
    first, second, third = pair.recorder.done()
    assert isinstance(second, JournalAppend)
    asyncio.run(pair.copies[1].apply(first))
    with pytest.raises(NadiError) as caught:
        asyncio.run(pair.copies[1].apply(third))
    assert caught.value.condition == "COPY_GAP"
    asyncio.run(pair.copies[1].apply(second))
    with pytest.raises(NadiError) as caught:
        asyncio.run(pair.copies[1].apply(msgspec.structs.replace(second, payload=b"\x90")))
    assert caught.value.condition == "COPY_DIFFERS"


@pytest.mark.parametrize("stored", [False, True])
def test_what_becomes_of_an_append_whose_answer_is_lost_is_found_out_before_the_next_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, stored: bool
):
    pair.journal.append(0, [(1, b"a", {})])
    with monkeypatch.context() as patch:
        patch.setattr(copiedappends, "publish", _losing(stored))
        with pytest.raises(NadiError, match="lost"):
            pair.journal.append(0, [(2, b"b", {})])
    assert len(pair.recorder.open) == 1
    pair.journal.append(0, [(3, b"c", {})])
    assert pair.recorder.open == []
    pair.apply()
    assert pair.events(1) == pair.events(0) == {0: (1, b"a"), 1: (2, b"b"), 2: (3, b"c")}


def _losing(stored: bool) -> Any:
    """A publish whose answer does not come."""
    publish = copiedappends.publish

    async def lose(connection: Any, message: Outgoing) -> int:
        if stored:
            await publish(connection, message)
        raise error("CONNECTION_UNAVAILABLE", connector="the journal", reason="the answer was lost")

    return lose


DYING = """
import os, signal, sys
from pathlib import Path
import msgspec
from nadi.io import copiedappends
from nadi.io.journal import Journal
from nadi.io.natsclient import shared
from nadi.replica import client

class Dying:
    async def prepare(self, record):
        Path(sys.argv[2]).write_bytes(msgspec.msgpack.encode(record))
        if sys.argv[3] == "prepared":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    def confirm(self, ticket):
        os.kill(os.getpid(), signal.SIGKILL)

dying = Dying()
client.replica_in_loop = lambda _socket: dying
Journal(shared(sys.argv[1]), sys.argv[4]).append(0, [(2, b"b", {})])
"""


@pytest.mark.parametrize("at", ["prepared", "published"])
def test_an_event_of_a_writer_that_was_killed_is_at_both_or_will_be(pair: Pair, tmp_path: Path, at: str):
    pair.journal.append(0, [(1, b"a", {})])
    told = tmp_path / "record"
    died = subprocess.run([sys.executable, "-c", DYING, pair.url, str(told), at, pair.app], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(pair.events(0)) == (1 if at == "prepared" else 2)
    record = msgspec.msgpack.decode(told.read_bytes(), type=JournalAppend)
    assert asyncio.run(pair.copies[0].holds(record))  # it is stored, where it was not
    assert asyncio.run(pair.copies[0].holds(record))
    pair.apply()
    asyncio.run(pair.copies[1].apply(record))
    assert pair.events(1) == pair.events(0) == {0: (1, b"a"), 1: (2, b"b")}


def test_a_message_in_whose_place_another_one_stands_is_not_held(pair: Pair):
    for i in range(3):
        pair.journal.append(0, [(i, b"%d" % i, {})])
    for record in pair.recorder.done():
        assert isinstance(record, JournalAppend)
        assert asyncio.run(pair.copies[0].holds(record))
        other = msgspec.structs.replace(record, payload=msgspec.msgpack.encode([(9, b"x", {})]))
        assert not asyncio.run(pair.copies[0].holds(other))
    assert len(pair.events(0)) == 3


def test_two_writers_of_one_subject_are_both_there_once(pair: Pair):
    assert pair.client is not None
    journals = [Journal(client, pair.app) for client in (pair.client, shared(pair.url))]
    told = [journal.submit("control", [(i, b"%d" % i, {})]) for i in range(30) for journal in journals]
    for each in told:
        each.result(60)
    pair.apply()
    log, copy = (JournalLog(shared(url), pair.app, "control") for url in pair.urls)
    found = [[bytes(p) for m in one.read(0, 0, one.end(0)) for p in m.payloads] for one in (log, copy)]
    assert found[0] == found[1]
    assert sorted(found[0]) == sorted(2 * [b"%d" % i for i in range(30)])


def test_a_trim_and_the_end_of_a_stream_reach_the_copy(pair: Pair):
    for i in range(6):
        pair.journal.append(0, [(10 * i, b"x", {}), (10 * i + 1, b"y", {})])
    pair.journal.append(1, [(1, b"other", {})])
    pair.apply()
    client = shared(pair.url)
    log = JournalLog(client, pair.app, 0, retention=0)
    log.acknowledge(0, 7)
    assert isinstance(pair.recorder.done()[-1], JournalTrim)
    pair.apply()
    assert min(pair.events(0)) == min(pair.events(1)) == 6
    assert pair.events(0) == pair.events(1)
    assert pair.events(1, 1) == {0: (1, b"other")}
    remove_stream(client, stream_name(pair.app))
    pair.apply()
    for url in pair.urls:
        assert shared(url).call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(pair.app)}")) == {}


def test_what_a_returning_node_has_alone_is_told_and_goes(pair: Pair):
    for i in range(40):
        pair.journal.append(0, [(i, b"both %d" % i, {})])
    pair.apply()
    for i in range(5):
        pair.journal.append(0, [(i, b"lost %d" % i, {}), (i, b"too", {})])
    pair.journal.append(1, [(7, b"alone", {})])
    pair.turn()  # promoted with loss
    for i in range(9):
        pair.journal.append(0, [(i, b"new %d" % i, {})])
    found = pair.catch_up()
    assert sorted(each.payload for each in found) == sorted(
        [b"alone", *(b"lost %d" % i for i in range(5)), *(5 * [b"too"])]
    )
    assert {(each.app, each.stream) for each in found} == {(pair.app, "0"), (pair.app, "1")}
    assert pair.events(0) == pair.events(1)
    assert pair.events(0, 1) == {}
    assert pair.catch_up() == []


def test_an_event_that_a_returning_node_has_alone_is_told_with_all_that_was_stored_of_it(pair: Pair):
    pair.journal.append(0, [(5, b"lost", {"key": "value"}), (6, b"too", {})])
    pair.turn()
    one, two = pair.catch_up()
    assert (one.kind, one.stream, one.position, one.time, one.payload) == (SurplusKind.EVENT, "0", 0, 5, b"lost")
    assert (one.properties, two.properties, two.position) == ({"key": "value"}, {}, 1)


def test_what_a_source_noted_of_keys_goes_and_nobody_is_told_of_it(pair: Pair):
    pair.journal.append(seen_name(0), [(1, b"keys", {})])
    pair.journal.append(0, [(1, b"an event", {})])
    pair.turn()
    assert [each.payload for each in pair.catch_up()] == [b"an event"]
    assert pair.events(0, seen_name(0)) == {}


RETURNING = """
import asyncio, os, signal, sys
from pathlib import Path
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync import journalrestore
from nadi.eventsync.surplus import KeptSurplus

url, active, path, dies = sys.argv[1:]
kept = KeptSurplus(Path(path))
removed = []
api = journalrestore.api

async def removing(connection, name, *about):
    if "MSG.DELETE" in name:
        if len(removed) == int(dies):
            os.kill(os.getpid(), signal.SIGKILL)
        removed.append(name)
    return await api(connection, name, *about)

async def main():
    there, here = JournalCopy(url), JournalCopy(active)
    await there.restore(here.missing(await there.standing()), kept.add)

journalrestore.api = removing
asyncio.run(main())
"""


@pytest.mark.parametrize("dies", [0, 1, 7])
def test_a_returning_node_that_is_killed_while_it_removes_what_it_has_alone_has_kept_it(
    pair: Pair, tmp_path: Path, dies: int
):
    pair.journal.append(0, [(0, b"both", {})])
    pair.apply()
    alone = {b"alone %d" % n for n in range(8)}
    for body in sorted(alone):
        pair.journal.append(0, [(1, body, {})])
    pair.turn()
    pair.journal.append(0, [(2, b"new", {})])
    said = [sys.executable, "-c", RETURNING, pair.urls[0], pair.urls[1], str(tmp_path / "surplus.log")]
    assert subprocess.run([*said, str(dies)], check=False).returncode == -signal.SIGKILL
    left = shared(pair.urls[0]).call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(pair.app)}"))["state"]["messages"]
    kept = KeptSurplus(tmp_path / "surplus.log")
    assert {each.payload for body in kept.groups() for each in read_surplus(body)} == alone
    assert left == 1 + len(alone) - dies
    assert subprocess.run([*said, "-1"], check=False).returncode == 0  # the node is started again
    assert {each.payload for body in kept.groups() for each in read_surplus(body)} == alone
    assert pair.events(0) == pair.events(1)


def test_a_catch_up_sends_only_what_the_copy_lacks(pair: Pair):
    for i in range(30):
        pair.journal.append(0, [(i, b"%d" % i, {})])
    pair.apply()
    pair.journal.append(0, [(99, b"missing", {})])

    async def pieces() -> list[bytes]:
        return [piece async for piece in pair.copies[0].missing(await pair.copies[1].standing())]

    assert sum(b"missing" in piece for piece in asyncio.run(pieces())) == 1
    assert len(asyncio.run(pieces())) == 5  # a stream, its subject with one message, the end of it, and of all
    assert pair.catch_up() == []
    assert pair.events(0) == pair.events(1)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put", "fail", "lose", "late", "die", "apply", "away", "catch", "trim", "turn", "promote"]
        ),
        st.integers(0, 1),
        st.integers(1, 3),
    ),
    max_size=30,
)


@example(steps=[("put", 0, 1), ("put", 0, 2), ("apply", 0, 1), ("trim", 0, 2), ("promote", 0, 1)])
@given(steps=STEPS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_active_and_copy_are_equal_after_any_writes_failures_crashes_and_catch_ups(
    steps: list[tuple[str, int, int]], servers: tuple[NatsServer, NatsServer], monkeypatch: pytest.MonkeyPatch
):
    recorder = recorder_in(monkeypatch)
    pair, number, acknowledged, lossy, behind = Pair(servers, recorder), itertools.count(), set(), False, False
    ahead = False  # the node that returns has trimmed what the promoted one has not: that goes there as well at its next trim
    for step, ordinal, count in steps:
        recorder.fails = lambda _record, step=step: step == "fail"
        if step in ("put", "fail", "lose", "late"):
            bodies = [b"%d" % next(number) for _ in range(count)]
            with monkeypatch.context() as patch:
                if step in ("lose", "late"):
                    patch.setattr(copiedappends, "publish", _losing(step == "late"))
                try:
                    pair.journal.append(ordinal, [(1, body, {}) for body in bodies])
                except NadiError:
                    continue
            acknowledged |= set(bodies)
        elif step == "die":
            pair.settle()
        elif step == "apply" and not behind:
            pair.apply()
        elif step == "away":
            behind = True
        elif step == "catch":
            pair.settle()
            pair.catch_up()
            behind = False
        elif step == "trim" and (events := pair.events(pair.active, ordinal)):
            position, client = min(events), shared(pair.url)
            log = JournalLog(client, pair.app, ordinal, retention=0)
            log.acknowledge(0, min(position + count, max(events)))
            acknowledged -= {body for _, body in events.values()} - {
                body for _, body in pair.events(pair.active, ordinal).values()
            }
        elif step == "turn" and not behind:
            pair.settle()
            pair.apply(all_=True)
            pair.turn()
        elif step == "promote":
            lossy = lossy or behind or pair.applied < len(recorder.records)
            ahead = ahead or any(isinstance(each, JournalTrim) for each in recorder.records[pair.applied :])
            recorder.abandoned += recorder.open
            pair.turn()
            behind = True
    recorder.fails = lambda _record: False
    pair.settle()
    pair.catch_up()
    try:
        for ordinal in (0, 1):
            both = [pair.events(node, ordinal) for node in (0, 1)]
            begins = max((min(each) for each in both if each), default=0) if ahead else 0
            one, other = ({n: each[n] for n in each if n >= begins} for each in both)
            assert one == other
        found = [body for ordinal in (0, 1) for _, body in pair.events(pair.active, ordinal).values()]
        assert len(found) == len(set(found))
        assert lossy or acknowledged <= set(found)
    finally:
        pair.close()


def test_only_the_sequences_of_a_stream_differ(pair: Pair):
    """A stream that other things are written to, too, has other sequences: positions are numbers of events."""
    ghost = NatsClient(pair.urls[1])
    ghost.call(lambda nc: ensure_stream(nc, journal_config(pair.app, 1)))
    trim(shared(pair.urls[1]), stream_name(pair.app), subject(pair.app, 0), 0, lambda: None)
    ghost.call(lambda nc: _noise(nc, subject(pair.app, "noise")))
    ghost.close()
    pair.journal.append(0, [(1, b"a", {})])
    pair.apply()
    pair.journal.append(0, [(2, b"b", {})])
    pair.apply()
    assert pair.events(1) == pair.events(0)


async def _noise(connection: Any, name: str) -> None:
    for _ in range(3):
        await copiedappends.publish(connection, Outgoing(name, b"", {}))
