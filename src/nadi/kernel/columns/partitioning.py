"""Partitions: the events that take part, in chunks of one key (semantics/tables.md#partitions)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.stretch import Array, Longs, Stretch, values_of


def partitioned(given: Stretch, key: int) -> Stretch | None:
    """The events whose key, an attribute, is not null; each chunk is cut into runs of equal keys. None where no event is left."""
    nulls = given.columns[key].nulls()[: len(given)]
    if nulls.any():
        kept = np.flatnonzero(~nulls)
        if not len(kept):
            return None
        given = given.take(kept)
    if given.alone:
        return given
    array = given.columns[key].array()
    differs = values_of(pc.not_equal(array.slice(1), array.slice(0, len(array) - 1)))
    opens = np.concatenate([[False], differs | (np.diff(given.chunk) != 0)])
    chunk = given.chunk[0] + np.cumsum(opens)
    origin = given.chunk if given.origin is None else given.origin
    return Stretch(given.columns, given.ts, given.now, chunk, given.group, origin)


def by_group(keys: KeyTable, ids: Longs, sharded: bool, lengths: Array | None = None) -> Iterator[tuple[int, Longs]]:
    """Ids of keys by their key-groups; all are in group 0 where the app is not sharded by key.

    With `lengths`, of each id, the key of a partition is so many bytes at the beginning of a text.
    """
    if not sharded:
        yield 0, ids
        return
    groups = groups_of(keys, ids, lengths)
    for group in np.unique(groups):
        yield int(group), ids[groups == group]
