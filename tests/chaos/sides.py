"""Producers, references and sinks of all apps, and the comparison of the sinks with the references, at any moment whatever else happens."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Sequence

from producers import HttpSending, KafkaSending, Sending
from reference import Reference, differences, numbered_differences
from sinks import KafkaTopic, NatsSubject, file_rows
from world import World

from nadi.errors.exceptions import ConnectionUnavailableException

AWAY = (ConnectionUnavailableException, FileNotFoundError)
"""What looking may raise while things are down; there is no live.json while a query starts again."""


class Sides:
    """What goes into the apps and comes out of them."""

    def __init__(self, world: World, seed: int, url: str) -> None:
        self.kafka = Reference(world.state, "KafkaKills")
        self.http = Reference(world.state, "HttpKills")
        self.small = Reference(world.state, "SmallKills")
        self.references = (self.kafka, self.http, self.small)
        self.senders: tuple[Sending, ...] = (
            KafkaSending(world.broker.address, seed),
            HttpSending(url, "a", seed),
            HttpSending(url, "b", seed),
            HttpSending(url, "c", seed, ("small", "small")),
        )
        self._topic = KafkaTopic(world.broker.address, "out")
        self._subject = NatsSubject(world.nats.url, "out")
        self._files = {self.http: world.folder / "out.jsonl", self.small: world.folder / "small.jsonl"}

    def written(self) -> tuple[int, ...]:
        return tuple(reference.committed() for reference in self.references)

    def cut(self) -> tuple[int, ...]:
        return tuple(reference.logged() for reference in self.references)

    def wrong(self, journal: str = "") -> list[str]:
        """How the sinks differ from the references now. Errors: those of AWAY."""
        committed = self.written()  # before the sinks are read: what is committed must be there
        done = dict(zip(self.references, committed, strict=True))
        stored = [reference.stored() for reference in self.references]
        topic, subject = self._topic.read(), self._subject.read()
        lines = {reference: file_rows(path) for reference, path in self._files.items()}
        for reference in self.references:  # after them: what is there must be in a cut
            reference.follow(journal)
        told = numbered_differences("topic out", topic, self.kafka.groups, done[self.kafka])
        told += numbered_differences("subject out", subject, self.http.groups, done[self.http])
        for reference, path in self._files.items():
            told += differences(path.name, lines[reference], reference.rows, done[reference])
        for reference, rows in zip(self.references, stored, strict=True):
            told += differences(f"error store of {reference.app}", rows, reference.refused, done[reference])
            twice = [id_ for id_, count in reference.ids.items() if count > 1]
            told += [f"{reference.app}: taken more than once: {twice[:5]}"] if twice else []
        return told + [f"{sender.name}: {sender.wrong[:3]}" for sender in self.senders if sender.wrong]

    def missing(self) -> list[str]:
        """Acknowledged messages that no cut has taken."""
        taken = self._taken()
        return sorted(id_ for sender in self.senders for id_ in sender.acknowledged - taken)

    def foreign(self) -> list[str]:
        """Messages that a cut has taken and nobody has sent."""
        sent = set().union(*(sender.sent for sender in self.senders))
        return sorted(self._taken() - sent)

    def _taken(self) -> set[str]:
        return set().union(*(reference.ids for reference in self.references))

    def close(self) -> None:
        for sender in self.senders:
            sender.stopping.set()
        for each in (*self.references, self._topic, self._subject):
            each.close()


class Judge:
    """Compares in a thread, as often as it can be done with a tenth of a core, while things are killed; nothing waits for it but the end."""

    PAUSE: float = 3.0  # seconds between two comparisons at least

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="judge", daemon=True)
        self.compared = 0
        self.hindered = 0
        self.reason = ""
        self.told: Sequence[str] = ()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the comparison under way; what it says counts."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(180)
            assert not self._thread.is_alive(), f"the comparison does not end:\n{self._where()}"
        self.check()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else "it has just ended"

    def check(self) -> None:
        """Raises AssertionError where something was wrong."""
        assert not self.told, "\n".join(self.told)

    def _run(self) -> None:
        pause = self.PAUSE
        while not self.told and not self._stopping.wait(pause):
            began = time.thread_time()
            try:
                self.told = self._sides.wrong()
                self.compared += 1
            except AWAY as reason:
                self.hindered, self.reason = self.hindered + 1, str(reason)
            except Exception as reason:  # of whatever kind: it must not be lost with the thread
                self.told = [f"the comparison failed: {type(reason).__name__}: {reason}"]
            pause = max(self.PAUSE, 9 * (time.thread_time() - began))
