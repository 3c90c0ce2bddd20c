"""Where partial matches wait: doubly linked lists in one flat array of words, and what happens to them (semantics/patterns.md#the-machine).

A match is a *node*: some words of `words` from a multiple of the node's width on, which is its name; 0 is no node. The first words are links and
numbers; what the match has captured stands behind them (`layout.NodeLayout`). `floats` is the same memory as doubles.

A *place* is where the matches of one key wait for one element: four words of the key's row in `keys`, from `at` on. Its matches stand in the order in which
they came. From the fresh one on they are new: they become pending, ordered by the time of their last event, before the next event is offered.

Where an element asks for equality with an attribute at hand, its matches stand in a second list, too: that of their *bucket*, a pair of words in `buckets`.
There is one for each string; numbers share some (`spread`), so that their equality is among the conditions all the same.
"""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.bits import lowest
from nadi.kernel.columns.jit import loop, part
from nadi.kernel.columns.patterns.ordering import by_time

# The words of a node: the neighbours in its place, the number under which the last delta knew it (0: not), its number in the order of all, the time of its
# first event.
NEXT, PREV, TOLD, NUMBER, FIRST = range(5)
FIXED = 5
# The words that it has only where they are needed: the links of the bucket and its name, from `meta[BUCKET]` on.
AFTER, BEFORE, NAME = range(3)

# The words of a place: its first, last and first fresh match, and the latest first event of the fresh ones (UNORDERED once times did not ascend).
HEAD, TAIL, FRESH, TOP = range(4)
PLACE = 4
USED = 0  # of a key: whether the match that has bound nothing is gone (1); of a pair, BOUND and the slot of the one that is bound
BOUND = 2
WAITS, NEWS = 1, 2  # of a key: the elements for which matches wait, and those for which fresh ones do, as bits by slot
STARTS = 3  # where the places of a key begin

# What `meta` has: free nodes, nodes that a delta is still to tell the end of, where unused words begin, the next number, how many nodes there
# are, words of a node, where in a node stand the time of the last event and the bucket (0: nowhere), and the bits of a number's bucket.
FREE, GONE, END, NUMBERS, LIVE, WIDTH, LAST, BUCKET, MASK = range(9)
META = 9

UNORDERED = np.int64(1 << 62)


@part
def spread(value, mask):  # type: ignore[no-untyped-def]
    """Which of `mask` + 1 (a power of two) buckets a number belongs to. No product is larger than 63 bits, as numpy would warn of that."""
    low = (value & 0x7FFFFFFF) * 0x9E3779B1
    high = ((value >> 31) & 0x7FFFFFFF) * 0x85EBCA77
    return ((low ^ high) >> 20) & mask


@part
def made(words, meta):  # type: ignore[no-untyped-def]
    """A node that stands nowhere yet. There must be room."""
    node = meta[FREE]
    if node != 0:
        meta[FREE] = words[node + NEXT]
    else:
        node = meta[END]
        meta[END] += meta[WIDTH]
    meta[LIVE] += 1
    words[node + TOLD] = 0
    return node


@part
def released(words, meta, node, key):  # type: ignore[no-untyped-def]
    """Forget a node that was taken; one that the last delta knew stays until the next one has told its end."""
    meta[LIVE] -= 1
    words[node + NUMBER] = 0
    if words[node + TOLD] != 0:
        words[node + PREV] = key
        words[node + NEXT] = meta[GONE]
        meta[GONE] = node
    else:
        words[node + NEXT] = meta[FREE]
        meta[FREE] = node


@part
def append(words, keys, at, meta, buckets, node, bucket):  # type: ignore[no-untyped-def]
    """Let a node wait at a place, behind the others."""
    words[node + NUMBER] = meta[NUMBERS]
    meta[NUMBERS] += 1
    tail = keys[at + TAIL]
    words[node + NEXT] = 0
    words[node + PREV] = tail
    if tail != 0:
        words[tail + NEXT] = node
    else:
        keys[at + HEAD] = node
    keys[at + TAIL] = node
    first = words[node + FIRST]
    if keys[at + FRESH] == 0:
        keys[at + FRESH] = node
        keys[at + TOP] = first
    else:
        keys[at + TOP] = first if first >= keys[at + TOP] else UNORDERED
    if meta[BUCKET] != 0:
        enter(words, meta, buckets, node, bucket)


@part
def enter(words, meta, buckets, node, bucket):  # type: ignore[no-untyped-def]
    """Let a node stand in a bucket, too, behind the others."""
    links = node + meta[BUCKET]
    words[links + NAME] = bucket
    if bucket != 0:
        tail = buckets[bucket + 1]
        words[links + AFTER] = 0
        words[links + BEFORE] = tail
        if tail != 0:
            words[tail + meta[BUCKET] + AFTER] = node
        else:
            buckets[bucket] = node
        buckets[bucket + 1] = node


@part
def take(words, keys, at, meta, buckets, node):  # type: ignore[no-untyped-def]
    """Let a node no longer wait at a place."""
    after, before = words[node + NEXT], words[node + PREV]
    if before != 0:
        words[before + NEXT] = after
    else:
        keys[at + HEAD] = after
    if after != 0:
        words[after + PREV] = before
    else:
        keys[at + TAIL] = before
    if keys[at + FRESH] == node:
        keys[at + FRESH] = after
    if meta[BUCKET] != 0:
        _leave(words, meta, buckets, node)


@part
def _leave(words, meta, buckets, node):  # type: ignore[no-untyped-def]
    links = node + meta[BUCKET]
    bucket = words[links + NAME]
    if bucket != 0:
        after, before = words[links + AFTER], words[links + BEFORE]
        if before != 0:
            words[before + meta[BUCKET] + AFTER] = after
        else:
            buckets[bucket] = after
        if after != 0:
            words[after + meta[BUCKET] + BEFORE] = before
        else:
            buckets[bucket + 1] = before


@part
def expire(words, keys, at, meta, buckets, now, within, key):  # type: ignore[no-untyped-def]
    """Drop the matches of a place whose first event is more than `within` ms away; whether there were some.

    Of the pending ones those up to the first that is not late, of the new ones all.
    """
    late = False
    fresh = keys[at + FRESH]
    node = keys[at + HEAD]
    while node != fresh and abs(words[node + FIRST] - now) > within:
        after = words[node + NEXT]
        take(words, keys, at, meta, buckets, node)
        released(words, meta, node, key)
        node = after
        late = True
    ascending = keys[at + TOP] <= now + within
    while fresh != 0:
        after = words[fresh + NEXT]
        if abs(words[fresh + FIRST] - now) > within:
            take(words, keys, at, meta, buckets, fresh)
            released(words, meta, fresh, key)
            late = True
        elif ascending:
            break
        fresh = after
    return late


@part
def expire_pair(words, keys, at, meta, buckets, now, within, key, far):  # type: ignore[no-untyped-def]
    """As `expire`, of matches of which two events must be no more than `within` ms away; the later one's time stands at `far`."""
    late = False
    fresh = keys[at + FRESH]
    node = keys[at + HEAD]
    pending = True
    while node != 0:
        after = words[node + NEXT]
        pending = pending and node != fresh
        if now - words[node + FIRST] > within or words[node + far] - now > within:
            take(words, keys, at, meta, buckets, node)
            released(words, meta, node, key)
            late = True
        elif pending and fresh == 0:
            break
        elif pending:
            after = fresh
        node = after
    return late


@part
def settle_all(words, keys, base, meta, buckets, news):  # type: ignore[no-untyped-def]
    """New matches become pending at the places for which there are bits; they have some."""
    keys[base + NEWS] ^= news
    while news != 0:
        slot = lowest(news)
        news &= news - 1
        settle(words, keys, base + STARTS + PLACE * (slot - 1), meta, buckets)


@part
def settle(words, keys, at, meta, buckets):  # type: ignore[no-untyped-def]
    """New matches of a place become pending: by the time of their last event, stable. There are some."""
    node = keys[at + FRESH]
    ordered = True
    last = meta[LAST]
    before = words[node + last]
    while node != 0:
        ts = words[node + last]
        if ts < before:
            ordered = False
        before = ts
        node = words[node + NEXT]
    if not ordered:
        _sort(words, keys, at, meta, buckets)
    keys[at + FRESH] = 0


@loop
def _sort(words, keys, at, meta, buckets):  # type: ignore[no-untyped-def]
    """Bring the fresh matches of a place in the order of their last events, without any memory: they are a list by their links all the time."""
    node = head = keys[at + FRESH]
    while node != 0:
        after = words[node + NEXT]
        take(words, keys, at, meta, buckets, node)
        node = after
    node = by_time(words, head, NEXT, meta[LAST], UNORDERED)
    while node != 0:
        after = words[node + NEXT]
        bucket = words[node + meta[BUCKET] + NAME] if meta[BUCKET] != 0 else 0
        append(words, keys, at, meta, buckets, node, bucket)
        node = after
