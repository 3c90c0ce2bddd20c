"""Chains of events that are two, one behind the other: those of the session before, and those of the session that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.stretch import Array, Longs


class SplitChains(Chains):
    """By key `split` is the place of the last event of the first part, of which the array `parted` of the keys has the length. Where an event comes between
    the two parts, `mixed` says that the next delta tells the key's whole chain anew."""

    def __init__(
        self, element: str, columns: Mapping[str, str], keys: Groups, groups: Groups, named: Mapping[str, Groups]
    ):
        self._split, self._mixed = np.zeros(1, np.int64), np.zeros(1, np.bool_)
        super().__init__(element, columns, keys, groups, named, fronts=True)
        _retell(np.zeros(0, np.int64), **self._retelling())  # a forked process must not have to compile it

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._split, self._mixed = np.zeros(len(self._split), np.int64), np.zeros(len(self._mixed), np.bool_)

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop over it gets."""
        return {**super().parameters, "split": "int64[]", "mixed": "bool[]"}

    @property
    def own(self) -> dict[str, Array | int]:
        """The arrays of the parameters."""
        return {**super().own, "split": self._split, "mixed": self._mixed}

    @property
    def insert(self) -> tuple[str, ...]:
        """The lines that put an event of group `g` between the two parts of the chain of key `p`: its place is `j`."""
        return (
            "spare -= 1",
            "j = free[spare]",
            "following[j] = following[split[p]]",
            "following[split[p]] = j",
            "if last[p] == split[p]: last[p] = j",
            "mixed[p] = True",
            *self._came_lines("p", True, front=False),
        )

    def room(self, more: int) -> None:
        """Make room for so many events, and for the keys there are."""
        super().room(more)
        keys = self._keys.keys.room
        if keys > len(self._split):
            self._split, self._mixed = longer(self._split, keys), longer(self._mixed, keys)

    def find_splits(self, ids: Longs, parted: Longs) -> None:
        """Find the last events of the first parts of some keys, after a load."""
        self.room(0)
        _find(ids, parted, self._by_key["first"], self._following, self._split)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What went and what came."""
        mixed = np.flatnonzero(self._mixed)
        if len(mixed):
            self._mixed[mixed] = False
            held = int(self._by_key["count"][mixed].sum())
            if self._counts[1] + held > len(self._came):
                size = 2 * (int(self._counts[1]) + held)
                self._came, self._came_number = longer(self._came, size), longer(self._came_number, size)
            _retell(mixed, **self._retelling())
        yield from super().changes()

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, key by key."""
        self._mixed[:] = False
        yield from super().contents(sharded)

    def _retelling(self) -> dict[str, Array]:
        names = ("following", "number", "came", "came_number", "counts")
        by_key = {name: self._by_key[name] for name in ("first", "count", "taken")}
        return {**by_key, **{name: self._shared[name] for name in names}, "front": self.arrays["front"]}


@loop
def _find(ids, parted, first, following, split):  # type: ignore[no-untyped-def]
    for p in ids:
        j = first[p]
        for _ in range(parted[p] - 1):
            j = following[j]
        split[p] = j


@loop
def _retell(ids, first, count, taken, following, number, came, came_number, counts, front):  # type: ignore[no-untyped-def]
    """Lets the whole chains of some keys have gone and come again."""
    for p in ids:
        j = first[p]
        for _ in range(count[p]):
            if number[j] < counts[3]:
                taken[p] += 1
            number[j] = counts[2]
            front[j] = False
            came[counts[1]] = j
            came_number[counts[1]] = counts[2]
            counts[1] += 1
            counts[2] += 1
            j = following[j]
