"""What is done to all matches of some keys at once: finding those that a delta tells of, and linking those that were loaded."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.patterns.places import (
    BUCKET,
    END,
    FIRST,
    FREE,
    FRESH,
    GONE,
    HEAD,
    LIVE,
    MASK,
    NEWS,
    NEXT,
    NUMBER,
    PLACE,
    PREV,
    STARTS,
    TAIL,
    TOLD,
    TOP,
    UNORDERED,
    USED,
    WAITS,
    WIDTH,
    enter,
    released,
    spread,
    take,
)


@loop
def since(words, keys, width, ids, known):  # type: ignore[no-untyped-def]
    """The matches of keys from a number on: nodes, keys and places."""
    places = (width - STARTS) // PLACE
    count = 0
    for turn in range(2):
        if turn == 1:
            nodes, owners, at_places = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        total, count = count, 0
        for g in ids:
            for p in range(places):
                node = keys[g * width + STARTS + p * PLACE + TAIL]
                while node != 0 and words[node + NUMBER] >= known:
                    if turn == 1:
                        at = total - 1 - count
                        nodes[at] = node
                        owners[at] = g
                        at_places[at] = p
                    count += 1
                    node = words[node + PREV]
    return nodes, owners, at_places


@loop
def gone(words, meta, nodes, owners):  # type: ignore[no-untyped-def]
    """Keys and numbers of matches that the last delta knew and that are no more, or have another number; the former's nodes are free now."""
    count = 0
    node = meta[GONE]
    while node != 0:
        count += 1
        node = words[node + NEXT]
    for node in nodes:
        count += words[node + TOLD] != 0
    keys, numbers = np.empty(count, np.int64), np.empty(count, np.int64)
    at = 0
    for i in range(len(nodes)):
        if words[nodes[i] + TOLD] != 0:
            keys[at] = owners[i]
            numbers[at] = words[nodes[i] + TOLD]
            at += 1
    node = meta[GONE]
    while node != 0:
        keys[at] = words[node + PREV]
        numbers[at] = words[node + TOLD]
        at += 1
        following = words[node + NEXT]
        words[node + NEXT] = meta[FREE]
        meta[FREE] = node
        node = following
    meta[GONE] = 0
    return keys, numbers


@loop
def told(words, nodes):  # type: ignore[no-untyped-def]
    """Note that nodes are known by their numbers."""
    for node in nodes:
        words[node + TOLD] = words[node + NUMBER]


@loop
def told_rows(keys, width, words, ids):  # type: ignore[no-untyped-def]
    """Of each key whether its first match is used up, and per place the number of the first fresh match, one after the other."""
    places = (width - STARTS) // PLACE
    made = np.empty(len(ids) * (1 + places), np.int64)
    for i in range(len(ids)):
        row = ids[i] * width
        made[i * (1 + places)] = keys[row + USED]
        for p in range(places):
            fresh = keys[row + STARTS + p * PLACE + FRESH]
            made[i * (1 + places) + 1 + p] = words[fresh + NUMBER] if fresh != 0 else 0
    return made


@loop
def put_rows(keys, width, ids, rows):  # type: ignore[no-untyped-def]
    """Put back what `told_rows` told; the number stands where the node is to stand."""
    places = (width - STARTS) // PLACE
    for i in range(len(ids)):
        row = ids[i] * width
        keys[row + USED] = rows[i * (1 + places)]
        for p in range(places):
            keys[row + STARTS + p * PLACE + FRESH] = rows[i * (1 + places) + 1 + p]


@loop
def filled(keys, width, ids):  # type: ignore[no-untyped-def]
    """Whether keys are other than such that nothing ever happened to."""
    made = np.zeros(len(ids), np.bool_)
    for i in range(len(ids)):
        row = ids[i] * width
        full = keys[row + USED] != 0
        for at in range(row + STARTS, row + width, PLACE):
            full = full or keys[at + HEAD] != 0
        made[i] = full
    return made


@loop
def forget(words, keys, width, meta, buckets, ids):  # type: ignore[no-untyped-def]
    """Drop the matches of keys, and let their rows be as if nothing had happened to them."""
    for key in ids:
        row = key * width
        for at in range(row + STARTS, row + width, PLACE):
            while keys[at + HEAD] != 0:
                node = keys[at + HEAD]
                take(words, keys, at, meta, buckets, node)
                released(words, meta, node, key)
        keys[row : row + width] = 0


@loop
def mark_texts(words, meta, null_word, columns, bits, used):  # type: ignore[no-untyped-def]
    """Mark the strings that matches keep."""
    for node in range(meta[WIDTH], meta[END], meta[WIDTH]):
        if words[node + NUMBER] != 0:
            for i in range(len(columns)):
                if (words[node + null_word] >> bits[i]) & 1 == 0:
                    used[words[node + columns[i]]] = True


@loop
def link(words, keys, width, meta, buckets, columns, null_word, equal, owners, at_places, rows):  # type: ignore[no-untyped-def]
    """Make nodes of matches that are given by number, in `words` that has room for them and is else empty."""
    meta[FREE] = meta[GONE] = 0
    fresh_seen = np.zeros(len(keys), np.bool_)
    node = 0
    for i in range(len(owners)):
        node += meta[WIDTH]
        for j in range(len(columns)):
            words[node + columns[j]] = rows[i, j]
        words[node + TOLD] = words[node + NUMBER]
        row = owners[i] * width
        at = row + STARTS + at_places[i] * PLACE
        _behind(words, keys, at, node)
        _renew(words, keys, at, node, fresh_seen)
        bit = 1 << (at_places[i] + 1)
        keys[row + WAITS] |= bit
        if fresh_seen[at]:
            keys[row + NEWS] |= bit
        if meta[BUCKET] != 0:
            enter(words, meta, buckets, node, _bucket(words, meta, null_word, equal, node, at_places[i]))
    for row in range(0, len(keys), width):  # a number that no match has is no node
        for at in range(row + STARTS, row + STARTS + (width - STARTS) // PLACE * PLACE, PLACE):
            if not fresh_seen[at]:
                keys[at + FRESH] = 0
    meta[END] = node + meta[WIDTH]
    meta[LIVE] = len(owners)


@loop
def _bucket(words, meta, null_word, equal, node, place):  # type: ignore[no-untyped-def]
    """The bucket of a match that waits at a place; `equal` has for each place the word and the bit of its value, and whether it is `spread`."""
    word, bit = equal[place, 0], equal[place, 1]
    if word == 0 or (words[node + null_word] >> bit) & 1 != 0:
        return 0
    row = words[node + word]
    if equal[place, 2] != 0:
        row = spread(row, meta[MASK])
    return 2 + 2 * (row * len(equal) + place)


@loop
def enter_all(words, keys, width, meta, buckets, null_word, equal):  # type: ignore[no-untyped-def]
    """Let all matches stand in buckets, which are empty."""
    for row in range(0, len(keys), width):
        for place in range(len(equal)):
            node = keys[row + STARTS + place * PLACE + HEAD]
            while node != 0:
                enter(words, meta, buckets, node, _bucket(words, meta, null_word, equal, node, place))
                node = words[node + NEXT]


@loop
def last_times(words, keys, at, last):  # type: ignore[no-untyped-def]
    """Of the match at the end of a place the times of its last and of its first event, and whether some before it stand in no order of either."""
    came = began = -(1 << 62)
    unordered = 0
    node = keys[at + HEAD]
    while node != 0:
        if words[node + last] < came or words[node + FIRST] < began:
            unordered = 1
        came, began = words[node + last], words[node + FIRST]
        node = words[node + NEXT]
    return came, began, unordered


@loop
def _behind(words, keys, at, node):  # type: ignore[no-untyped-def]
    tail = keys[at + TAIL]
    words[node + PREV] = tail
    words[node + NEXT] = 0
    if tail != 0:
        words[tail + NEXT] = node
    else:
        keys[at + HEAD] = node
    keys[at + TAIL] = node


@loop
def _renew(words, keys, at, node, seen):  # type: ignore[no-untyped-def]
    """Let the first match from the number on that the row gives be the first fresh one."""
    first = words[node + FIRST]
    if seen[at]:
        keys[at + TOP] = first if first >= keys[at + TOP] else UNORDERED
    elif keys[at + FRESH] != 0 and words[node + NUMBER] >= keys[at + FRESH]:
        seen[at] = True
        keys[at + FRESH] = node
        keys[at + TOP] = first
