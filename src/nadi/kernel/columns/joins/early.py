"""Events that leave a `timeLength` window of a join for its length, before their time (semantics/windows.md#timelength).

On rows their timers still fire, and let go what is late then: an event that came late itself, and so has set no timer, is seen by the other side until one of
these does. So such an event leaves its bucket, and goes from the queue of its key into a second one, of which a row of words in `early` tells (as `rows` does
of the first one). It stays there until its timer has fired; nothing but its timestamp counts.

Timers are set by events that are later than all before: in both queues they fire in order, those of the second one first.
"""

from __future__ import annotations

from nadi.kernel.columns.jit import loop, part
from nadi.kernel.columns.joins.places import (
    BITS,
    DUE,
    FAR,
    FIXED,
    GONE,
    HASH,
    HEAD,
    INDEXED,
    NEVER,
    NEXT,
    ROW,
    SINCE,
    TS,
    WHEN,
    expire,
    fired,
    made,
    pop,
)
from nadi.kernel.columns.joins.places import due as due_held


@part
def enter_early(words, early, at, meta, ts):  # type: ignore[no-untyped-def]
    """Put a timestamp at the end of a second queue. There is a free node, as one has left."""
    node = made(words, early, at, meta)
    words[node + TS] = ts
    words[node + BITS] = GONE  # it has no attributes
    if meta[INDEXED] != 0:
        words[node + FIXED + HASH] = 0


@part
def overflow(words, rows, early, at, meta, heads):  # type: ignore[no-untyped-def]
    """The oldest event of a queue leaves for the length of its window."""
    node = rows[at + HEAD]
    waits, ts = words[node + BITS] & 1 != 0, words[node + TS]
    pop(words, rows, at, meta, heads)
    if waits:
        enter_early(words, early, at, meta, ts)


@part
def fire_early(words, rows, early, at, meta, heads, now, time, arrival):  # type: ignore[no-untyped-def]
    """Let go what timers have let go before an arrival at a clock. Whether there was one."""
    last = NEVER
    if rows[at + DUE] != 0 and rows[at + DUE] != arrival:
        rows[at + DUE] = 0
        last = rows[at + SINCE]
    while early[at + HEAD] != 0 and words[early[at + HEAD] + TS] + time <= now:
        last = max(last, words[early[at + HEAD] + TS] + time)
        pop(words, early, at, meta, heads)
    node = rows[at + HEAD]
    while node != 0 and words[node + TS] + time <= now:
        if words[node + BITS] & 1 != 0:
            last = max(last, words[node + TS] + time)
        node = words[node + NEXT]
    if last == NEVER:
        return False
    expire(words, rows, at, meta, heads, last - time)
    return True


@part
def due_early(words, rows, early, at, now, time, arrival):  # type: ignore[no-untyped-def]
    """`due` of both queues."""
    if rows[at + DUE] != 0 and rows[at + DUE] != arrival:
        return rows[at + WHEN]
    node = early[at + HEAD]
    if node != 0:
        when = words[node + TS] + time
        return when if when <= now else FAR
    return due_held(words, rows, at, now, time, arrival)


@part
def fired_early(words, rows, early, at, meta, heads, when, time, arrival):  # type: ignore[no-untyped-def]
    """`fired` of both queues."""
    at_once = rows[at + DUE] != 0 and rows[at + DUE] != arrival
    if not at_once and early[at + HEAD] != 0:
        pop(words, early, at, meta, heads)
    return fired(rows, at, when, time, arrival)


@loop
def fire_all_early(words, rows, early, touched, meta, heads, now, time):  # type: ignore[no-untyped-def]
    """`fire_early` for all queues, before any arrival."""
    for key in range(len(rows) // ROW):
        at = key * ROW
        held = rows[at + HEAD] != 0 or early[at + HEAD] != 0
        if held and fire_early(words, rows, early, at, meta, heads, now, time, 0):
            touched[key] = True


@loop
def put_early(words, early, heads, meta, keys, told, width, stamps):  # type: ignore[no-untyped-def]
    """Put back what was told of second queues: of each key `width` numbers, the last two being how many went and came. There must be room."""
    n = 0
    for i in range(len(keys)):
        at = keys[i] * ROW
        for _ in range(told[(i + 1) * width - 2]):
            pop(words, early, at, meta, heads)
        for _ in range(told[(i + 1) * width - 1]):
            enter_early(words, early, at, meta, stamps[n])
            n += 1
