"""What the states of chains, of patterns of any shape and of sequences have in common: a row of words per key, texts that are forgotten, blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import check_places, many
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.keytable import KeyTable, longer
from nadi.kernel.columns.naming import ids_of, picked
from nadi.kernel.columns.stretch import Array, Bools, Longs

NO = np.zeros(0, np.int64)
_SWEEP = 1024  # keys from which on one looks for such that hold nothing


class KeyState(ABC):
    """`keys` has `width` words for each key, `touched` says of which the next delta tells; `table` numbers keys and strings.

    Outside of partitions there is one key without a text. `grouped`: the app is sharded by key, so that keys have key-groups.
    """

    def __init__(self, element: str, width: int, partitioned: bool, grouped: bool) -> None:
        self.element = element
        self._width = width
        self._partitioned = partitioned
        self._grouped = grouped and partitioned
        self.table = KeyTable()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.table.clear()
        rows = self.table.room if self._partitioned else 1
        self.keys = np.zeros(rows * self._width, np.int64)
        self.touched = np.zeros(rows, np.bool_)
        self._told = np.zeros(rows, np.bool_)
        self._limit = _SWEEP

    @abstractmethod
    def _filled(self, ids: Longs) -> Bools:
        """Whether keys are other than such that nothing ever happened to."""

    def _rest(self) -> None:  # noqa: B027  # most have none
        """Let keys begin anew that are as if nothing had happened to them."""

    @abstractmethod
    def _mark_texts(self, used: Bools) -> None:
        """Mark the strings that matches keep."""

    @abstractmethod
    def size(self) -> int:
        """Entries held."""

    @abstractmethod
    def changes(self) -> Iterator[Block]:
        """What changed since the last `changes` or `contents`."""

    @abstractmethod
    def contents(self) -> Iterator[Block]:
        """All of it."""

    @abstractmethod
    def apply(self, block: Block) -> None:
        """Put back a block."""

    # ---- room

    def _follow(self) -> None:
        """Arrays by id grow with the table."""
        room = self.table.room
        if self._partitioned and room > len(self.touched):
            self.keys = longer(self.keys, room * self._width)
            self.touched, self._told = longer(self.touched, room), longer(self._told, room)

    def sweep(self) -> None:
        """Forget keys and texts that nothing refers to, if there are many. A key that the last delta knew is still to be told."""
        if self.table.count < self._limit:
            return
        ids = self.table.held()
        used = np.zeros(self.table.room, np.bool_)
        if self._partitioned:
            self._rest()
            used[ids] = self._told[ids] | self._filled(ids)
        self._mark_texts(used)
        free = ids[~used[ids]]
        self.table.release(free)
        if self._partitioned:
            self.touched[free] = False
        self._limit = max(_SWEEP, 2 * self.table.count, self.size() // 4)

    # ---- told and put back

    def _every(self) -> Longs:
        """All keys."""
        return self.table.held() if self._partitioned else np.zeros(1, np.int64)

    def _settle(self, keys: Longs) -> None:
        """All of these was told."""
        self.touched[keys] = False
        self._told[keys] = self._filled(keys)

    def _numbered(self, given: Mapping[str, Array], *names: str) -> tuple[Longs, ...]:
        """The ids of the texts that a block names, then those of its keys; there is room for them. Raises ValueError for one that it does not name."""
        ids = ids_of(self.table, given)
        self._follow()
        codes = [many(given, name, np.int32) for name in names]
        if self._partitioned:
            return ids, *(picked(ids, some) for some in codes)
        for some in codes:
            check_places(some, 1, "a key")
        return ids, *(some.astype(np.int64) for some in codes)


def alive(keys: Array, numbers: Array, gone_keys: Array, gone: Array) -> Longs:
    """Of the matches that are not gone, each as it was told last: places, by key and number."""
    owners, known = np.concatenate([keys, gone_keys]), np.concatenate([numbers, gone])
    ends = np.concatenate([np.zeros(len(keys), np.int8), np.ones(len(gone), np.int8)])
    order = np.lexsort((ends, known, owners))
    owners, known = owners[order], known[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (owners[1:] != owners[:-1]) | (known[1:] != known[:-1])
    chosen = order[last]
    return chosen[chosen < len(keys)]
