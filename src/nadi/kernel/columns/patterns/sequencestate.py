"""Which keys of a sequence that is an automaton are as if nothing had happened to them."""

from __future__ import annotations

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.patterns.partials import (
    AT_COUNTS,
    AT_LINKS,
    AT_TIMERS,
    BEGIN,
    BEGUN,
    ELEMENT,
    ELEMENTS,
    EVERY,
    EXPIRED,
    HEAD,
    KEY_WIDTH,
    LINKS,
    NEXT,
    PARTNER,
    PLACE,
    SEEN,
    SIZE,
    START,
    STARTS,
    TAIL,
    take,
)
from nadi.kernel.columns.patterns.sequencemoving import HELD, broken_off
from nadi.kernel.columns.patterns.waking import LENGTH, OFF, POPPED, TIMER


@loop
def rest(words, keys, meta, shape, touched):  # type: ignore[no-untyped-def]
    """Let keys begin anew whose matches have bound nothing; without `every` none does, as it would start again."""
    width, half = shape[KEY_WIDTH], shape[SIZE] // 2
    if shape[ELEMENTS + ELEMENT * shape[BEGIN] + EVERY] < 0:
        return
    for g in range(len(keys) // width):
        base = g * width
        if keys[base + BEGUN] == 0 or not _resting(words, keys, shape, base):
            continue
        for e in range(half):
            broken_off(words, keys, meta, shape, e, base)
            if keys[base + STARTS + PLACE * e + HEAD] != 0:
                take(words, keys, meta, shape, keys[base + STARTS + PLACE * e + HEAD], e, base)
        keys[base : base + width] = 0
        touched[g] = True


@loop
def _resting(words, keys, shape, base):  # type: ignore[no-untyped-def]
    """Whether there is nothing but what the next event would make: at first elements, of new matches one at most, and no half of an `and`."""
    half = shape[SIZE] // 2
    for e in range(half):
        row, new, pending = ELEMENTS + ELEMENT * e, base + STARTS + PLACE * e, base + STARTS + PLACE * (half + e)
        if keys[new + SEEN] != 0 or keys[new + HEAD] != keys[new + TAIL]:
            return False
        if shape[row + START] < 0:
            if keys[new + HEAD] != 0 or keys[pending + HEAD] != 0:
                return False
        elif shape[row + PARTNER] >= 0:
            partner = PLACE * (shape[row + PARTNER] - e)
            if keys[pending + HELD] != keys[pending + partner + HELD] or keys[new + HEAD] != keys[new + partner + HEAD]:
                return False
        for place in (e, half + e):
            if not _unbound(words, keys, shape, place, base):
                return False
        if shape[AT_TIMERS] != 0:
            timer = base + shape[AT_TIMERS] + TIMER * e
            if keys[timer + LENGTH] != 0 or keys[timer + OFF] != 0 or keys[timer + POPPED] != 0:
                return False
    return True


@loop
def _unbound(words, keys, shape, place, base):  # type: ignore[no-untyped-def]
    """Whether the matches of a place have bound nothing."""
    node = keys[base + STARTS + PLACE * place + HEAD]
    while node != 0:
        if words[node + EXPIRED] != 0:
            return False
        for e in range(shape[SIZE] // 2):
            if words[node + shape[AT_COUNTS] + e] != 0:
                return False
        node = words[node + shape[AT_LINKS] + LINKS * place + NEXT]
    return True
