"""How partial matches of a pattern of any shape go on: the rules of `nadi.kernel.rows.patterns` over flat arrays."""

from __future__ import annotations

from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.partials import (
    ABSENT,
    AGING,
    AT_COUNTS,
    AT_LINKS,
    AT_SEEN,
    AT_TIMERS,
    AWAY,
    BEFORE,
    BEGIN,
    BEGUN,
    EITHER,
    ELEMENT,
    ELEMENTS,
    EVERY,
    EXPIRED,
    FIRST,
    FIRSTS,
    FOLLOWING,
    FRESH,
    HEAD,
    KEY,
    KIND,
    LAST,
    LINKS,
    MANY,
    MAXIMUM,
    MINIMUM,
    NEXT,
    NOTHING,
    NOW,
    ONE,
    PARTNER,
    PLACE,
    SCOPE,
    SEEN,
    SHOWN,
    SILENT,
    SIZE,
    STALE,
    STALES,
    START,
    STARTS,
    TOP,
    TS,
    WAIT,
    WAITS,
    WHERE,
    WITHIN,
    changed,
    copied,
    fresh,
    put,
    released,
    settle,
    take,
)
from nadi.kernel.columns.patterns.waking import OFF, TIMER, wake, wake_at


@bare
def _enter_both(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Into the lists of both operands; the first element holds one new match at most."""
    row = ELEMENTS + ELEMENT * e
    if is_off(keys, shape, e, base):
        return
    for one in (e, shape[row + PARTNER]):
        if shape[row + START] < 0 or keys[base + STARTS + PLACE * one + FRESH] == 0:
            put(words, keys, meta, shape, node, one, base)
    for one in (e, shape[row + PARTNER]):
        wait = shape[ELEMENTS + ELEMENT * one + WAIT]
        if shape[row + START] < 0 and wait >= 0:
            wake(words, keys, meta, shape, one, base, words[node + TS] + wait)


@bare
def is_off(keys, shape, e, base):  # type: ignore[no-untyped-def]
    """Whether what had to stay away did so once and for all."""
    timed = shape[ELEMENTS + ELEMENT * e + WAIT] >= 0
    return timed and keys[base + shape[AT_TIMERS] + TIMER * e + OFF] != 0


@bare
def _enter_absent(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    row = ELEMENTS + ELEMENT * e
    if is_off(keys, shape, e, base):
        return
    put(words, keys, meta, shape, node, e, base)
    if shape[row + START] < 0:
        wake_at(words, keys, meta, shape, e, base, words[node + TS] + shape[row + WAIT])


@bare
def enter(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """A match arrives at an element. One that needs no event passes it on at once; -> whether it is complete."""
    done, here = False, e
    while True:
        row = ELEMENTS + ELEMENT * here
        if shape[row + KIND] != MANY:
            if shape[row + KIND] == ONE:
                put(words, keys, meta, shape, node, here, base)
            elif shape[row + KIND] == ABSENT:
                _enter_absent(words, keys, meta, shape, node, here, base)
            else:
                _enter_both(words, keys, meta, shape, node, here, base)
            break
        enough = shape[row + MINIMUM] == 0 and words[node + shape[AT_COUNTS] + here] == 0
        if enough and shape[row + LAST] != 0:
            if shape[row + START] < 0:
                done = True
                _rearm_every(words, keys, meta, shape, node, here, base)
            break
        put(words, keys, meta, shape, node, here, base)
        if not enough or shape[row + FOLLOWING] < 0:
            break
        here = shape[row + FOLLOWING]
    while here != e:  # those that passed it on are done with it
        here = shape[ELEMENTS + ELEMENT * here + BEFORE]
        _rearm_every(words, keys, meta, shape, node, here, base)
    return done


@bare
def rearm(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """A copy of a match starts a scope again, whose first element is `e`."""
    row = ELEMENTS + ELEMENT * e
    if shape[row + PARTNER] < 0:
        copy = copied(words, meta, shape, node, e)
        put(words, keys, meta, shape, copy, e, base)
        if shape[row + KIND] == ABSENT:
            wake_at(words, keys, meta, shape, e, base, words[copy + TS] + shape[row + WAIT])
        return
    partner = shape[row + PARTNER]
    copy = copied(words, meta, shape, node, min(e, partner))
    if shape[row + KIND] == AWAY and words[node + shape[AT_COUNTS] + e] != 0:
        words[copy + TS] = words[node + shape[AT_SEEN] + e]
    put(words, keys, meta, shape, copy, e, base)
    put(words, keys, meta, shape, copy, partner, base)


@bare
def _rearm_every(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    every = shape[ELEMENTS + ELEMENT * e + EVERY]
    if every >= 0:
        rearm(words, keys, meta, shape, node, every, base)


@bare
def go_on(words, keys, meta, shape, node, e, base, lost):  # type: ignore[no-untyped-def]
    """An element is done with a match; -> whether that is complete."""
    row = ELEMENTS + ELEMENT * e
    done = shape[row + LAST] != 0 and not lost
    if shape[row + FOLLOWING] >= 0:
        done = enter(words, keys, meta, shape, node, shape[row + FOLLOWING], base)
    _rearm_every(words, keys, meta, shape, node, e, base)
    return done


@bare
def begin(words, keys, meta, shape, key, base):  # type: ignore[no-untyped-def]
    """A key starts: there is a match that has bound nothing. Nobody hears if that is complete."""
    keys[base + BEGUN] = 1
    _begin_at(words, keys, meta, shape, key, shape[BEGIN], base)
    for n in range(shape[SIZE]):  # the wait of a first element begins now
        row = ELEMENTS + ELEMENT * n
        if shape[row + START] >= 0 and shape[row + WAIT] >= 0:
            if shape[row + KIND] == ABSENT:
                wake_at(words, keys, meta, shape, n, base, meta[NOW] + shape[row + WAIT])
            else:
                wake(words, keys, meta, shape, n, base, meta[NOW] + shape[row + WAIT])


@bare
def _begin_at(words, keys, meta, shape, key, e, base):  # type: ignore[no-untyped-def]
    node = fresh(words, meta, shape, key)
    enter(words, keys, meta, shape, node, e, base)
    if words[node + WHERE] == 0:  # another one waits there
        released(words, meta, node)


@bare
def bound(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """A match has bound an event at an element (what it keeps of it is written); -> whether it is complete."""
    row, counts = ELEMENTS + ELEMENT * e, node + shape[AT_COUNTS]
    if shape[row + WAIT] >= 0:
        _discarded(words, keys, meta, shape, node, e, base, t)
        return False
    keys[base + STALE] |= shape[row + STALES]
    start = shape[row + START]
    if start >= 0 and (words[node + FIRST + start] == NOTHING or shape[row + KIND] == AWAY):
        words[node + FIRST + start] = t
    words[counts + e] += 1
    changed(words, meta, node)
    if shape[row + KIND] == MANY:
        words[node + TS] = t
        count, done = words[counts + e], False
        leaves = count == shape[row + MAXIMUM]
        if count == shape[row + MINIMUM]:
            done = go_on(words, keys, meta, shape, node, e, base, False)
            leaves = leaves or shape[row + LAST] != 0
        if leaves:
            take(words, keys, meta, shape, node, e, base)
        return done
    if shape[row + KIND] == AWAY:
        words[node + shape[AT_SEEN] + e] = t
        keys[base + STARTS + PLACE * e + SEEN] = t
        if shape[row + SILENT] == 0:
            take(words, keys, meta, shape, node, e, base)
        return False
    done = False
    lost = shape[row + SILENT] != 0 and shape[row + EITHER] == 0
    if shape[row + KIND] == ONE or shape[row + EITHER] != 0 or _both(words, keys, meta, shape, node, e, base):
        words[node + TS] = t
        done = go_on(words, keys, meta, shape, node, e, base, lost)
    take(words, keys, meta, shape, node, e, base)
    return done


@bare
def _discarded(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """What should stay away for some time came: a match no longer waits for that; a first element waits anew."""
    row = ELEMENTS + ELEMENT * e
    if shape[row + KIND] == ABSENT:
        words[node + TS] = t
        words[node + shape[AT_COUNTS] + e] += 1  # a counted element at which it waits, too, sees that it is gone
        keys[base + STALE] |= shape[row + STALES]
        changed(words, meta, node)
        if shape[row + START] >= 0 and shape[row + EVERY] == e:
            rearm(words, keys, meta, shape, node, e, base)
        take(words, keys, meta, shape, node, e, base)
        wake_at(words, keys, meta, shape, e, base, t + shape[row + WAIT])
        return
    keys[base + STARTS + PLACE * e + SEEN] = t
    if shape[row + SILENT] == 0:
        take(words, keys, meta, shape, node, e, base)


@bare
def _both(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Whether the other operand of an `and` lets a match go on."""
    partner = shape[ELEMENTS + ELEMENT * e + PARTNER]
    row = ELEMENTS + ELEMENT * partner
    count = words[node + shape[AT_COUNTS] + partner]
    if shape[row + KIND] != AWAY or shape[row + WAIT] >= 0:
        return count != 0
    if shape[row + EVERY] < 0:
        return count == 0
    seen = base + STARTS + PLACE * partner + SEEN
    if keys[seen] > 0:
        keys[seen] = 0
        if shape[row + START] >= 0:
            _begin_at(words, keys, meta, shape, words[node + KEY], partner, base)
        return False
    return True


@bare
def is_late(words, shape, node, now):  # type: ignore[no-untyped-def]
    late = False
    for s in range(shape[FIRSTS] if shape[WITHIN] >= 0 else 0):
        first = words[node + FIRST + s]
        late = late or (first != NOTHING and abs(first - now) > shape[WITHIN])
    return late


@bare
def expire(words, keys, meta, shape, base, now, dropped):  # type: ignore[no-untyped-def]
    """Drop the matches that ran out of `within`: of the pending ones up to the first that did not, of the new ones all; -> whether there were some.

    Each scope in which some did starts again with a copy of the last one. `dropped` tells which output rows of this chunk are of such matches.
    """
    any_late = False
    for n in range(shape[SIZE]):
        e = shape[ELEMENTS + ELEMENT * n + AGING]
        if e >= 0 and (keys[base + WAITS] >> e) & 1 != 0:
            any_late = _expire_at(words, keys, meta, shape, e, base, now, dropped) or any_late
    return any_late


@bare
def _expire_at(words, keys, meta, shape, e, base, now, dropped):  # type: ignore[no-untyped-def]
    at, own = base + STARTS + PLACE * e, shape[AT_LINKS] + LINKS * e
    first_new = keys[at + FRESH]
    ordered = keys[at + TOP] <= now + shape[WITHIN]
    pending, found, last = True, False, 0
    node = keys[at + HEAD]
    while node != 0:
        pending = pending and node != first_new
        after = words[node + own + NEXT]
        if is_late(words, shape, node, now):
            found = True
            gone = node
            if words[node + EXPIRED] == 0:  # it may wait at several elements
                words[node + EXPIRED] = 1
                if words[node + SHOWN] != 0:
                    dropped[words[node + SHOWN] - 1] = True
                gone, last = last, node  # the last one is still to be copied
            if gone != 0:
                take(words, keys, meta, shape, gone, e, base)
        elif pending:
            after = first_new
        elif ordered:
            break
        node = after
    if last != 0:
        end_last(words, keys, meta, shape, last, e, base)
    return found


@bare
def end_last(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Take the last one of the matches at an element that are late; the scope starts again with a copy of it."""
    scope = shape[ELEMENTS + ELEMENT * e + SCOPE]
    if scope >= 0:
        rearm(words, keys, meta, shape, node, scope, base)
    take(words, keys, meta, shape, node, e, base)
    if scope >= 0:
        settle_scope(words, keys, meta, shape, scope, base)


@bare
def settle_scope(words, keys, meta, shape, scope, base):  # type: ignore[no-untyped-def]
    """New matches at the beginning of a scope become pending."""
    settle(words, keys, meta, shape, scope, base)
    partner = shape[ELEMENTS + ELEMENT * scope + PARTNER]
    if partner >= 0:
        settle(words, keys, meta, shape, partner, base)
