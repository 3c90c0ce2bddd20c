"""Texts in blocks: words that are ids of a `KeyTable` stand there as places among the texts that the block names, in `ends` and `texts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from nadi.kernel.columns.bounds import check_places
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.stretch import Array, Bools, Longs

Strings = Iterable[tuple[Array, Bools]]
"""Words, and which of them are ids."""

_NO = np.zeros(0, np.int64)


def strings_of(matrix: Array, nulls: Array, columns: Iterable[int], bits: Iterable[int]) -> list[tuple[Array, Bools]]:
    """Some columns of a matrix of words; those are none whose bit is set in `nulls`."""
    return [(matrix[:, column], (nulls >> bit) & 1 == 0) for column, bit in zip(columns, bits, strict=True)]


def named(table: KeyTable, strings: Strings, keys: Mapping[str, Longs], keyed: bool = True) -> dict[str, Array]:
    """The arrays of a block: its texts, and its keys as places (without `keyed` keys have no text). Words become places in place, others 0."""
    strings = list(strings)
    used = [*(keys.values() if keyed else ()), *(words[there] for words, there in strings)]
    ids = np.unique(np.concatenate([_NO, *used]))
    for words, there in strings:
        words[...] = np.where(there, np.searchsorted(ids, words), 0)
    arrays: dict[str, Array] = {}
    if keyed or strings:
        arrays["ends"], arrays["texts"] = table.packed(ids)
    places = ((name, np.searchsorted(ids, some) if keyed else some) for name, some in keys.items())
    return arrays | {name: some.astype(np.int32) for name, some in places}


def ids_of(table: KeyTable, given: Mapping[str, Array]) -> Longs:
    """The ids of the texts that a block names, made where there are none."""
    if "ends" not in given:
        return _NO
    return table.unpacked(given["ends"], given["texts"]).astype(np.int64)


def put_back(strings: Strings, ids: Longs) -> None:
    """Places become ids where they stand, others 0. Raises ValueError for a place that there is not."""
    for words, there in strings:
        words[~there] = 0
        words[there] = picked(ids, words[there])


def picked(ids: Longs, places: Array) -> Longs:
    """The ids at some places. Raises ValueError for a place that there is not."""
    check_places(places, len(ids), "a text")
    found: Longs = ids[places]
    return found
