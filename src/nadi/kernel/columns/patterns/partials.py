"""Partial matches of a pattern of any shape, in one flat array of words (semantics/patterns.md#the-machine): as `nadi.kernel.rows.patterns.partials`.

A match is a *node* of `words`, named by where it begins; 0 is none. It may wait at several elements at once, so that it has links for each. Where an
element's matches begin and end tells the row of their key in `keys`: first those that are pending, from `FRESH` on those that are new.

What elements are, and what follows what, stands in `shape`, so that these functions are compiled once for all patterns. Nothing here makes room.
"""

from __future__ import annotations

from nadi.kernel.columns.bits import lowest
from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.ordering import by_time, not_after

# The words of a node: its number, whether the last delta knew it, whether and where it stands in the list of those that the next one tells, its key, its
# time, whether it ran out of `within`, the elements at which it waits (bits), the next of those whose wait is over, the output row (from 1 on) in which it
# was put out in the chunk at hand. Then the times of the first events of the start (1 or 2).
ID, TOLD, LISTED, LATER, SOONER, KEY, TS, EXPIRED, WHERE, OVER, SHOWN, FIRST = range(12)
# Then for each element its neighbours there, and the number under which it came there (0: it is not there).
NEXT, PREV, NUMBER = range(3)
LINKS = 3

# The words of a key: whether it has begun, in how many places matches wait, and as bits by slot the elements at which any wait, at which new ones do, and at
# which some may have to go before the next event.
BEGUN, COUNT, WAITS, NEWS, STALE = range(5)
STARTS = 5
# Then for each element: the first, the last and the first new match, the latest first event of the new ones, and when what should stay away was last seen.
HEAD, TAIL, FRESH, TOP, SEEN = range(5)
PLACE = 5

# What `meta` has: free nodes, those that the next delta tells, where unused words begin, the next number, how many nodes there are; of timers (`waking`) the
# app's clock, those that the heap is still to get, and how many it has.
FREE, CHANGED, END, NUMBERS, LIVE, NOW, OFFERS, HEAP = range(8)
META = 8

# What `shape` has: how many elements, first times and captured values there are, the words of a node, and where in it the links, the counts, the times of what
# should stay away (0: nowhere) and the captured values begin; `within` (-1: none), the first element, the words of a key, and where in it timers begin (0:
# there are none). Then a row for each element.
SIZE, FIRSTS, CAPTURED, WIDTH, AT_LINKS, AT_COUNTS, AT_SEEN, AT_VALUES, WITHIN, BEGIN, KEY_WIDTH, AT_TIMERS = range(12)
ELEMENTS = 12
(
    KIND, START, MINIMUM, MAXIMUM, LAST, SILENT, FOLLOWING, BEFORE, EVERY, SCOPE, PARTNER, EITHER, EARLIER, STALES, AGING, WAIT, TURN,
) = range(17)  # fmt: skip
ELEMENT = 17
ONE, MANY, LOGICAL, AWAY, ABSENT = range(5)
"""Kinds of elements: what must stay away, `AWAY` as an operand of a logical one, `ABSENT` by itself."""

NOTHING = -(1 << 62)
"""The time of what is not bound."""
EMPTY_TS = -1
UNORDERED = 1 << 62


# ---- nodes


@bare
def changed(words, meta, node):  # type: ignore[no-untyped-def]
    """Let the next delta tell a match."""
    if words[node + LISTED] == 0:
        words[node + LISTED] = 1
        after = meta[CHANGED]
        words[node + LATER] = after
        words[node + SOONER] = 0
        if after != 0:
            words[after + SOONER] = node
        meta[CHANGED] = node


@bare
def made(words, meta, shape):  # type: ignore[no-untyped-def]
    """A node that waits nowhere; what it has bound is to be written."""
    node = meta[FREE]
    if node != 0:
        meta[FREE] = words[node + LATER]
    else:
        node = meta[END]
        meta[END] += shape[WIDTH]
    meta[LIVE] += 1
    words[node + ID] = meta[NUMBERS]
    meta[NUMBERS] += 1
    words[node + TOLD] = words[node + LISTED] = words[node + EXPIRED] = words[node + WHERE] = words[node + SHOWN] = 0
    for e in range(shape[SIZE]):
        words[node + shape[AT_LINKS] + LINKS * e + NUMBER] = 0
    changed(words, meta, node)
    return node


@bare
def _emptied(words, shape, node, first):  # type: ignore[no-untyped-def]
    """Forget what a match has bound from a slot on."""
    for s in range(shape[FIRSTS]):
        if s >= first:
            words[node + FIRST + s] = NOTHING
    for e in range(first, shape[SIZE]):
        words[node + shape[AT_COUNTS] + e] = 0
        if shape[AT_SEEN] != 0:
            words[node + shape[AT_SEEN] + e] = 0
    for n in range(shape[ELEMENTS + ELEMENT * first + EARLIER], shape[CAPTURED]):
        words[node + shape[AT_VALUES] + 2 * n] = 1
        words[node + shape[AT_VALUES] + 2 * n + 1] = 0


@bare
def fresh(words, meta, shape, key):  # type: ignore[no-untyped-def]
    """A match that has bound nothing."""
    node = made(words, meta, shape)
    words[node + KEY] = key
    words[node + TS] = EMPTY_TS
    _emptied(words, shape, node, 0)
    return node


@bare
def copied(words, meta, shape, node, first):  # type: ignore[no-untyped-def]
    """A copy that has bound nothing from a slot on."""
    copy = made(words, meta, shape)
    words[copy + KEY] = words[node + KEY]
    words[copy + TS] = words[node + TS]
    for s in range(shape[FIRSTS]):
        words[copy + FIRST + s] = words[node + FIRST + s]
    for at in range(shape[AT_COUNTS], shape[WIDTH]):
        words[copy + at] = words[node + at]
    _emptied(words, shape, copy, first)
    return copy


@bare
def released(words, meta, node):  # type: ignore[no-untyped-def]
    """A match that waits nowhere is gone; one that the last delta knew stays until the next one has told that."""
    meta[LIVE] -= 1
    if words[node + TOLD] != 0:
        changed(words, meta, node)
        return
    if words[node + LISTED] != 0:
        after, before = words[node + LATER], words[node + SOONER]
        if before != 0:
            words[before + LATER] = after
        else:
            meta[CHANGED] = after
        if after != 0:
            words[after + SOONER] = before
    words[node + ID] = 0
    words[node + LATER] = meta[FREE]
    meta[FREE] = node


# ---- places


@bare
def _append(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Behind all others of an element, as a new one."""
    at = base + STARTS + PLACE * e
    links = node + shape[AT_LINKS] + LINKS * e
    words[links + NUMBER] = meta[NUMBERS]
    meta[NUMBERS] += 1
    tail = keys[at + TAIL]
    words[links + NEXT] = 0
    words[links + PREV] = tail
    if tail != 0:
        words[tail + shape[AT_LINKS] + LINKS * e + NEXT] = node
    else:
        keys[at + HEAD] = node
    keys[at + TAIL] = node
    first = words[node + FIRST]
    if shape[FIRSTS] > 1 or first == NOTHING:
        first = UNORDERED
    if keys[at + FRESH] == 0:
        keys[at + FRESH] = node
        keys[at + TOP] = first
    elif first < keys[at + TOP]:
        keys[at + TOP] = UNORDERED
    else:
        keys[at + TOP] = first
    changed(words, meta, node)


@bare
def put(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Let a match wait at an element, as a new one."""
    _append(words, keys, meta, shape, node, e, base)
    bit = 1 << e
    words[node + WHERE] |= bit
    keys[base + COUNT] += 1
    keys[base + WAITS] |= bit
    keys[base + NEWS] |= bit


@bare
def _unlinked(words, keys, shape, node, e, base):  # type: ignore[no-untyped-def]
    at = base + STARTS + PLACE * e
    own = shape[AT_LINKS] + LINKS * e
    after, before = words[node + own + NEXT], words[node + own + PREV]
    if before != 0:
        words[before + own + NEXT] = after
    else:
        keys[at + HEAD] = after
    if after != 0:
        words[after + own + PREV] = before
    else:
        keys[at + TAIL] = before
    if keys[at + FRESH] == node:
        keys[at + FRESH] = after
    words[node + own + NUMBER] = 0


@bare
def take(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Let a match no longer wait at an element; one that waits nowhere is gone."""
    _unlinked(words, keys, shape, node, e, base)
    bit = 1 << e
    words[node + WHERE] &= ~bit
    keys[base + COUNT] -= 1
    if keys[base + STARTS + PLACE * e + HEAD] == 0:
        keys[base + WAITS] &= ~bit
    if keys[base + STARTS + PLACE * e + FRESH] == 0:
        keys[base + NEWS] &= ~bit
    if words[node + WHERE] == 0:
        released(words, meta, node)
    else:
        changed(words, meta, node)


@bare
def settle(words, keys, meta, shape, e, base):  # type: ignore[no-untyped-def]
    """New matches of an element become pending: by their times, stable, those that have bound nothing last."""
    at = base + STARTS + PLACE * e
    own = shape[AT_LINKS] + LINKS * e
    node = keys[at + FRESH]
    if node == 0:
        return
    before, ordered = words[node + TS], True
    while node != 0 and ordered:
        ordered = not_after(before, words[node + TS], EMPTY_TS)
        before = words[node + TS]
        node = words[node + own + NEXT]
    if not ordered:
        node = head = keys[at + FRESH]
        while node != 0:
            after = words[node + own + NEXT]
            _unlinked(words, keys, shape, node, e, base)
            node = after
        node = by_time(words, head, own + NEXT, TS, EMPTY_TS)
        while node != 0:
            after = words[node + own + NEXT]
            _append(words, keys, meta, shape, node, e, base)
            node = after
    keys[at + FRESH] = 0
    keys[base + NEWS] &= ~(1 << e)


@bare
def settle_all(words, keys, meta, shape, news, base):  # type: ignore[no-untyped-def]
    """The same for all elements of which there are bits."""
    while news != 0:
        settle(words, keys, meta, shape, lowest(news), base)
        news &= news - 1
