"""The keys of a partition, *homes*, where an operator holds something of each and of *units* beside it: groups whose first attribute is the key."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.lang.tree import Type


class Homes:
    """`of` has the home of each unit that has been met. It is no state: the text of a unit begins with that of its home (`prefix` of `Groups`)."""

    def __init__(self, units: Groups, key: int, kind: Type, sharded: bool) -> None:
        self._units = units
        self.groups = Groups(units.element, (key,), (kind,), {}, sharded)
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.groups.clear()
        self.of: Longs = np.zeros(1, np.int64)

    def numbers(self, stretch: Stretch, units: Array) -> Array:
        """The home of each event; `units` are those of the events."""
        found = self.groups.numbers(stretch)
        self._grow()
        self.of[units] = found
        return found

    def find(self, units: Longs) -> None:
        """Find out the homes of units that were loaded."""
        found = self.groups.number(self._units.firsts(units))
        self._grow()
        self.of[units] = found

    def _grow(self) -> None:
        room = len(self._units.touched)
        if room > len(self.of):
            self.of = longer(self.of, room)
