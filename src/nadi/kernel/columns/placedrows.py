"""Keys in the order in which they came, each with one row: state of operators that hold the last or first row of each key until a batch or a tick ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.bounds import check_numbers
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.slotrows import SlotRows
from nadi.kernel.columns.stretch import Longs


class PlacedRows:
    """What such operators have in common.

    `_keys` have an array "place" (from 1; 0: none is held), `_rows` a row for each key, `_state` the clock, `_members` the keys by place. After `apply`
    `_members` are to be put together before they are used.
    """

    _element: str
    _keys: Groups
    _rows: SlotRows
    _state: Numbers
    _members: Longs
    _current: Longs
    _loaded: bool

    def _reset(self) -> None:
        self._members = np.zeros(0, np.int64)
        self._current = np.full(1, -1, np.int64)  # by key, the place of its row among those at hand
        self._loaded = False

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._rows.clear()
        self._state.clear()
        self._reset()

    def changes(self) -> Iterator[Block]:
        """The clock, the keys that were touched."""
        yield from self._state.changes()
        ids = np.flatnonzero(self._keys.touched)
        self._keys.touched[ids] = False
        if len(ids):
            yield self._block(ids)

    def contents(self) -> Iterator[Block]:
        """The clock, the keys that are held."""
        yield from self._state.contents()
        self._keys.touched[:] = False
        ids = np.flatnonzero(self._keys.arrays["place"])
        most = BLOCK_BYTES // (32 + sum(array.itemsize for array in self._rows.arrays.values()))
        for start in range(0, len(ids), most):
            yield self._block(ids[start : start + most])

    def _block(self, ids: Longs) -> Block:
        places = self._keys.arrays["place"][ids]
        told = {**self._keys.named(ids), "place": places, **self._rows.told(ids[places > 0])}
        return Block(self._element, 0, "g", told, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Put back the clock or keys."""
        if block.letter == "n":
            self._state.apply(block)
            return
        ids = self._keys.put(block)
        places = self._keys.arrays["place"][ids]
        check_numbers(places, "'place'")
        self._rows.room(len(self._keys.touched))
        self._rows.read(ids[places > 0], block.arrays)
        self._loaded = True

    def _put_together(self) -> None:
        """The list of keys, from their places."""
        self._loaded = False
        places = self._keys.arrays["place"]
        held = np.flatnonzero(places)
        self._members = held[np.argsort(places[held], kind="stable")]
