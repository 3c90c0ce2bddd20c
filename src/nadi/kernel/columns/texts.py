"""Strings that an operator holds: as numbers in its own table, which are told by their texts in state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bounds import check_places, many
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.stretch import Array, Bools, Column

_SWEEP = 1024  # texts from which on one looks for such that nothing holds


class Texts:
    """Strings ↔ ids from 1 (int32); null is 0, so that what was never written is null."""

    def __init__(self) -> None:
        self._keys = KeyTable()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._limit = _SWEEP

    def ids(self, column: Column) -> Array:
        """The id of each string of a column."""
        array = column.array()
        if not array.null_count:
            return self._keys.number(array) + np.int32(1)
        ids = self._keys.number(array.fill_null("")) + np.int32(1)
        ids[column.nulls()[: len(array)]] = 0
        return ids

    def column(self, ids: Array) -> Column:
        """The strings of ids."""
        return strings(self._keys, ids - np.int32(1), ids == 0)

    @property
    def may_sweep(self) -> bool:
        """Whether so many strings are known that it is worth while to look for those that nothing holds."""
        return self._keys.count >= self._limit

    def sweep(self, held: Iterable[Array]) -> None:
        """Forget the strings that are in none of the arrays, where so many are known that it is worth while."""
        if not self.may_sweep:
            return
        used = np.zeros(self._keys.bound + 1, np.bool_)
        for ids in held:
            used[ids] = True
        known = self._keys.held()
        self._keys.release(known[~used[known + 1]])
        self._limit = max(_SWEEP, 2 * self._keys.count)

    # ---- state

    def told(self, name: str, ids: Array) -> dict[str, Array]:
        """Ids as arrays of a block: which of some texts each is, -1 for null."""
        there = ids > 0
        codes = np.full(len(ids), -1, np.int32)
        different, codes[there] = coded(ids[there] - np.int32(1))
        ends, data = self._keys.packed(different)
        return {name: codes, f"{name}.ends": ends, f"{name}.texts": data}

    def read(self, name: str, arrays: Mapping[str, Array]) -> Array:
        """The ids of what `told` told. Raises ValueError for what it did not tell."""
        found = self._keys.unpacked(arrays[f"{name}.ends"], arrays[f"{name}.texts"]) + np.int32(1)
        codes = many(arrays, name, np.int32)
        check_places(codes, len(found), f"'{name}'", least=-1)
        return np.where(codes < 0, np.int32(0), found.take(codes, mode="clip") if len(found) else np.int32(0))


def strings(keys: KeyTable, ids: Array, nulls: Bools) -> Column:
    """The texts of keys as a column; an id that is null is none."""
    if not nulls.any():
        return Column(keys.array(ids))
    found, data = keys.packed(ids[~nulls])
    ends = np.zeros(len(ids) + 1, np.int32)
    ends[1:][~nulls] = np.diff(found)
    np.cumsum(ends, out=ends)
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    return Column(pa.Array.from_buffers(pa.string(), len(ids), buffers, int(nulls.sum())))
