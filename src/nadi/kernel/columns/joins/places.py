"""What a side of a join holds: queues and buckets of events in one flat array of words, and what happens to them (semantics/joins.md#who-meets-whom).

A held event is a *node*: some words of `words` from a multiple of the node's width on, which is its name; 0 is no node. The first words are fixed, the
attributes that are kept stand at its end. `floats` is the same memory as doubles.

A *queue* has the events of one key (one queue outside of partitions), in the order in which they came: a row of words in `rows`, from `at` on. Where the
join asks for equality a node stands in a second list, too: that of its *bucket*, a pair of words in `heads` that its hash names.

On rows a timer lets go what is late, but not every event sets one: only the one that is later than all before. So a late event may be seen by the other side
after its time. `enter` notes which events have set a timer, and `fire` lets go, before anybody looks, what timers have let go meanwhile: as soon as one of
them was due, all late events that stand before the first one that is not late.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop, part

# The words of a node: the next one of its queue, its timestamp, bits: the lowest one says that its timer is to fire, the others that attributes are null.
NEXT, TS, BITS = range(3)
FIXED = 3
# The words that it has where there are buckets: the neighbours in its bucket, its hash + 1 (0: it is in none). They stand from FIXED on.
AFTER, BEFORE, HASH = range(3)
LINKS = 3

# The words of a queue: its first and last node, how many there are, the latest timestamp, the arrival in which a timer was set that was due at once (0: none),
# when it was due and at which clock it was set, how many went of those that the last delta knew, the first one that it did not know.
HEAD, TAIL, COUNT, LATEST, DUE, WHEN, SINCE, TAKEN, FRESH = range(9)
ROW = 9

# What `meta` has: free nodes, where unused words begin, how many nodes there are, words of a node, whether there are buckets, how many buckets less one.
FREE, END, LIVE, WIDTH, INDEXED, MASK = range(6)
META = 6

NEVER = np.int64(-(1 << 63))
"""The latest timestamp of a queue that had none."""
GONE = -1
"""The bits of a free node."""
FAR = np.int64((1 << 63) - 1)
"""When a timer is due that is not set."""


@part
def mixed(seed, value):  # type: ignore[no-untyped-def]
    """A hash of 32 bits of a number and of what was hashed before."""
    x = int(((value ^ (value >> 32)) + seed) & 0xFFFFFFFF)
    x = (x * 0x9E3779B1) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
    return x ^ (x >> 13)


@part
def bucket(meta, hashed):  # type: ignore[no-untyped-def]
    """Where in `heads` the bucket of a hash begins."""
    return 2 * (hashed & meta[MASK])


@part
def made(words, rows, at, meta):  # type: ignore[no-untyped-def]
    """A new node at the end of a queue. There must be room."""
    node = meta[FREE]
    if node != 0:
        meta[FREE] = words[node + NEXT]
    else:
        node = meta[END]
        meta[END] += meta[WIDTH]
    meta[LIVE] += 1
    words[node + NEXT] = 0
    tail = rows[at + TAIL]
    if tail != 0:
        words[tail + NEXT] = node
    else:
        rows[at + HEAD] = node
    rows[at + TAIL] = node
    rows[at + COUNT] += 1
    if rows[at + FRESH] == 0:
        rows[at + FRESH] = node
    return node


@part
def enter(words, heads, meta, node, hashed):  # type: ignore[no-untyped-def]
    """Put a node into the bucket of a hash, behind the others."""
    place = bucket(meta, hashed)
    tail = heads[place + 1]
    links = node + FIXED
    words[links + AFTER] = 0
    words[links + BEFORE] = tail
    words[links + HASH] = hashed + 1
    if tail != 0:
        words[tail + FIXED + AFTER] = node
    else:
        heads[place] = node
    heads[place + 1] = node


@part
def pop(words, rows, at, meta, heads):  # type: ignore[no-untyped-def]
    """The oldest event of a queue leaves."""
    node = rows[at + HEAD]
    after = words[node + NEXT]
    rows[at + HEAD] = after
    if after == 0:
        rows[at + TAIL] = 0
    rows[at + COUNT] -= 1
    if rows[at + FRESH] == node:
        rows[at + FRESH] = after
    else:
        rows[at + TAKEN] += 1
    if meta[INDEXED] != 0 and words[node + FIXED + HASH] != 0:
        links = node + FIXED
        place = bucket(meta, words[links + HASH] - 1)
        behind, ahead = words[links + AFTER], words[links + BEFORE]
        if ahead != 0:
            words[ahead + FIXED + AFTER] = behind
        else:
            heads[place] = behind
        if behind != 0:
            words[behind + FIXED + BEFORE] = ahead
        else:
            heads[place + 1] = ahead
    words[node + BITS] = GONE
    words[node + NEXT] = meta[FREE]
    meta[FREE] = node
    meta[LIVE] -= 1


@part
def expire(words, rows, at, meta, heads, before):  # type: ignore[no-untyped-def]
    """The events at the front that are not later than a time leave."""
    while rows[at + HEAD] != 0 and words[rows[at + HEAD] + TS] <= before:
        pop(words, rows, at, meta, heads)


@part
def fire(words, rows, at, meta, heads, before, arrival):  # type: ignore[no-untyped-def]
    """Let go what timers have let go before an arrival; `before` is the time of events that are late now. Whether there was one."""
    due = rows[at + DUE] != 0 and rows[at + DUE] != arrival
    node = rows[at + HEAD]
    if not due and (node == 0 or words[node + TS] > before):
        return False
    if due:
        rows[at + DUE] = 0
    while not due and node != 0 and words[node + TS] <= before:
        due = words[node + BITS] & 1 != 0
        node = words[node + NEXT]
    if due:
        expire(words, rows, at, meta, heads, before)
    return due


@part
def timer(rows, at, ts, now, time, arrival):  # type: ignore[no-untyped-def]
    """The lowest bit of an event that comes: whether its timer is still to fire. One that is due at once fires before the next arrival."""
    if rows[at + DUE] != arrival:
        rows[at + DUE] = 0
    if ts <= rows[at + LATEST]:
        return 0
    rows[at + LATEST] = ts
    if ts + time > now:
        return 1
    if rows[at + DUE] == 0:
        rows[at + DUE] = arrival
        rows[at + WHEN] = ts + time
        rows[at + SINCE] = now
    return 0


@part
def due(words, rows, at, now, time, arrival):  # type: ignore[no-untyped-def]
    """When the next timer of a queue is due, if that is not after now."""
    if rows[at + DUE] != 0 and rows[at + DUE] != arrival:
        return rows[at + WHEN]
    node = rows[at + HEAD]
    while node != 0 and words[node + TS] + time <= now:
        if words[node + BITS] & 1 != 0:
            return words[node + TS] + time
        node = words[node + NEXT]
    return FAR


@part
def fired(rows, at, when, time, arrival):  # type: ignore[no-untyped-def]
    """The timer that `due` found fires: the time of what is late for it."""
    if rows[at + DUE] != 0 and rows[at + DUE] != arrival:
        rows[at + DUE] = 0
        return rows[at + SINCE] - time
    return when - time


@loop
def fire_all(words, rows, touched, meta, heads, before, arrival):  # type: ignore[no-untyped-def]
    """`fire` for all queues."""
    for key in range(len(rows) // ROW):
        if rows[key * ROW + HEAD] != 0 and fire(words, rows, key * ROW, meta, heads, before, arrival):
            touched[key] = True


@loop
def lapse_all(words, rows, touched, meta, heads, before):  # type: ignore[no-untyped-def]
    """What queues hold for a period leaves, where it has ended; those that began until `before`."""
    for key in range(len(rows) // ROW):
        at = key * ROW
        if rows[at + HEAD] != 0 and rows[at + WHEN] <= before:
            touched[key] = True
            while rows[at + HEAD] != 0:
                pop(words, rows, at, meta, heads)


@loop
def reindex(words, old, heads, meta):  # type: ignore[no-untyped-def]
    """Puts the nodes of all buckets into new ones; `meta` has the new number of them."""
    for place in range(0, len(old), 2):
        node = old[place]
        while node != 0:
            following = words[node + FIXED + AFTER]
            enter(words, heads, meta, node, words[node + FIXED + HASH] - 1)
            node = following
