"""The timers of a pattern as state: per key and element when its wait ends, whether it is used up, how many times are gone of those that were told, and those
that came (`waking`)."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.patterns.partials import AT_TIMERS, KEY_WIDTH, SIZE, WIDTH
from nadi.kernel.columns.patterns.waking import (
    BACK,
    DUE,
    FOLLOWER,
    FROM,
    FRONT,
    KNOWN,
    LENGTH,
    NEWER,
    NEWS,
    OFF,
    POPPED,
    TIMER,
    TIMES,
    TO,
    wake,
)

WORDS = 4  # of what is told of a timer: `DUE`, `OFF`, how many went (`ALL`: what was told before counts no more), how many came
ALL = -1


@loop
def told_waits(words, keys, shape, ids, whole):  # type: ignore[no-untyped-def]
    """What is told of the timers of keys, and the times that came; of all times if it is to be the `whole`."""
    size, count = shape[SIZE], 0
    for key in ids:
        for e in range(size):
            at = key * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * e
            count += keys[at + LENGTH] if whole else keys[at + LENGTH] - keys[at + KNOWN]
    made, dues = np.zeros(len(ids) * size * WORDS, np.int64), np.empty(count, np.int64)
    count = to = 0
    for key in ids:
        for e in range(size):
            at = key * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * e
            made[to], made[to + 1] = keys[at + DUE], keys[at + OFF]
            if whole:
                keys[at + KNOWN] = keys[at + POPPED] = 0
            came = keys[at + LENGTH] - keys[at + KNOWN]
            made[to + 2] = ALL if whole else keys[at + POPPED]
            made[to + 3] = came
            to += WORDS
            node, place = keys[at + FRONT], keys[at + FROM]
            if keys[at + KNOWN] > 0:
                node, place = keys[at + NEWS], keys[at + NEWER]
            for _ in range(came):
                if place == shape[WIDTH]:
                    node, place = words[node + FOLLOWER], TIMES
                dues[count] = words[node + place]
                count += 1
                place += 1
            keys[at + KNOWN], keys[at + POPPED] = keys[at + LENGTH], 0
            keys[at + NEWS], keys[at + NEWER] = keys[at + BACK], keys[at + TO]
    return made, dues


@loop
def put_waits(keys, shape, ids, told):  # type: ignore[no-untyped-def]
    """Put back when waits end, and which are used up."""
    given = 0
    for key in ids:
        for e in range(shape[SIZE]):
            at = key * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * e
            keys[at + DUE], keys[at + OFF] = told[given], told[given + 1]
            given += WORDS


@loop
def link_waits(words, keys, meta, shape, ids, told, dues):  # type: ignore[no-untyped-def]
    """Make queues of what was told of keys, again and again, of each the oldest first. There is room."""
    size = shape[SIZE]
    codes = len(keys) // shape[KEY_WIDTH] * size
    gone, total = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    for n in range(len(ids) * size):
        code, went = ids[n // size] * size + n % size, told[WORDS * n + 2]
        gone[code] = total[code] if went == ALL else gone[code] + went
        total[code] += told[WORDS * n + 3]
    total[:] = 0
    at = 0
    for n in range(len(ids) * size):
        code = ids[n // size] * size + n % size
        for _ in range(told[WORDS * n + 3]):
            if total[code] >= gone[code]:
                wake(words, keys, meta, shape, code % size, code // size * shape[KEY_WIDTH], dues[at])
            total[code] += 1
            at += 1
    for code in range(codes):
        timer = code // size * shape[KEY_WIDTH] + shape[AT_TIMERS] + TIMER * (code % size)
        keys[timer + KNOWN] = keys[timer + LENGTH]
        keys[timer + NEWS], keys[timer + NEWER] = keys[timer + BACK], keys[timer + TO]
