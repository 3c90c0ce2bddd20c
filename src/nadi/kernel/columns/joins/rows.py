"""The output rows of a join in one batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.patterns.picking import Interned, Picked
from nadi.kernel.columns.selecting import Computed, Same
from nadi.kernel.columns.stretch import Array, Column, Stretch


class Rows:
    """Arrays that the loop fills, by the names of its parameters; they grow while it waits. `types` are their dtypes."""

    def __init__(self, picked: tuple[Picked, ...], types: Mapping[str, str], room: int) -> None:
        self._picked = picked
        self.room = room
        self.arrays: dict[str, Array] = {name: np.empty(room, dtype) for name, dtype in types.items()}

    def grow(self, made: int) -> None:
        """Make more room, `made` rows are kept."""
        self.room *= 2
        for name, array in self.arrays.items():
            longer = np.empty(self.room, array.dtype)
            longer[:made] = array[:made]
            self.arrays[name] = longer

    def stretch(self, made: int, keys: KeyTable) -> Stretch:
        """The rows as a stretch."""
        arrays = {name: array[:made] for name, array in self.arrays.items()}
        columns = tuple(self._column(one, arrays, made, keys) for one in self._picked)
        ts, opened, event = arrays["ts_out"], arrays["opened"], arrays.get("event_out")
        now, group = arrays["now_out"], arrays.get("group_out")
        if event is None:
            return Stretch(columns, ts, now, opened, group)
        return Stretch(columns, ts, now, event, group, opened)  # what one event brings is put in order by itself

    def _column(self, one: Picked, arrays: Mapping[str, Array], made: int, keys: KeyTable) -> Column:
        match one:
            case Same():
                return one.column(made)
            case Interned(number):
                return Column(keys.array(arrays[f"o{number}"], arrays[f"x{number}"]))
            case Computed(number):
                return Column(None, arrays[f"o{number}"], arrays[f"x{number}"])
            case _:
                raise TypeError(one)  # nothing is passed on as it came
