"""What happens when a timer of a pattern fires: the rules of `nadi.kernel.rows.patterns.absence` over flat arrays."""

from __future__ import annotations

from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.moving import end_last, enter, go_on, is_late, rearm, settle_scope
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
    FRESH,
    HEAD,
    KIND,
    LINKS,
    NEXT,
    NOW,
    OVER,
    PARTNER,
    PLACE,
    SCOPE,
    SEEN,
    STALE,
    STALES,
    START,
    STARTS,
    TS,
    WAIT,
    changed,
    fresh,
    settle,
    take,
)
from nadi.kernel.columns.patterns.waking import DUE, OFF, TIMER, wake, wake_at

USED_UP = -1


@bare
def fired(words, keys, meta, shape, e, key, base, now):  # type: ignore[no-untyped-def]
    """The wait of an element is over: the first of the matches that go on now, linked by `OVER`; `USED_UP` where nobody waits any more, ever."""
    if keys[base + shape[AT_TIMERS] + TIMER * e + OFF] != 0:
        return USED_UP
    if shape[ELEMENTS + ELEMENT * e + KIND] == ABSENT:
        return _fired_alone(words, keys, meta, shape, e, key, base, now)
    if now < keys[base + STARTS + PLACE * e + SEEN] + shape[ELEMENTS + ELEMENT * e + WAIT]:
        return 0
    return _stayed_away(words, keys, meta, shape, e, base, now)


@bare
def linked(words, first, last, node):  # type: ignore[no-untyped-def]
    """A match behind the last one that goes on; -> the first one."""
    words[node + OVER] = 0
    if last == 0:
        return node
    words[last + OVER] = node
    return first


@bare
def _fired_alone(words, keys, meta, shape, e, key, base, now):  # type: ignore[no-untyped-def]
    row, at, own = ELEMENTS + ELEMENT * e, base + STARTS + PLACE * e, shape[AT_LINKS] + LINKS * e
    due, wait = keys[base + shape[AT_TIMERS] + TIMER * e + DUE], shape[row + WAIT]
    if shape[row + START] >= 0 and keys[at + HEAD] == 0:
        enter(words, keys, meta, shape, fresh(words, meta, shape, key), e, base)
    settle(words, keys, meta, shape, e, base)
    first = last = 0
    node = keys[at + HEAD]
    while node != 0 and node != keys[at + FRESH]:
        after = words[node + own + NEXT]
        if is_late(words, shape, node, now):
            every = shape[row + EVERY]
            if shape[row + SCOPE] >= 0 and every >= 0 and every != e:
                rearm(words, keys, meta, shape, node, every, base)
            take(words, keys, meta, shape, node, e, base)
        elif now >= (due if words[node + TS] == EMPTY_TS else words[node + TS] + wait):
            first = linked(words, first, last, node)
            last = node
        node = after
    node = first
    while node != 0:
        words[node + TS] = now
        changed(words, meta, node)
        node = words[node + OVER]
    if shape[row + SCOPE] >= 0:
        settle_scope(words, keys, meta, shape, shape[row + SCOPE], base)
    return first


@bare
def _stayed_away(words, keys, meta, shape, e, base, now):  # type: ignore[no-untyped-def]
    """As an operand: mark the matches that wait long enough, and find those that lack nothing more."""
    row, at, own = ELEMENTS + ELEMENT * e, base + STARTS + PLACE * e, shape[AT_LINKS] + LINKS * e
    partner, either = shape[row + PARTNER], shape[row + EITHER] != 0
    settle(words, keys, meta, shape, e, base)
    settle(words, keys, meta, shape, partner, base)
    first = last = late = 0
    node = keys[at + HEAD]
    while node != 0 and node != keys[at + FRESH]:
        after, counts = words[node + own + NEXT], node + shape[AT_COUNTS]
        since = words[node + TS] if words[counts + e] == 0 else words[node + shape[AT_SEEN] + e]
        if is_late(words, shape, node, now):
            if late != 0:
                take(words, keys, meta, shape, late, e, base)
            late = node  # the last one is still to be copied
        elif now >= since + shape[row + WAIT]:
            complete = (words[counts + partner] == 0) == either
            if words[counts + e] == 0 and words[counts + partner] == 0:
                words[counts + e] = 1
                words[node + shape[AT_SEEN] + e] = EMPTY_TS
                if shape[row + START] >= 0:
                    words[node + FIRST + shape[row + START]] = EMPTY_TS
                keys[base + STALE] |= shape[row + STALES]
                changed(words, meta, node)
            if not complete:
                take(words, keys, meta, shape, node, e, base)
            else:
                first = linked(words, first, last, node)
                last = node
        node = after
    if late != 0:
        end_last(words, keys, meta, shape, late, e, base)
    return first


@bare
def sent(words, keys, meta, shape, node, e, base, now):  # type: ignore[no-untyped-def]
    """Nothing came: a match goes on; -> whether it is complete."""
    row, timers = ELEMENTS + ELEMENT * e, base + shape[AT_TIMERS]
    words[node + TS] = now
    done = go_on(words, keys, meta, shape, node, e, base, False)
    if shape[row + EVERY] < 0 and shape[row + START] >= 0:
        keys[timers + TIMER * e + OFF] = 1
        partner = shape[row + PARTNER]
        if partner >= 0 and shape[row + EITHER] != 0 and shape[ELEMENTS + ELEMENT * partner + KIND] == AWAY:
            keys[timers + TIMER * partner + OFF] = 1
    take(words, keys, meta, shape, node, e, base)
    return done


@bare
def rested(words, keys, meta, shape, e, base, now, some):  # type: ignore[no-untyped-def]
    """What follows when a timer has fired; `some`: matches went on."""
    row, at = ELEMENTS + ELEMENT * e, base + shape[AT_TIMERS] + TIMER * e
    wait = shape[row + WAIT]
    if shape[row + KIND] == ABSENT:
        if meta[NOW] > wait + now:
            keys[at + DUE] = meta[NOW] + wait
        if not some and keys[at + DUE] < now:
            wake_at(words, keys, meta, shape, e, base, now + wait)
        return
    seen = base + STARTS + PLACE * e + SEEN
    if now >= keys[seen] + wait:
        keys[seen] = 0
    if shape[row + EVERY] >= 0 or (not some and shape[row + START] >= 0):
        since = keys[seen]
        wake(words, keys, meta, shape, e, base, (meta[NOW] if since == 0 else since) + wait)
