"""Hearing that topics have something new: one consumer and one thread for all partitions of a cluster that logs of this process wait for.

The consumer follows the ends and fetches in small pieces; an idle cluster costs a request a second. It never pauses a partition: librdkafka has one request
under way per broker, and a partition that joins again is not part of it until the broker has answered (measured: 0.9 s late). Instead, what is behind the end
that a look has seen is skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from nadi.io.kafkaclient import Setting

Heard = Callable[[], None]
Where = tuple[str, int]

IDLE_FETCH_MS = 1_000
WAIT = 0.1  # seconds between two looks whether there is another partition to follow
PAUSE = 0.01  # seconds in which what comes is told together
AWAY_LOOK = 0.25  # seconds between two questions whether the brokers are there again
SKIP = 1_000  # messages that are skipped rather than fetched
MOST = 10_000

OWN: Mapping[str, Setting] = {
    "group.id": "nadi-watch",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": IDLE_FETCH_MS,
    "fetch.error.backoff.ms": 50,
    "fetch.message.max.bytes": 16_384,
    "queued.max.messages.kbytes": 256,
    "fetch.queue.backoff.ms": 10,
}


@dataclass(slots=True)
class _Followed:
    """A partition: where the consumer stands, and who hears."""

    next: int
    hearers: set[Heard] = field(default_factory=set)


class Watcher:
    """One consumer and its thread, from the first one who listens to the last one who leaves; see `listen`.

    Only the thread calls the consumer: `assign` of another one would wait for `poll`, and that for `assign`.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._away = False  # brokers were lost; told within `poll`
        self._consumer = Consumer({**settings, **OWN, "error_cb": self._lose_brokers})
        self._followed: dict[Where, _Followed] = {}
        self._joining: dict[Where, int] = {}  # these three wait for the thread
        self._behind: dict[Where, int] = {}
        self._leaving: set[Where] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)
        self._thread.start()

    def listen(self, ends: Mapping[Where, int], heard: Heard) -> bool:
        """Have `heard` called soon after there are messages at or after these ends; -> whether there were partitions that nobody had listened to.

        Costs nothing where it is so already. `heard` is called by the thread, for errors as well; it is cheap.
        """
        fresh = missed = False
        with self._lock:
            for where, end in ends.items():
                followed = self._followed.get(where)
                if followed is None:
                    followed = self._followed[where] = _Followed(end)
                    self._joining[where] = end
                    fresh = True
                elif end - followed.next > SKIP:
                    self._behind[where] = end
                missed |= heard not in followed.hearers and followed.next > end
                followed.hearers.add(heard)
        if missed:
            heard()
        return fresh

    def leave(self, heard: Heard) -> None:
        """`heard` is called no more; with the last one the thread ends."""
        with _LOCK:
            with self._lock:
                for where, followed in tuple(self._followed.items()):
                    followed.hearers.discard(heard)
                    if not followed.hearers:
                        self._forget(where)
                if self._followed:
                    return
            for key, known in tuple(_WATCHERS.items()):
                if known is self:
                    del _WATCHERS[key]
            self._over.set()
        self._thread.join()

    def _forget(self, where: Where) -> None:
        del self._followed[where]
        self._behind.pop(where, None)
        if self._joining.pop(where, None) is None:
            self._leaving.add(where)

    def _run(self) -> None:
        while not self._over.is_set():
            self._arrange()
            first = self._consumer.poll(WAIT)
            if first is not None:
                self._take([first, *self._consumer.consume(MOST, 0)])
                self._over.wait(PAUSE)
            if self._away:
                self._await_brokers()
        self._consumer.close()

    def _lose_brokers(self, _reason: KafkaError) -> None:
        self._away = True

    def _arrange(self) -> None:
        """Follow what others have asked for, and skip what looks have seen; all who hear of a partition are told that something was skipped."""
        with self._lock:
            joining, self._joining = self._joining, {}
            behind, self._behind = self._behind, {}
            leaving, self._leaving = self._leaving, set()
            found: set[Heard] = set()
            for where, end in tuple(behind.items()):
                followed = self._followed[where]
                if end - followed.next > SKIP:
                    followed.next = end
                    found |= followed.hearers
                else:
                    del behind[where]
        if leaving:
            self._consumer.incremental_unassign([TopicPartition(*where) for where in leaving])
        if joining:
            self._consumer.incremental_assign([TopicPartition(*where, end) for where, end in joining.items()])
        for where, end in behind.items():
            with suppress(KafkaException):  # not fetched from yet: then it reads what it is behind by
                self._consumer.seek(TopicPartition(*where, end))
        for heard in found:
            heard()

    def _take(self, messages: Iterable[Message]) -> None:
        ends: dict[Where, int] = {}
        lost: set[Where] = set()
        for message in messages:
            if message.error() is None:
                ends[message.topic(), message.partition()] = message.offset() + 1
            elif message.topic() is None:
                self._away = True
            else:
                lost.add((message.topic(), message.partition()))
        for heard in self._concerned(ends, lost):
            heard()

    def _concerned(self, ends: Mapping[Where, int], lost: set[Where]) -> set[Heard]:
        found: set[Heard] = set()
        with self._lock:
            for where, end in ends.items():
                if followed := self._followed.get(where):
                    followed.next = max(followed.next, end)
                    found |= followed.hearers
            for where in lost:  # out of range, or the topic is gone: whoever looks begins anew
                if followed := self._followed.get(where):
                    found |= followed.hearers
                    self._forget(where)
        return found

    def _await_brokers(self) -> None:
        """Tell everybody, wait until brokers answer again, and tell everybody once more: nobody knows what has come meanwhile."""
        self._tell_all()
        while not self._over.is_set():
            with self._lock:
                topic, _partition = next(iter(self._followed), ("", 0))
            try:
                self._consumer.list_topics(topic, timeout=WAIT)
            except KafkaException:
                self._over.wait(AWAY_LOOK)
            else:
                break
        self._away = False
        self._tell_all()

    def _tell_all(self) -> None:
        with self._lock:
            found = {heard for followed in self._followed.values() for heard in followed.hearers}
        for heard in found:
            heard()


_WATCHERS: dict[frozenset[tuple[str, Setting]], Watcher] = {}
_LOCK = threading.Lock()


def listen(settings: Mapping[str, Setting], ends: Mapping[Where, int], heard: Heard) -> tuple[Watcher, bool]:
    """`Watcher.listen` of the one for these settings; who is given back is left in the end."""
    key = frozenset(settings.items())
    with _LOCK:
        found = _WATCHERS.get(key)
        if found is None:
            found = _WATCHERS[key] = Watcher(settings)
        return found, found.listen(ends, heard)
