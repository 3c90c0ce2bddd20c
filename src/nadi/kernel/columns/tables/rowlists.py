"""The rows of a table without a primary key, in lists, and the loops over them.

Versions are those of `versions`. What is a key there is a *row* here: the same words, and the row `BEFORE` it. Each stands in the list of its bucket, in the
order in which rows came; buckets go by the hash of some columns, which all that look for rows know and nobody changes. `heads` has the first and the last row
of each. What is looked for are words of all columns, with a bit for each of those that count.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop, part
from nadi.kernel.columns.tables.versions import (
    AFTER,
    CHANGES,
    END_KEY,
    END_NODE,
    FIRST,
    FREE_KEY,
    HASH,
    INSERT,
    KEY,
    KEYS,
    LAST,
    LIVE,
    MARKS,
    MASK,
    NEWER,
    NONE,
    NULLS,
    NUMBER,
    ROW,
    SERIAL,
    SETTLED,
    SINCE,
    STATE,
    UPSERT,
    VALUES,
    WIDTH,
    free_node,
    mark,
    new_node,
    new_row,
    next_version,
    seen_at,
    set_row,
)

BEFORE = KEY
LISTED = KEY + 1
"""Words of a row."""


@part
def hash_of(values, at, nulls, columns):  # type: ignore[no-untyped-def]
    """A hash of 32 bits of some columns of the words from `at` on; null counts as 0."""
    hashed = 0
    for j in range(len(columns)):
        value = 0 if (nulls >> columns[j]) & 1 != 0 else int(values[at + columns[j]])
        x = ((value ^ (value >> 32)) + hashed) & 0xFFFFFFFF
        x = (x * 0x9E3779B1) & 0xFFFFFFFF
        x = ((x ^ (x >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
        hashed = x ^ (x >> 13)
    return hashed


@part
def meets(nodes, node, values, at, which, size):  # type: ignore[no-untyped-def]
    """Whether a version is a row that has certain values in the columns that have a bit; there is no null among the values."""
    if nodes[node + STATE] != ROW or (nodes[node + NULLS] & which) != 0:
        return False
    same = True
    for j in range(size):
        if (which >> j) & 1 != 0 and nodes[node + VALUES + j] != values[at + j]:
            same = False
    return same


@part
def listed(rows, heads, meta, hashed, node, before):  # type: ignore[no-untyped-def]
    """A row with one version, in its list behind another one (0: the first one there). There must be room."""
    row = meta[FREE_KEY]
    if row != 0:
        meta[FREE_KEY] = rows[row + AFTER]
    else:
        row = meta[END_KEY]
        meta[END_KEY] += LISTED
    meta[KEYS] += 1
    place = 2 * (hashed & meta[MASK])
    after = rows[before + AFTER] if before != 0 else heads[place]
    rows[row + BEFORE], rows[row + AFTER] = before, after
    if before != 0:
        rows[before + AFTER] = row
    else:
        heads[place] = row
    if after != 0:
        rows[after + BEFORE] = row
    else:
        heads[place + 1] = row
    rows[row + HASH] = hashed
    rows[row + FIRST] = node
    rows[row + LAST] = node
    rows[row + SERIAL] = 0
    rows[row + MARKS] = 0
    return row


@part
def dropped(nodes, rows, heads, meta, row):  # type: ignore[no-untyped-def]
    """Forget a row that has one version."""
    place = 2 * (rows[row + HASH] & meta[MASK])
    before, after = rows[row + BEFORE], rows[row + AFTER]
    if before != 0:
        rows[before + AFTER] = after
    else:
        heads[place] = after
    if after != 0:
        rows[after + BEFORE] = before
    else:
        heads[place + 1] = before
    free_node(nodes, meta, rows[row + LAST])
    rows[row + LAST] = 0
    rows[row + AFTER] = meta[FREE_KEY]
    meta[FREE_KEY] = row
    meta[KEYS] -= 1


@loop
def write(order, start, turns, kinds, sets, values, nulls, looked, given, row_nulls, table):  # type: ignore[no-untyped-def]
    """Do what was asked for, in an order, from a place on; -> the first one for whose versions there is no room, or how many there are.

    `values` and `nulls` are what is looked for in the columns `looked`, `given` are rows that come; `sets` has a bit for each column that an update changes.
    There must be room for a row for each.
    """
    columns, nodes, rows, heads, meta, touched, changed = table
    width = meta[WIDTH]
    size = width - VALUES
    for n in range(start, len(order)):
        i = order[n]
        kind, at = kinds[i], i * size
        found = 0
        place = 2 * (hash_of(values, at, nulls[i], columns) & meta[MASK])
        if kind != INSERT and nulls[i] & looked[i] == 0:  # null equals nothing
            row = heads[place]
            while row != 0:
                if meets(nodes, rows[row + LAST], values, at, looked[i], size):
                    found += 1
                row = rows[row + AFTER]
        if (len(nodes) - meta[END_NODE]) // width < found + 1:  # those that are free again come on top of it
            return n
        if found == 0 and kind in (INSERT, UPSERT):
            node = new_row(nodes, meta, turns[i], given, at, row_nulls[i])
            meta[LIVE] += 1
            hashed = hash_of(given, at, row_nulls[i], columns)
            row = listed(rows, heads, meta, hashed, node, heads[2 * (hashed & meta[MASK]) + 1])
            mark(rows, meta, touched, changed, row)
            continue
        row = heads[place] if found != 0 else 0
        while row != 0:
            last = rows[row + LAST]
            if meets(nodes, last, values, at, looked[i], size):
                node = next_version(nodes, meta, turns[i], last, kind, sets[i], given, at, row_nulls[i])
                nodes[last + NEWER] = node
                rows[row + LAST] = node
                mark(rows, meta, touched, changed, row)
            row = rows[row + AFTER]
    return len(order)


@loop
def look(turns, start, values, nulls, looked, each, reader, table, source, found, count):  # type: ignore[no-untyped-def]
    """The versions of rows that are met at each of ascending turns, from a place on, one after the other in `found`, with the place of the turn in `source`; 0
    where there is none. Without `each` the first one counts. -> the first place for which there is no room, or how many there are; `count` is how many were
    found.
    """
    columns, nodes, rows, heads, meta, _touched, _changed = table
    size = meta[WIDTH] - VALUES
    k = count[0]
    for i in range(start, len(turns)):
        first = k
        row = 0
        if nulls[i] & looked == 0:
            row = heads[2 * (hash_of(values, i * size, nulls[i], columns) & meta[MASK])]
        while row != 0:
            node = seen_at(nodes, rows, row, reader, turns[i])
            if node != 0 and meets(nodes, node, values, i * size, looked, size):
                if k == len(found):
                    count[0] = first
                    return i
                source[k] = i
                found[k] = node
                k += 1
                if not each:
                    break
            row = rows[row + AFTER]
        if k == first:
            if k == len(found):
                count[0] = first
                return i
            source[k] = i
            found[k] = 0
            k += 1
    count[0] = k
    return len(turns)


@loop
def told(table):  # type: ignore[no-untyped-def]
    """All changes were told: rows that are gone are forgotten. The batch must be over."""
    _columns, nodes, rows, heads, meta, _touched, changed = table
    for n in range(meta[CHANGES]):
        row = changed[n]
        rows[row + MARKS] = 0
        if nodes[rows[row + LAST] + STATE] == NONE:
            dropped(nodes, rows, heads, meta, row)
    meta[CHANGES] = 0


@loop
def put(there, numbers, given, row_nulls, table, tells):  # type: ignore[no-untyped-def]
    """Put rows back as they are from now on, or take them away; with `tells` the next delta tells it. The batch must be over; there must be room."""
    columns, nodes, rows, heads, meta, touched, changed = table
    size = meta[WIDTH] - VALUES
    for i in range(len(there)):
        hashed = hash_of(given, i * size, row_nulls[i], columns)
        before = heads[2 * (hashed & meta[MASK]) + 1]
        known = False
        while before != 0:
            number = nodes[rows[before + LAST] + NUMBER]
            known = (
                number == numbers[i] and rows[before + HASH] == hashed
            )  # it may be that a row is gone from here which had the number
            if known or number < numbers[i]:
                break
            before = rows[before + BEFORE]
        was = known and nodes[rows[before + LAST] + STATE] == ROW
        if not there[i]:
            if was:
                meta[LIVE] -= 1
            if known and tells:
                nodes[rows[before + LAST] + STATE] = NONE
                mark(rows, meta, touched, changed, before)
            elif known:
                dropped(nodes, rows, heads, meta, before)
            continue
        node = rows[before + LAST] if known else new_node(nodes, meta)
        set_row(nodes, node, meta, numbers[i], given, i * size, row_nulls[i])
        nodes[node + SINCE] = SETTLED
        if not was:
            meta[LIVE] += 1
        row = before if known else listed(rows, heads, meta, hashed, node, before)
        if tells:
            mark(rows, meta, touched, changed, row)


@loop
def relisted(order, rows, heads, meta):  # type: ignore[no-untyped-def]
    """Fill empty buckets with rows in an order."""
    for row in order:
        place = 2 * (rows[row + HASH] & meta[MASK])
        tail = heads[place + 1]
        rows[row + BEFORE], rows[row + AFTER] = tail, 0
        if tail != 0:
            rows[tail + AFTER] = row
        else:
            heads[place] = row
        heads[place + 1] = row


@loop
def all_listed(nodes, rows, meta):  # type: ignore[no-untyped-def]
    """All rows that stand in a list, and their numbers."""
    found, numbers = np.empty(meta[KEYS], np.int64), np.empty(meta[KEYS], np.int64)
    k = 0
    for row in range(LISTED, meta[END_KEY], LISTED):
        if rows[row + LAST] != 0:
            found[k] = row
            numbers[k] = nodes[rows[row + LAST] + NUMBER]
            k += 1
    return found, numbers
