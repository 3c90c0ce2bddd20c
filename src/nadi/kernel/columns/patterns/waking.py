"""The timers of a pattern that waits for absences: as on rows a queue of due times for each timed element and key, in the order in which they were set.

A queue stands in nodes of `words`, one after the other, each with many times. A heap has those queues that hold something, as key * elements + element: the
one whose first time is the least is at its top, of equal ones the element that was set up first, then the key whose text is the least.
"""

from __future__ import annotations

from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.partials import (
    AT_TIMERS,
    ELEMENT,
    ELEMENTS,
    END,
    FREE,
    HEAP,
    ID,
    KEY_WIDTH,
    LATER,
    OFFERS,
    SIZE,
    TURN,
    WIDTH,
)

# The words of a timer, by key and element: when its wait ends (`due` on rows), whether it is used up, where the queue begins and ends (nodes, and places in
# them), the next of those that the heap is still to get, and of its times how many the last delta knew that are gone, how many it knows, how many there are,
# and where those begin that it does not know.
DUE, OFF, FRONT, FROM, BACK, TO, OFFER, POPPED, KNOWN, LENGTH, NEWS, NEWER = range(12)
TIMER = 12
# The words of a node in a queue: none for its number, the next node; then times.
FOLLOWER = 1
TIMES = 2


@bare
def wake(words, keys, meta, shape, e, base, due):  # type: ignore[no-untyped-def]
    """A time at the end of the queue of an element."""
    at = base + shape[AT_TIMERS] + TIMER * e
    if keys[at + LENGTH] == 0:
        keys[at + OFFER] = meta[OFFERS]
        meta[OFFERS] = base // shape[KEY_WIDTH] * shape[SIZE] + e + 1
    if keys[at + BACK] == 0 or keys[at + TO] == shape[WIDTH]:
        node = meta[FREE]
        if node != 0:
            meta[FREE] = words[node + LATER]
        else:
            node = meta[END]
            meta[END] += shape[WIDTH]
        words[node + ID] = 0
        words[node + FOLLOWER] = 0
        if keys[at + BACK] == 0:
            keys[at + FRONT] = node
            keys[at + FROM] = TIMES
        else:
            words[keys[at + BACK] + FOLLOWER] = node
        keys[at + BACK] = node
        keys[at + TO] = TIMES
    words[keys[at + BACK] + keys[at + TO]] = due
    keys[at + TO] += 1
    keys[at + LENGTH] += 1


@bare
def wake_at(words, keys, meta, shape, e, base, due):  # type: ignore[no-untyped-def]
    """The same, and its wait ends then."""
    keys[base + shape[AT_TIMERS] + TIMER * e + DUE] = due
    wake(words, keys, meta, shape, e, base, due)


@bare
def forget_first(words, keys, meta, shape, at):  # type: ignore[no-untyped-def]
    """Take the first time from the queue of the timer at `at`."""
    node = keys[at + FRONT]
    due = words[node + keys[at + FROM]]
    keys[at + FROM] += 1
    keys[at + LENGTH] -= 1
    if keys[at + FROM] == shape[WIDTH] or keys[at + LENGTH] == 0:
        keys[at + FRONT] = words[node + FOLLOWER]
        keys[at + FROM] = TIMES
        if keys[at + FRONT] == 0:
            keys[at + BACK] = 0
        words[node + ID] = 0
        words[node + LATER] = meta[FREE]
        meta[FREE] = node
    if keys[at + KNOWN] > 0:
        keys[at + KNOWN] -= 1
        keys[at + POPPED] += 1
    return due


@bare
def _first(words, keys, shape, code):  # type: ignore[no-untyped-def]
    at = code // shape[SIZE] * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * (code % shape[SIZE])
    return words[keys[at + FRONT] + keys[at + FROM]]


@bare
def first_time(words, keys, shape, heap):  # type: ignore[no-untyped-def]
    """When the first timer fires; there is one."""
    return _first(words, keys, shape, heap[0])


@bare
def _sooner(words, keys, shape, one, other, starts, lengths, texts):  # type: ignore[no-untyped-def]
    """Whether one timer fires before another one."""
    due, later = _first(words, keys, shape, one), _first(words, keys, shape, other)
    if due != later:
        return due < later
    size = shape[SIZE]
    turn, second = shape[ELEMENTS + ELEMENT * (one % size) + TURN], shape[ELEMENTS + ELEMENT * (other % size) + TURN]
    if turn != second:
        return turn < second
    key, own = one // size, other // size
    for j in range(min(lengths[key], lengths[own])):
        mine, its = texts[starts[key] + j], texts[starts[own] + j]
        if mine != its:
            return mine < its
    return lengths[key] < lengths[own]


@bare
def offer_all(words, keys, meta, shape, heap, starts, lengths, texts):  # type: ignore[no-untyped-def]
    """Give the heap the timers that hold a time again."""
    while meta[OFFERS] != 0:
        code = meta[OFFERS] - 1
        at = code // shape[SIZE] * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * (code % shape[SIZE])
        meta[OFFERS] = keys[at + OFFER]
        here = meta[HEAP]
        meta[HEAP] += 1
        while here > 0 and _sooner(words, keys, shape, code, heap[(here - 1) >> 1], starts, lengths, texts):
            heap[here] = heap[(here - 1) >> 1]
            here = (here - 1) >> 1
        heap[here] = code


@bare
def first_due(words, keys, meta, shape, heap, until):  # type: ignore[no-untyped-def]
    """The timer that fires next, if it is due; else -1."""
    if meta[HEAP] == 0 or _first(words, keys, shape, heap[0]) > until:
        return -1
    return heap[0]


@bare
def popped(words, keys, meta, shape, heap, starts, lengths, texts):  # type: ignore[no-untyped-def]
    """The time for which the first timer fires; with what waits behind it the timer stays in the heap."""
    code = heap[0]
    at = code // shape[SIZE] * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * (code % shape[SIZE])
    due = forget_first(words, keys, meta, shape, at)
    if keys[at + LENGTH] == 0:
        meta[HEAP] -= 1
        code = heap[meta[HEAP]]
    here, count = 0, meta[HEAP]
    while True:
        child = 2 * here + 1
        if child >= count:
            break
        if child + 1 < count and _sooner(words, keys, shape, heap[child + 1], heap[child], starts, lengths, texts):
            child += 1
        if not _sooner(words, keys, shape, heap[child], code, starts, lengths, texts):
            break
        heap[here] = heap[child]
        here = child
    if count > 0:
        heap[here] = code
    return due
