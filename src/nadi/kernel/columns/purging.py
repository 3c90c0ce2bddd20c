"""`@purge`: keys of a partition that had no event for a while are forgotten (semantics/tables.md#purging-keys).

A purge is due at every interval from the start of the app on, as on rows: behind the timers that are due then, before the events that come then. A batch is
taken in parts around those purges that may find an idle key; the others show nothing. Blocks are those of `groups`, with when each key was `seen` (0: it was
forgotten, else one more than the time), and one with a time at which a purge is due: all others are intervals away from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nadi.kernel.columns.bounds import single
from nadi.kernel.columns.contract import Forgets, Stateful
from nadi.kernel.columns.flat import OF_EACH, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.keying import key_of, keying
from nadi.kernel.columns.keytable import texts_of
from nadi.kernel.columns.stretch import Stretch, values_of
from nadi.kernel.contract import ORDER, ArrivalBatch
from nadi.plan.nodes import App, Partition
from nadi.plan.owners import keys_id
from nadi.plan.walk import read

_NO = np.zeros(0, np.int64)
_EVERY = 300_000  # ms between purges where the annotation does not say it


class Purging:
    """The keys of one partition, and the operators of its queries. Implements `nadi.kernel.columns.contract.Stateful`."""

    def __init__(self, partition: Partition, app: App, operators: Sequence[object]) -> None:
        self.elements: tuple[str, ...] = (keys_id(partition),)
        self._idle, self.interval = partition.purge_idle or 0, partition.purge_interval or _EVERY
        self._operators = [operator for operator in operators if isinstance(operator, Forgets)]
        assert all(
            isinstance(one, Forgets) for one in operators if isinstance(one, Stateful)
        )  # as `nadi.plan.columns.purgesupport` says
        self._keys = Groups(self.elements[0], (0,), (), {"seen": "int64"}, app.sharding.kind == "key")
        readers = {source: query for query in partition.queries for source in read(query).values()}
        self._sources = [
            (key.stream, keying(readers[key.stream], key.stream, app), key_of(readers[key.stream], key.stream, app))
            for key in partition.keys
            if key.stream in readers
        ]
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._next: int | None = None
        self._told: int | None = None
        # no key was seen before it; None: not known
        self._since: int | None = None
        self._any = True  # whether there may be keys

    def begin(self, now: int) -> None:
        """The app starts, at a clock (ms)."""
        self._next, self._since, self._any = now + self.interval, now, False

    # ---- a batch

    def run(self, streams: Mapping[str, Stretch], _now: int) -> None:
        """Note the keys of the events that came."""
        for source, made, key in self._sources:
            stretch: Stretch | None = streams.get(source)
            if stretch is not None and made is not None:
                stretch = made.process(stretch)
            if stretch is None or key is None:
                continue
            column, now = stretch.columns[key.position], stretch.now
            if column.has_nulls():
                there = np.flatnonzero(~column.nulls()[: len(stretch)])
                column, now = column.take(there), now[there]
            ids = self._keys.number(texts_of((column,), (key.type,)))
            seen = self._keys.arrays["seen"]
            seen[ids] = np.maximum(
                seen[ids], now + 1
            )  # of several events of a key the last one counts, as clocks do not go back
            self._keys.touched[ids] = True
            self._any = True
        if self._keys.may_sweep:
            self._keys.sweep(_NO)

    def due(self, clock: int, following: int | None) -> int | None:
        """When the next purge is due that may find an idle key. `following` is when the next event comes, None where none is known."""
        if self._next is None:
            self._next = clock + self.interval
        if self._since is None:
            self._settle(clock)
        assert self._since is not None
        if not self._any:
            if following is None:
                return None
            self._since = max(clock, following, self._since)
        missing = max(0, self._since + self._idle - self._next)
        return self._next + -(-missing // self.interval) * self.interval

    def purge(self, due: int) -> None:
        """Forget the keys that are idle at the time when a purge is due."""
        seen = self._keys.arrays["seen"]
        ids = self._keys.keys.held()
        idle = ids[(seen[ids] > 0) & (due + 1 - seen[ids] >= self._idle)]
        if len(idle):
            texts = self._keys.keys.array(idle)
            for operator in self._operators:
                operator.forget(texts)
            seen[idle] = 0
            self._keys.touched[idle] = True
        self._next = due + self.interval
        self._settle(due)

    def _settle(self, clock: int) -> None:
        """Look at all keys for the one that was not seen for the longest time."""
        seen = self._keys.arrays["seen"]
        left = seen[seen > 0]
        self._any = len(left) > 0
        self._since = int(left.min()) - 1 if self._any else clock

    # ---- state

    def next_timer(self) -> int | None:
        """Nothing comes out by itself; see `due`."""
        return None

    def changes(self) -> Iterator[Block]:
        """The keys that were seen or forgotten."""
        if self._next != self._told:
            yield self._times()
        yield from self._keys.changes()

    def contents(self) -> Iterator[Block]:
        """All keys."""
        if self._next is not None:
            yield self._times()
        yield from self._keys.contents()

    def _times(self) -> Block:
        self._told = self._next
        return Block(self.elements[0], 0, OF_EACH, {"next": np.array([self._next], np.int64)}, keys=0)

    def apply(self, block: Block) -> None:
        """Keys as they are from now on, or when purges are due."""
        self._since = None
        if block.letter == OF_EACH:
            self._next = self._told = single(block.arrays, "next")
        else:
            self._keys.apply(block)

    def size(self) -> dict[str, int]:
        """How many keys are known."""
        return {self.elements[0]: int(np.count_nonzero(self._keys.arrays["seen"]))}


class Purges:
    """All partitions of a kernel whose keys are purged."""

    def __init__(self, purging: Sequence[Purging]) -> None:
        self._all = tuple(purging)

    def __bool__(self) -> bool:
        return bool(self._all)

    def due(self, clock: int, following: int | None = None) -> int | None:
        """When the next purge is due that may find an idle key."""
        return min((due for one in self._all if (due := one.due(clock, following)) is not None), default=None)

    def around(
        self, arrivals: Sequence[ArrivalBatch], until: int, clock: int
    ) -> Iterator[tuple[Sequence[ArrivalBatch], int]]:
        """A batch in parts, each with the clock up to which it goes; when the next one is asked for, the purge behind the one before is done."""
        orders = [values_of(a.batch.column(a.batch.schema.get_field_index(ORDER))) for a in arrivals]
        done = [0] * len(arrivals)
        last = max([until, *(int(order[-1]) for order in orders if len(order))])
        while True:
            waiting = [int(o[at]) for o, at in zip(orders, done, strict=True) if at < len(o)]
            due = self.due(clock, min(waiting, default=None))
            if due is None or due > last:
                break
            ends = [int(np.searchsorted(order, due)) for order in orders]
            yield _between(arrivals, done, ends), due
            for one in self._all:
                if one.due(clock, due) == due:
                    one.purge(due)
            clock, done = due, ends
        yield _between(arrivals, done, [len(order) for order in orders]), until


def _between(arrivals: Sequence[ArrivalBatch], starts: Sequence[int], ends: Sequence[int]) -> list[ArrivalBatch]:
    """Parts of arrivals, without those that have nothing."""
    return [
        a if stop - start == a.batch.num_rows else replace(a, batch=a.batch.slice(start, stop - start))
        for a, start, stop in zip(arrivals, starts, ends, strict=True)
        if stop > start
    ]
