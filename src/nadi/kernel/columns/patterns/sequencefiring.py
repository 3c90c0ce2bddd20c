"""What happens when a timer of a sequence fires: the rules of `nadi.kernel.rows.patterns.absence` for sequences over flat arrays."""

from __future__ import annotations

from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.firing import USED_UP, linked
from nadi.kernel.columns.patterns.moving import is_late, rearm
from nadi.kernel.columns.patterns.partials import (
    ABSENT,
    AT_COUNTS,
    AT_LINKS,
    AT_SEEN,
    AT_TIMERS,
    AWAY,
    EITHER,
    ELEMENT,
    ELEMENTS,
    EMPTY_TS,
    EVERY,
    FIRST,
    HEAD,
    KIND,
    LINKS,
    NEXT,
    OVER,
    PARTNER,
    PLACE,
    SCOPE,
    SEEN,
    SIZE,
    START,
    STARTS,
    TS,
    WAIT,
    changed,
    fresh,
)
from nadi.kernel.columns.patterns.sequencemoving import advanced, advanced_both, enter, go_on, leave, reset
from nadi.kernel.columns.patterns.waking import DUE, OFF, TIMER


@bare
def fired(words, keys, meta, shape, e, key, base, now):  # type: ignore[no-untyped-def]
    """The wait of an element is over: the first of the matches that go on now, linked by `OVER`; `USED_UP` where nobody waits any more, ever."""
    timer = base + shape[AT_TIMERS] + TIMER * e
    if keys[timer + OFF] != 0:
        return USED_UP
    row = ELEMENTS + ELEMENT * e
    alone = shape[row + KIND] == ABSENT
    if not alone and now < keys[base + STARTS + PLACE * e + SEEN] + shape[row + WAIT]:
        return 0
    new, pending = base + STARTS + PLACE * e + HEAD, base + STARTS + PLACE * (shape[SIZE] // 2 + e) + HEAD
    starts = shape[row + START] >= 0 and keys[new] == 0 and keys[pending] == 0
    if starts and (not alone or shape[row + EVERY] >= 0 or keys[timer + DUE] <= 0):
        enter(words, keys, meta, shape, fresh(words, meta, shape, key), e, base)
    elif keys[new] != 0:
        reset(words, keys, meta, shape, key, e, base)
    if alone:
        advanced(words, keys, meta, shape, e, base)
        return _over(words, keys, meta, shape, e, base, now)
    advanced_both(words, keys, meta, shape, e, base)
    return _stayed_away(words, keys, meta, shape, e, base, now)


@bare
def _over(words, keys, meta, shape, e, base, now):  # type: ignore[no-untyped-def]
    """By itself: those that wait long enough."""
    row, place = ELEMENTS + ELEMENT * e, shape[SIZE] // 2 + e
    due, wait = keys[base + shape[AT_TIMERS] + TIMER * e + DUE], shape[row + WAIT]
    first = last = 0
    node = keys[base + STARTS + PLACE * place + HEAD]
    while node != 0:
        following = words[node + shape[AT_LINKS] + LINKS * place + NEXT]
        if is_late(words, shape, node, now):
            leave(words, keys, meta, shape, node, e, base)
        elif now >= (due if words[node + TS] == EMPTY_TS else words[node + TS] + wait):
            first = linked(words, first, last, node)
            last = node
        node = following
    node = first
    while node != 0:
        words[node + TS] = now
        changed(words, meta, node)
        node = words[node + OVER]
    if shape[row + SCOPE] >= 0:
        advanced_both(words, keys, meta, shape, shape[row + SCOPE], base)
    return first


@bare
def _stayed_away(words, keys, meta, shape, e, base, now):  # type: ignore[no-untyped-def]
    """As an operand: mark the matches that wait long enough, and find those that lack nothing more."""
    row, place = ELEMENTS + ELEMENT * e, shape[SIZE] // 2 + e
    partner, either, scope = shape[row + PARTNER], shape[row + EITHER] != 0, shape[row + SCOPE]
    first = last = late = 0
    node = keys[base + STARTS + PLACE * place + HEAD]
    while node != 0:
        following, counts = words[node + shape[AT_LINKS] + LINKS * place + NEXT], node + shape[AT_COUNTS]
        since = words[node + TS] if words[counts + e] == 0 else words[node + shape[AT_SEEN] + e]
        if is_late(words, shape, node, now):
            if late != 0:
                leave(words, keys, meta, shape, late, e, base)
            late = node  # the last one is still to be copied
        elif now >= since + shape[row + WAIT]:
            complete = (words[counts + partner] == 0) == either
            if words[counts + e] == 0 and words[counts + partner] == 0:
                words[counts + e] = 1
                words[node + shape[AT_SEEN] + e] = EMPTY_TS
                if shape[row + START] >= 0:
                    words[node + FIRST + shape[row + START]] = EMPTY_TS
                changed(words, meta, node)
            if complete:
                first = linked(words, first, last, node)
                last = node
            else:
                leave(words, keys, meta, shape, node, e, base)
        node = following
    if late != 0:
        if scope >= 0:
            rearm(words, keys, meta, shape, late, scope, base)
        leave(words, keys, meta, shape, late, e, base)
        if scope >= 0:
            advanced_both(words, keys, meta, shape, scope, base)
    return first


@bare
def sent(words, keys, meta, shape, node, e, base, now):  # type: ignore[no-untyped-def]
    """Nothing came: a match goes on; -> whether it is complete."""
    row, timers = ELEMENTS + ELEMENT * e, base + shape[AT_TIMERS]
    words[node + TS] = now
    changed(words, meta, node)
    done = go_on(words, keys, meta, shape, node, e, base, False)
    if shape[row + EVERY] < 0 and shape[row + START] >= 0:
        keys[timers + TIMER * e + OFF] = 1
        partner = shape[row + PARTNER]
        if partner >= 0 and shape[row + EITHER] != 0 and shape[ELEMENTS + ELEMENT * partner + KIND] == AWAY:
            keys[timers + TIMER * partner + OFF] = 1
    leave(words, keys, meta, shape, node, e, base)
    return done
