"""What is done to all partial matches at once: finding those that a delta tells of, linking those that were loaded, forgetting keys at rest."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.patterns.partials import (
    AT_COUNTS,
    AT_LINKS,
    AT_TIMERS,
    BEGUN,
    CHANGED,
    COUNT,
    END,
    EXPIRED,
    FREE,
    FRESH,
    HEAD,
    ID,
    KEY,
    LATER,
    LINKS,
    LISTED,
    LIVE,
    NEWS,
    NEXT,
    NUMBER,
    PLACE,
    PREV,
    SEEN,
    SIZE,
    STALE,
    STARTS,
    TAIL,
    TOLD,
    TOP,
    UNORDERED,
    WAITS,
    WHERE,
    WIDTH,
    take,
)
from nadi.kernel.columns.patterns.waking import LENGTH, OFF, POPPED, TIMER


@loop
def told(words, meta):  # type: ignore[no-untyped-def]
    """The matches that changed, and keys and numbers of those that are gone, whose nodes are free now."""
    alive = ended = 0
    node = meta[CHANGED]
    while node != 0:
        if words[node + WHERE] != 0:
            alive += 1
        else:
            ended += 1
        node = words[node + LATER]
    nodes = np.empty(alive, np.int64)
    keys, numbers = np.empty(ended, np.int64), np.empty(ended, np.int64)
    alive = ended = 0
    node = meta[CHANGED]
    while node != 0:
        following = words[node + LATER]
        words[node + LISTED] = 0
        if words[node + WHERE] != 0:
            words[node + TOLD] = 1
            nodes[alive] = node
            alive += 1
        else:
            keys[ended], numbers[ended] = words[node + KEY], words[node + ID]
            ended += 1
            words[node + ID] = 0
            words[node + LATER] = meta[FREE]
            meta[FREE] = node
        node = following
    meta[CHANGED] = 0
    return nodes, keys, numbers


@loop
def alive(words, meta, shape):  # type: ignore[no-untyped-def]
    """All matches that wait."""
    count = 0
    for node in range(shape[WIDTH], meta[END], shape[WIDTH]):
        count += words[node + ID] != 0 and words[node + WHERE] != 0
    nodes = np.empty(count, np.int64)
    count = 0
    for node in range(shape[WIDTH], meta[END], shape[WIDTH]):
        if words[node + ID] != 0 and words[node + WHERE] != 0:
            nodes[count] = node
            words[node + TOLD] = 1
            count += 1
    return nodes


@loop
def mark_texts(words, meta, shape, columns, used):  # type: ignore[no-untyped-def]
    """Mark the strings that matches keep."""
    for node in range(shape[WIDTH], meta[END], shape[WIDTH]):
        if words[node + ID] != 0 and words[node + WHERE] != 0:
            for column in columns:
                if words[node + column - 1] == 0:
                    used[words[node + column]] = True


@loop
def rest(words, keys, meta, shape, width, idle, touched):  # type: ignore[no-untyped-def]
    """Let keys begin anew whose only match has bound nothing, and waits in `idle` places, those of the beginning."""
    for g in range(len(keys) // width):
        base = g * width
        if keys[base + BEGUN] == 0 or keys[base + COUNT] != idle:
            continue
        node, resting = 0, True
        for e in range(shape[SIZE]):
            at = base + STARTS + PLACE * e
            head = keys[at + HEAD]
            if node == 0:
                node = head
            resting = resting and keys[at + SEEN] == 0 and (head == 0 or head == node) and head == keys[at + TAIL]
        resting = resting and words[node + EXPIRED] == 0
        for e in range(shape[SIZE]):
            resting = resting and words[node + shape[AT_COUNTS] + e] == 0
            if shape[AT_TIMERS] != 0:
                timer = base + shape[AT_TIMERS] + TIMER * e
                resting = resting and keys[timer + LENGTH] == 0 and keys[timer + OFF] == 0 and keys[timer + POPPED] == 0
        if resting:
            for e in range(shape[SIZE]):
                if keys[base + STARTS + PLACE * e + HEAD] != 0:
                    take(words, keys, meta, shape, node, e, base)
            keys[base : base + width] = 0
            touched[g] = True


@loop
def told_rows(keys, words, shape, width, ids):  # type: ignore[no-untyped-def]
    """Of each key whether it has begun, and of each element the number of the first new match and `SEEN`, one after the other."""
    size = 1 + 2 * shape[SIZE]
    made = np.zeros(len(ids) * size, np.int64)
    for i in range(len(ids)):
        base, to = ids[i] * width, i * size
        made[to] = keys[base + BEGUN]
        for e in range(shape[SIZE]):
            at = base + STARTS + PLACE * e
            fresh = keys[at + FRESH]
            if fresh != 0:
                made[to + 1 + 2 * e] = words[fresh + shape[AT_LINKS] + LINKS * e + NUMBER]
            made[to + 2 + 2 * e] = keys[at + SEEN]
    return made


@loop
def put_rows(keys, shape, width, ids, rows):  # type: ignore[no-untyped-def]
    """Put back what `told_rows` told; the number stands where the node is to stand."""
    size = 1 + 2 * shape[SIZE]
    for i in range(len(ids)):
        base, given = ids[i] * width, i * size
        keys[base : base + width] = 0
        keys[base + BEGUN] = rows[given]
        for e in range(shape[SIZE]):
            at = base + STARTS + PLACE * e
            keys[at + FRESH] = rows[given + 1 + 2 * e]
            keys[at + SEEN] = rows[given + 2 + 2 * e]


@loop
def link(words, keys, meta, shape, width, columns, owners, rows, order):  # type: ignore[no-untyped-def]
    """Make nodes of matches, in `words` that are else empty. `order` has, by number, which match comes to which element: match * elements + element."""
    meta[FREE] = meta[CHANGED] = 0
    size = shape[SIZE]
    for i in range(len(owners)):
        node = (i + 1) * shape[WIDTH]
        for j in range(len(columns)):
            words[node + columns[j]] = rows[i, j]
        words[node + TOLD] = 1
        words[node + KEY] = owners[i]
    for one in order:
        i, e = one // size, one % size
        node, base, own = (i + 1) * shape[WIDTH], owners[i] * width, shape[AT_LINKS] + LINKS * e
        at, bit = base + STARTS + PLACE * e, 1 << e
        tail = keys[at + TAIL]
        words[node + own + PREV] = tail
        words[node + own + NEXT] = 0
        if tail != 0:
            words[tail + own + NEXT] = node
        else:
            keys[at + HEAD] = node
        keys[at + TAIL] = node
        words[node + WHERE] |= bit
        keys[base + COUNT] += 1
        keys[base + WAITS] |= bit
        keys[base + STALE] |= bit
        if keys[base + NEWS] & bit == 0 and keys[at + FRESH] != 0 and words[node + own + NUMBER] >= keys[at + FRESH]:
            keys[base + NEWS] |= bit
            keys[at + FRESH] = node
            keys[at + TOP] = UNORDERED
    for base in range(0, len(keys), width):  # a number that no match has is no node
        for e in range(size):
            if keys[base + NEWS] & (1 << e) == 0:
                keys[base + STARTS + PLACE * e + FRESH] = 0
    meta[END] = (len(owners) + 1) * shape[WIDTH]
    meta[LIVE] = len(owners)
