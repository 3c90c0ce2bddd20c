"""The rows of a table with what they were during a batch, in flat arrays, and the loops over them.

A *version* of a row is a node of 8-byte words in `nodes`, from a multiple of the node's width on, which is its name; 0 is no version: its attributes are null.
A *key* is a node in `keys` for each primary key that there is, or was when the batch began, or of which a delta is still to tell. It has the versions from
`FIRST` to `LAST`, each linked to the `NEWER` one. A version is seen from its `SINCE` on, which is a turn (see `held`), until the next one is. One without a row
says that there is none from then on.

All queries read after all have written. A reader looks at turns that ascend, so that it goes on at the version that it saw last (`CURSOR`, of the reader
`SERIAL`): however often one row changes in a batch, reading costs what was read and written.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop, part

# The words of a version, before those of the columns.
SINCE, NEWER, STATE, NUMBER, NULLS = range(5)
VALUES = 5
FREE, ROW, NONE = range(3)
"""What `STATE` says: the node is free, a row, no row."""

# The words of a key.
AFTER, HASH, FIRST, LAST, CURSOR, SERIAL, MARKS = range(7)
KEY = 7
TOUCHED, CHANGED = 1, 2
"""What `MARKS` says: it was written in this batch, since the last delta."""

# What `meta` has: free versions, where unused words begin, the same of keys, how many rows and keys there are, the number of the next row, how many rows there
# have been at most, how many keys are listed as touched and as changed, the number of the last reader, how many buckets less one, words of a version.
(
    FREE_NODE, END_NODE, FREE_KEY, END_KEY, LIVE, KEYS, NEXT, MOST, TOUCHES, CHANGES, READER, MASK, WIDTH,
) = range(13)  # fmt: skip
META = 13

INSERT, UPDATE, UPSERT, DELETE = range(4)
"""What a query wants."""
SETTLED = -1
"""The turn of a version that was there before the batch."""


# All of a table is a tuple: the columns of its primary key, versions, keys, buckets of keys (the first one of each), `meta`, the keys that are listed as
# touched and as changed.


@part
def hash_of(values, at, count):  # type: ignore[no-untyped-def]
    """A hash of 32 bits of the values of a key."""
    hashed = 0
    for j in range(count):
        value = int(values[at + j])
        x = ((value ^ (value >> 32)) + hashed) & 0xFFFFFFFF
        x = (x * 0x9E3779B1) & 0xFFFFFFFF
        x = ((x ^ (x >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
        hashed = x ^ (x >> 13)
    return hashed


@part
def key_of(nodes, keys, heads, meta, columns, values, at, nulls, hashed):  # type: ignore[no-untyped-def]
    """The key with some values, 0 where there is none; `nulls` has a bit for each of them."""
    key = heads[hashed & meta[MASK]]
    while key != 0:
        if keys[key + HASH] == hashed:
            node = keys[key + LAST]
            same = True
            for j in range(len(columns)):
                null = (nulls >> j) & 1
                other = (nodes[node + NULLS] >> columns[j]) & 1 != null
                if other or (null == 0 and nodes[node + VALUES + columns[j]] != values[at + j]):
                    same = False
            if same:
                return key
        key = keys[key + AFTER]
    return 0


@part
def new_node(nodes, meta):  # type: ignore[no-untyped-def]
    """A version, of which nothing is set yet. There must be room."""
    node = meta[FREE_NODE]
    if node != 0:
        meta[FREE_NODE] = nodes[node + NEWER]
    else:
        node = meta[END_NODE]
        meta[END_NODE] += meta[WIDTH]
    nodes[node + NEWER] = 0
    return node


@part
def free_node(nodes, meta, node):  # type: ignore[no-untyped-def]
    """Let a version go."""
    nodes[node + STATE] = FREE
    nodes[node + NEWER] = meta[FREE_NODE]
    meta[FREE_NODE] = node


@part
def set_row(nodes, node, meta, number, given, at, nulls):  # type: ignore[no-untyped-def]
    """Let a version be a row, whose words stand in `given` from `at` on."""
    for j in range(meta[WIDTH] - VALUES):
        nodes[node + VALUES + j] = given[at + j]
    nodes[node + NULLS] = nulls
    nodes[node + STATE] = ROW
    nodes[node + NUMBER] = number


@part
def new_row(nodes, meta, turn, given, at, nulls):  # type: ignore[no-untyped-def]
    """The first version of a row that comes at a turn."""
    node = new_node(nodes, meta)
    nodes[node + SINCE] = turn
    set_row(nodes, node, meta, meta[NEXT], given, at, nulls)
    meta[NEXT] += 1
    return node


@part
def next_version(nodes, meta, turn, last, kind, sets, given, at, nulls):  # type: ignore[no-untyped-def]
    """What follows the last version of a row: none, or the row with other values in the columns that have a bit in `sets`."""
    node, width = new_node(nodes, meta), meta[WIDTH]
    nodes[node + SINCE] = turn
    for j in range(STATE, width):
        nodes[node + j] = nodes[last + j]
    if kind == DELETE:
        nodes[node + STATE] = NONE
        meta[LIVE] -= 1
    else:
        for j in range(width - VALUES):
            if (sets >> j) & 1 != 0:
                nodes[node + VALUES + j] = given[at + j]
        nodes[node + NULLS] = (nodes[last + NULLS] & ~sets) | (nulls & sets)
    return node


@part
def seen_at(nodes, keys, key, reader, turn):  # type: ignore[no-untyped-def]
    """The version of a key that a reader sees at a turn, 0 where it is later; the reader's turns ascend."""
    node = keys[key + CURSOR] if keys[key + SERIAL] == reader else keys[key + FIRST]
    if nodes[node + SINCE] > turn:
        return 0
    newer = nodes[node + NEWER]
    while newer != 0 and nodes[newer + SINCE] <= turn:
        node = newer
        newer = nodes[node + NEWER]
    keys[key + CURSOR] = node
    keys[key + SERIAL] = reader
    return node


@part
def new_key(keys, heads, meta, hashed, node):  # type: ignore[no-untyped-def]
    """A key with one version. There must be room."""
    key = meta[FREE_KEY]
    if key != 0:
        meta[FREE_KEY] = keys[key + AFTER]
    else:
        key = meta[END_KEY]
        meta[END_KEY] += KEY
    meta[KEYS] += 1
    place = hashed & meta[MASK]
    keys[key + AFTER] = heads[place]
    heads[place] = key
    keys[key + HASH] = hashed
    keys[key + FIRST] = node
    keys[key + LAST] = node
    keys[key + SERIAL] = 0
    keys[key + MARKS] = 0
    return key


@part
def drop_key(nodes, keys, heads, meta, key):  # type: ignore[no-untyped-def]
    """Forget a key that has one version."""
    place = keys[key + HASH] & meta[MASK]
    if heads[place] == key:
        heads[place] = keys[key + AFTER]
    else:
        before = heads[place]
        while keys[before + AFTER] != key:
            before = keys[before + AFTER]
        keys[before + AFTER] = keys[key + AFTER]
    free_node(nodes, meta, keys[key + LAST])
    keys[key + LAST] = 0
    keys[key + AFTER] = meta[FREE_KEY]
    meta[FREE_KEY] = key
    meta[KEYS] -= 1


@part
def mark(keys, meta, touched, changed, key):  # type: ignore[no-untyped-def]
    """Note that a key was written."""
    if keys[key + MARKS] & TOUCHED == 0:
        touched[meta[TOUCHES]] = key
        meta[TOUCHES] += 1
    if keys[key + MARKS] & CHANGED == 0:
        changed[meta[CHANGES]] = key
        meta[CHANGES] += 1
    keys[key + MARKS] = TOUCHED | CHANGED


@part
def count_row(meta):  # type: ignore[no-untyped-def]
    """A row more."""
    meta[LIVE] += 1
    if meta[LIVE] > meta[MOST]:
        meta[MOST] = meta[LIVE]


@part
def wish(turn, kind, sets, values, at, nulls, given, row, row_nulls, columns, nodes, keys, heads, meta, touched, changed):  # type: ignore[no-untyped-def]  # fmt: skip
    """Do what one event asks for at a turn; whether it could not, as its primary key was taken.

    The words of the primary key stand from `at` on in `values`, those of the row that comes from `row` on in `given`; `sets` has a bit for each column that an
    update changes.
    """
    hashed = hash_of(values, at, len(columns))
    key = key_of(nodes, keys, heads, meta, columns, values, at, nulls, hashed)
    last = keys[key + LAST] if key != 0 else 0
    there = key != 0 and nodes[last + STATE] == ROW
    comes = kind == INSERT or (kind == UPSERT and not there)
    if comes and there:
        return True
    if not comes and not there:
        return False
    if comes:
        node = new_row(nodes, meta, turn, given, row, row_nulls)
        count_row(meta)
    else:
        node = next_version(nodes, meta, turn, last, kind, sets, given, row, row_nulls)
    if key == 0:
        key = new_key(keys, heads, meta, hashed, node)
    else:
        nodes[last + NEWER] = node
        keys[key + LAST] = node
    mark(keys, meta, touched, changed, key)
    return False


@loop
def write(order, turns, kinds, sets, values, nulls, rows, row_nulls, table, failed):  # type: ignore[no-untyped-def]
    """Do what was asked for, in an order; -> how many rows found their primary key taken: `failed` has their places.

    `values` and `nulls` are those of primary keys, `rows` those of rows that come.
    """
    columns, nodes, keys, heads, meta, touched, changed = table
    failures = 0
    count, size = len(columns), meta[WIDTH] - VALUES
    for n in range(len(order)):
        i = order[n]
        taken = wish(
            turns[i], kinds[i], sets[i], values, i * count, nulls[i], rows, i * size, row_nulls[i], columns, nodes, keys, heads, meta, touched, changed
        )  # fmt: skip
        if taken:
            failed[failures] = i
            failures += 1
    return failures


@part
def seen_last(values, at, nulls, columns, nodes, keys, heads, meta):  # type: ignore[no-untyped-def]
    """The version of a row that was written last, 0 where there is no row."""
    key = key_of(nodes, keys, heads, meta, columns, values, at, nulls, hash_of(values, at, len(columns)))
    if key == 0:
        return 0
    node = keys[key + LAST]
    return node if nodes[node + STATE] == ROW else 0


@loop
def look(turns, values, nulls, table, found):  # type: ignore[no-untyped-def]
    """The version that is seen at each of ascending turns, 0 where there is no row."""
    columns, nodes, keys, heads, meta, _touched, _changed = table
    meta[READER] += 1
    reader, count = meta[READER], len(columns)
    for i in range(len(turns)):
        found[i] = 0
        hashed = hash_of(values, i * count, count)
        key = key_of(nodes, keys, heads, meta, columns, values, i * count, nulls[i], hashed)
        if key == 0:
            continue
        node = seen_at(nodes, keys, key, reader, turns[i])
        if node != 0 and nodes[node + STATE] == ROW:
            found[i] = node


@loop
def settle(table):  # type: ignore[no-untyped-def]
    """The batch is over: of each key the last version is left."""
    _columns, nodes, keys, _heads, meta, touched, _changed = table
    for n in range(meta[TOUCHES]):
        key = touched[n]
        node = keys[key + FIRST]
        while node != keys[key + LAST]:
            newer = nodes[node + NEWER]
            free_node(nodes, meta, node)
            node = newer
        keys[key + FIRST] = node
        nodes[node + SINCE] = SETTLED
        keys[key + MARKS] &= ~TOUCHED
    meta[TOUCHES] = 0


@loop
def told(table):  # type: ignore[no-untyped-def]
    """All changes were told: keys without a row are forgotten. The batch must be over."""
    _columns, nodes, keys, heads, meta, _touched, changed = table
    for n in range(meta[CHANGES]):
        key = changed[n]
        keys[key + MARKS] = 0
        if nodes[keys[key + LAST] + STATE] == NONE:
            drop_key(nodes, keys, heads, meta, key)
    meta[CHANGES] = 0


@loop
def put(there, numbers, values, nulls, rows, row_nulls, table, tells):  # type: ignore[no-untyped-def]
    """Put rows at their keys as they are from now on, or take them away; with `tells` the next delta tells it. The batch must be over; there must be room."""
    columns, nodes, keys, heads, meta, touched, changed = table
    count, size = len(columns), meta[WIDTH] - VALUES
    for i in range(len(there)):
        hashed = hash_of(values, i * count, count)
        key = key_of(nodes, keys, heads, meta, columns, values, i * count, nulls[i], hashed)
        was = key != 0 and nodes[keys[key + LAST] + STATE] == ROW
        if not there[i]:
            if was:
                meta[LIVE] -= 1
            if key != 0 and tells:
                nodes[keys[key + LAST] + STATE] = NONE
                mark(keys, meta, touched, changed, key)
            elif key != 0:
                drop_key(nodes, keys, heads, meta, key)
            continue
        node = keys[key + LAST] if key != 0 else new_node(nodes, meta)
        set_row(nodes, node, meta, numbers[i], rows, i * size, row_nulls[i])
        nodes[node + SINCE] = SETTLED
        if not was:
            count_row(meta)
        if key == 0:
            key = new_key(keys, heads, meta, hashed, node)
        if tells:
            mark(keys, meta, touched, changed, key)


@loop
def rehash(keys, heads, meta):  # type: ignore[no-untyped-def]
    """Fills empty buckets."""
    for key in range(KEY, meta[END_KEY], KEY):
        if keys[key + LAST] != 0:
            place = keys[key + HASH] & meta[MASK]
            keys[key + AFTER] = heads[place]
            heads[place] = key


@loop
def all_rows(nodes, meta):  # type: ignore[no-untyped-def]
    """The versions that are rows; the batch must be over."""
    found = np.empty(meta[LIVE], np.int64)
    n = 0
    for node in range(meta[WIDTH], meta[END_NODE], meta[WIDTH]):
        if nodes[node + STATE] == ROW:
            found[n] = node
            n += 1
    return found


@loop
def last_of(keys, some):  # type: ignore[no-untyped-def]
    """The last version of some keys."""
    found = np.empty(len(some), np.int64)
    for n in range(len(some)):
        found[n] = keys[some[n] + LAST]
    return found


@loop
def words_of(nodes, meta, some):  # type: ignore[no-untyped-def]
    """The words of some versions, a row for each."""
    width = meta[WIDTH]
    found = np.empty((len(some), width), np.int64)
    for n in range(len(some)):
        for j in range(width):
            found[n, j] = nodes[some[n] + j]
    return found
