"""A sink with several data centres that publishes only while it is its cluster's turn (`publish='active'`): the passive side of the app holds its rows.

The turn is given by `nadi centre switch` (`nadi.io.turn`). Who has it publishes so that each broker refuses whoever had it before, whether that one knows
or not (`nadi.io.sinks.kafkamultidc`, `nadi.io.sinks.natsfence`). At each broker it leaves out what was delivered there: rows are numbered alike in both
clusters, as far as their results do not depend on how brokers interleave.

What the passive side has computed is held in memory until every broker has it, HELD_BYTES of a bucket at most, and published at the take-over. What goes beyond
that, or with a process that ends, is lost where no broker has it: readers are told of the numbers that are missing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nadi.errors import NadiError, error
from nadi.io.contract import Connector, Delivery, Receipt
from nadi.io.sinks.centres import CentresSink
from nadi.io.sinks.numbers import number_columns
from nadi.io.turn import Follower, Known, turn_key

HELD_BYTES = 64 * 1024 * 1024

Numbers = dict[int, int]
"""By key-group, the number behind the last one."""

_LOG = logging.getLogger("nadi.io.centres")


class Held:
    """Rows of a bucket that are not known to be delivered, the oldest first."""

    def __init__(self) -> None:
        self._deliveries: deque[tuple[Delivery, Numbers]] = deque()
        self.size = 0  # bytes of their payloads

    def __bool__(self) -> bool:
        return bool(self._deliveries)

    @property
    def oldest(self) -> Delivery:
        return self._deliveries[0][0]

    def add(self, delivery: Delivery) -> None:
        groups, numbers, counts = number_columns(delivery)
        ends: Numbers = {}
        for group in np.unique(groups).tolist():
            of = groups == group
            ends[group] = int((numbers[of] + counts[of]).max())
        self._deliveries.append((delivery, ends))
        self.size += size_of(delivery)

    def drop(self) -> Delivery:
        """Let the oldest go."""
        delivery, _ = self._deliveries.popleft()
        self.size -= size_of(delivery)
        return delivery

    def is_delivered(self, done: Mapping[int, int]) -> bool:
        """Whether all rows of the oldest are before the numbers up to which each key-group was delivered."""
        return all(end <= done.get(group, 0) for group, end in self._deliveries[0][1].items())


class TurnSink:
    """See the module's text. `inner` publishes; `followers` makes what listens to each broker, `known` is told the turn."""

    def __init__(
        self,
        connector: Connector,
        inner: CentresSink,
        followers: Callable[[], Sequence[Follower]],
        known: Known,
    ) -> None:
        self._who = f"{connector.type} sink of {connector.stream}"
        self._centre = connector.options["centre"]
        self._inner = inner
        self._open = followers
        self._followers: Sequence[Follower] = ()
        self._connector = connector
        self._known = known
        self._told = False  # whether a broker has said whose turn it is, or that it is nobody's
        self._held: dict[int, Held] = {}
        self._lock = threading.Lock()

    def write(self, delivery: Delivery) -> Receipt:
        """Publish, or hold. Errors: as of `CentresSink`; CONNECTION_UNAVAILABLE where no broker says whose turn it is."""
        with self._lock:
            self._look()
            held = self._held.setdefault(delivery.bucket, Held())
        if not self._is_mine():
            return self._hold(held, delivery)
        try:
            while held:
                self._inner.write(held.oldest)
                held.drop()
            return self._inner.write(delivery)
        except NadiError as reason:
            if reason.condition != "FENCED":
                raise
        self._inner.drop(delivery.bucket)
        with self._lock:
            self._look(again=True)
        if not self._is_mine():
            return self._hold(held, delivery)
        raise error("CONNECTION_UNAVAILABLE", connector=self._who, reason="another producer was there for a moment")

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        self._inner.commit(cut, receipts)

    def close(self) -> None:
        self._inner.close()
        for each in self._followers:
            each.close()

    def _is_mine(self) -> bool:
        return self._known.turn.centre == self._centre

    def _look(self, again: bool = False) -> None:
        """Learn whose turn it is."""
        if again or not self._told:
            self._followers = self._followers or self._open()
            self._read()
            self._told = True
        found = max(each.follow().turn for each in self._followers)
        if found > self._known.turn:
            self._known.turn = found
            _LOG.warning("%s: it is the turn of '%s' (%d)", self._who, found.centre, found.token)

    def _read(self) -> None:
        problems = []
        for each in self._followers:
            try:
                each.read()
            except NadiError as reason:
                problems.append(reason)
        if len(problems) == len(self._followers):
            raise problems[0]

    def _hold(self, held: Held, delivery: Delivery) -> Receipt:
        """Keep rows until it is known that every broker has them."""
        if delivery.payloads:
            held.add(delivery)
        key = turn_key(self._connector, delivery.bucket)
        with self._lock:  # a follower is used by one thread at a time, and buckets have one each
            told = [each.follow().delivered.get(key, {}) for each in self._followers]
        while held and all(held.is_delivered(done) for done in told):
            held.drop()
        while held.size > HELD_BYTES:
            is_lost = not any(held.is_delivered(done) for done in told)
            oldest = held.drop()
            if is_lost:
                _LOG.warning("%s: %d rows of cut %d are held no longer", self._who, len(oldest.payloads), oldest.cut)
        return Receipt(delivery.bucket, delivery.cut)


def size_of(delivery: Delivery) -> int:
    """The bytes of its payloads."""
    return sum(map(len, delivery.payloads))
