"""The kill test: whatever is killed, and whenever, the sinks hold exactly what the reference makes of the recorded inputs and the cut log.

    pytest tests/chaos --rounds 20 --seed 7

Two apps run in one node: one from Kafka to Kafka, one from http (through the journal) into a file and to NATS. In each round one thing is killed at a
random moment while producers send on. As soon as both apps have written another cut, all sinks are compared with the reference: every row of a
committed cut is there, under its number and in its order per key-group, and nothing else is. At the end every acknowledged event has been taken exactly once.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chaosapps import HTTP, KAFKA
from confluent_kafka.admin import AdminClient, NewTopic
from nodes import TRACE, Late
from producers import HttpSending, KafkaSending, Sending
from reference import Reference, differences, numbered_differences
from sinks import KafkaTopic, NatsSubject, file_rows
from victims import World, deck

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.natsserver import NatsServer, free_port

pytestmark = [pytest.mark.spark]

PATIENCE = 300.0  # seconds after a kill within which both apps must write again
LOOK = 0.05


class Sides:
    """Producers, references and sinks of both apps."""

    def __init__(self, world: World, seed: int, url: str) -> None:
        self._world = world
        self.kafka = Reference(world.state, "KafkaKills")
        self.http = Reference(world.state, "HttpKills")
        self.senders: tuple[Sending, ...] = (
            KafkaSending(world.broker.address, seed),
            HttpSending(url, "a", seed),
            HttpSending(url, "b", seed),
        )
        self._topic = KafkaTopic(world.broker.address, "out")
        self._subject = NatsSubject(world.nats.url, "out")
        self._file = world.folder / "out.jsonl"

    @property
    def references(self) -> tuple[Reference, Reference]:
        return self.kafka, self.http

    def written(self) -> tuple[int, ...]:
        return tuple(reference.committed() for reference in self.references)

    def cut(self) -> tuple[int, ...]:
        return tuple(reference.logged() for reference in self.references)

    def wrong(self, journal: str = "") -> list[str]:
        """How the sinks differ from the references now. Errors: CONNECTION_UNAVAILABLE."""
        kafka, http = self.written()  # before the sinks are read: what is committed must be there
        topic, subject, lines = self._topic.read(), self._subject.read(), file_rows(self._file)
        for reference in self.references:  # after them: what is there must be in a cut
            reference.follow(journal)
        told = numbered_differences("topic out", topic, self.kafka.groups, kafka)
        told += numbered_differences("subject out", subject, self.http.groups, http)
        told += differences("out.jsonl", lines, self.http.rows, http)
        for reference in self.references:
            twice = [id_ for id_, count in reference.ids.items() if count > 1]
            told += [f"{reference.app}: taken more than once: {twice[:5]}"] if twice else []
        return told + [f"{sender.name}: {sender.wrong[:3]}" for sender in self.senders if sender.wrong]

    def missing(self) -> list[str]:
        """Acknowledged events that no cut has taken."""
        taken = self.kafka.ids.keys() | self.http.ids.keys()
        return sorted(id_ for sender in self.senders for id_ in sender.acknowledged - taken)

    def foreign(self) -> list[str]:
        """Events that a cut has taken and nobody has sent."""
        sent = set().union(*(sender.sent for sender in self.senders))
        return sorted((self.kafka.ids.keys() | self.http.ids.keys()) - sent)

    def close(self) -> None:
        for sender in self.senders:
            sender.stopping.set()
        for each in (*self.references, self._topic, self._subject):
            each.close()


@pytest.fixture
def world(broker_module: Any, tmp_path: Path) -> Iterator[World]:
    try:
        broker = broker_module.start(tmp_path / "kafka")
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    made = World(
        tmp_path, (tmp_path / "kafka.siddhi", tmp_path / "http.siddhi"), broker_module, broker, nats, [], [broker]
    )
    try:
        yield made
    finally:
        made.close()


def topics(address: str) -> None:
    wanted = [
        NewTopic("left", num_partitions=2),
        NewTopic("right", num_partitions=1),
        NewTopic("out", num_partitions=1),
    ]
    admin = AdminClient({"bootstrap.servers": address})  # must live as long as what it owes
    for created in admin.create_topics(wanted).values():
        created.result(60)


def patiently(holds: Callable[[], bool], what: str, world: World) -> None:
    """Wait until something holds; what is away while we look is asked again. Errors: Late."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            if holds():
                return
            reason = ""
        except (ConnectionUnavailableException, FileNotFoundError) as away:  # no live.json while a query starts again
            reason = str(away)
        if time.monotonic() > until or world.node.process.poll() is not None:
            raise Late(f"{what} {reason}\n{world.node.said()[-6_000:]}")
        time.sleep(LOOK)


def test_whatever_is_killed_the_sinks_hold_exactly_what_the_logs_say(world: World, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    url = f"http://127.0.0.1:{free_port()}"
    topics(world.broker.address)
    places = {"broker": world.broker.address, "url": url, "file": world.folder / "out.jsonl", "nats": world.nats.url}
    for path, text in zip(world.apps, (KAFKA, HTTP), strict=True):
        path.write_text(text.format(**places))
    sides = Sides(world, seed, url)
    history: list[str] = []
    began = time.monotonic()
    try:
        world.start_node()
        for sender in sides.senders:
            sender.start()
        patiently(lambda: min(sides.written()) > 3, "the apps do not begin", world)
        for number, kind in zip(range(1, rounds + 1), deck(dice)):
            time.sleep(dice.uniform(0.0, 1.5))  # the random moment
            struck = time.monotonic()
            history.append(f"round {number}: {world.strike(kind, dice)}")
            before = sides.cut()
            patiently(
                lambda before=before: all(now > then for now, then in zip(sides.written(), before)),
                "no cut after the kill",
                world,
            )
            compare(sides, world)
            history[-1] += f", again after {time.monotonic() - struck:.1f} s"
            print(f"[{time.monotonic() - began:6.1f} s] {history[-1]}; cuts {sides.written()}", flush=True)
        finish(sides, world)
    except (AssertionError, Late) as failure:
        told = "\n".join([f"seed {seed}, state kept in {world.folder}", *history, str(failure)])
        raise AssertionError(told) from failure
    finally:
        sides.close()
    print(f"seed {seed}: {rounds} kills in {time.monotonic() - began:.0f} s, {summary(sides)}")


def compare(sides: Sides, world: World) -> None:
    told: list[str] = []

    def looked() -> bool:
        told[:] = sides.wrong()
        return True

    patiently(looked, "the logs and sinks cannot be read", world)
    assert not told, "\n".join(told)


def finish(sides: Sides, world: World) -> None:
    """Producers end, all that was acknowledged is taken, the node stops: now the sinks are exactly the reference."""
    for sender in sides.senders:
        sender.stop()

    def taken() -> bool:
        for reference in sides.references:
            reference.follow()
        return not sides.missing()

    patiently(taken, "acknowledged events are not taken", world)
    world.node.signal(signal.SIGINT)
    assert world.node.wait() == 0, world.node.said()[-6_000:]
    for node in world.nodes:
        node.gone()
    with NatsServer(world.state / "nats") as journal:
        told = sides.wrong(journal.url)
    assert not told, "\n".join(told)
    assert sides.written() == sides.cut() == tuple(reference.at for reference in sides.references)
    assert sides.missing() == sides.foreign() == []
    assert all(len(reference.rows) > 50 for reference in sides.references)
    assert TRACE not in world.node.said(), world.node.said()[-6_000:]


def summary(sides: Sides) -> str:
    sent = sum(len(sender.sent) for sender in sides.senders)
    acknowledged = sum(len(sender.acknowledged) for sender in sides.senders)
    rows = sum(len(reference.rows) for reference in sides.references)
    return f"{sent} events sent, {acknowledged} acknowledged, {rows} rows, cuts {sides.written()}"
