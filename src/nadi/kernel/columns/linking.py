"""The chains of a sliding window's extremes, beside the queue that holds its events: no state, made anew where places have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.remembering import Extreme
from nadi.kernel.columns.stretch import Array, Longs


class Places(Protocol):
    """A queue whose events have places. `version` changes when they get others, or when events come that no loop has appended."""

    arrays: dict[str, Array]
    version: int

    def places(self) -> tuple[Longs, Array]:
        """The places of the events, the oldest of each group first, and their groups."""
        ...


class Links:
    """The arrays of the chains of some extremes, by group and by place."""

    def __init__(self, extremes: Sequence[Extreme], queue: Places, groups: Groups) -> None:
        self._extremes, self._queue, self._groups = extremes, queue, groups
        self._by_group = {name: np.zeros(0, np.int64) for one in extremes for name in one.by_group}
        self._by_place = {name: np.zeros(0, np.int64) for one in extremes for name in one.by_place}
        self._version = -1

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop over them gets."""
        return dict.fromkeys((*self._by_group, *self._by_place), "int64[]")

    def own(self) -> dict[str, Array | int]:
        """The arrays of the parameters; after the queue has made room."""
        groups, places = len(self._groups.touched), len(self._queue.arrays["ts"])
        if self._version != self._queue.version:
            self._version = self._queue.version
            self._by_group = {name: np.zeros(groups, np.int64) for name in self._by_group}
            self._by_place = {name: np.zeros(places, np.int64) for name in self._by_place}
            self._chain()
        if any(len(array) < groups for array in self._by_group.values()):
            self._by_group = {name: longer(array, groups) for name, array in self._by_group.items()}
        if any(len(array) < places for array in self._by_place.values()):
            self._by_place = {name: longer(array, places) for name, array in self._by_place.items()}
        return {**self._by_group, **self._by_place}

    def _chain(self) -> None:
        held, of = self._queue.places()
        arrays = {**self._groups.arrays, **self._by_group, **self._by_place}
        for one in self._extremes:
            values, nulls = (self._queue.arrays[f"{letter}{one.argument}"] for letter in "az")
            if "kept" in self._queue.arrays:  # what a filter behind the window has dropped does not count
                nulls = nulls | ~self._queue.arrays["kept"]
            one.chained(held, of, values, nulls, arrays)
