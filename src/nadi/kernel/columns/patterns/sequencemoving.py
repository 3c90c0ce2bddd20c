"""How partial matches of a sequence go on that has logical or absent elements: the rules of `nadi.kernel.rows.patterns` for sequences over flat arrays.

As on rows an element has two places: new matches wait at the place of its slot, pending ones behind those of all elements. Before each event of a key, of
whatever stream, pending matches are broken off, and new ones become pending.
"""

from __future__ import annotations

from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.patterns.moving import is_late, is_off, rearm
from nadi.kernel.columns.patterns.partials import (
    ABSENT,
    AGING,
    AT_COUNTS,
    AT_LINKS,
    AT_SEEN,
    AWAY,
    BEGUN,
    EITHER,
    ELEMENT,
    ELEMENTS,
    EVERY,
    EXPIRED,
    FIRST,
    FOLLOWING,
    HEAD,
    KEY,
    KIND,
    LAST,
    LINKS,
    LOGICAL,
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
    START,
    STARTS,
    TAIL,
    TS,
    WAIT,
    WAITS,
    WHERE,
    changed,
    fresh,
    put,
    released,
    settle,
    take,
)
from nadi.kernel.columns.patterns.waking import wake, wake_at

HELD = SEEN
"""Of the place of pending matches: how many there are."""
STARTED = 2
"""In the word `BEGUN`: the bit of the element in slot 0, which is set when it has had its first match. Only elements without `every` have it."""


# ---- places


@bare
def leave(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """A match is no longer pending at an element, if it was."""
    place = shape[SIZE] // 2 + e
    if (words[node + WHERE] >> place) & 1 != 0:
        keys[base + STARTS + PLACE * place + HELD] -= 1
        take(words, keys, meta, shape, node, place, base)


@bare
def _cleared(words, keys, meta, shape, place, base):  # type: ignore[no-untyped-def]
    """All matches leave a place."""
    at = base + STARTS + PLACE * place
    while keys[at + HEAD] != 0:
        take(words, keys, meta, shape, keys[at + HEAD], place, base)


@bare
def broken_off(words, keys, meta, shape, e, base):  # type: ignore[no-untyped-def]
    """No match is pending at an element any more."""
    place = shape[SIZE] // 2 + e
    _cleared(words, keys, meta, shape, place, base)
    keys[base + STARTS + PLACE * place + HELD] = 0


@bare
def advanced(words, keys, meta, shape, e, base):  # type: ignore[no-untyped-def]
    """New matches of an element become pending, in the order of their times. One that is pending already keeps its place."""
    at, place = base + STARTS + PLACE * e, shape[SIZE] // 2 + e
    if keys[at + HEAD] != keys[at + TAIL]:
        settle(words, keys, meta, shape, e, base)
    while keys[at + HEAD] != 0:
        node = keys[at + HEAD]
        if (words[node + WHERE] >> place) & 1 == 0:
            put(words, keys, meta, shape, node, place, base)
            keys[base + STARTS + PLACE * place + HELD] += 1
        take(words, keys, meta, shape, node, e, base)


@bare
def advanced_both(words, keys, meta, shape, e, base):  # type: ignore[no-untyped-def]
    """The same at both operands of a logical element."""
    advanced(words, keys, meta, shape, e, base)
    partner = shape[ELEMENTS + ELEMENT * e + PARTNER]
    if partner >= 0:
        advanced(words, keys, meta, shape, partner, base)


# ---- matches on their way


@bare
def _admitted(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Put a match among the new ones of an element, which takes one per round."""
    if keys[base + STARTS + PLACE * e + HEAD] == 0:
        put(words, keys, meta, shape, node, e, base)


@bare
def _enter_both(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    row = ELEMENTS + ELEMENT * e
    if is_off(keys, shape, e, base):
        return
    for one in (e, shape[row + PARTNER]):
        _admitted(words, keys, meta, shape, node, one, base)
    for one in (e, shape[row + PARTNER]):
        wait = shape[ELEMENTS + ELEMENT * one + WAIT]
        if shape[row + START] < 0 and wait >= 0:
            wake(words, keys, meta, shape, one, base, words[node + TS] + wait)


@bare
def _enter_absent(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    row = ELEMENTS + ELEMENT * e
    if is_off(keys, shape, e, base):
        return
    _cleared(words, keys, meta, shape, e, base)
    put(words, keys, meta, shape, node, e, base)
    if shape[row + START] < 0:
        wake_at(words, keys, meta, shape, e, base, words[node + TS] + shape[row + WAIT])


@bare
def enter(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """A match arrives at an element. One that needs no event passes it on at once."""
    here = e
    while True:
        row = ELEMENTS + ELEMENT * here
        if shape[row + KIND] == ABSENT:
            _enter_absent(words, keys, meta, shape, node, here, base)
            break
        if shape[row + KIND] == LOGICAL or shape[row + KIND] == AWAY:
            _enter_both(words, keys, meta, shape, node, here, base)
            break
        _admitted(words, keys, meta, shape, node, here, base)
        if shape[row + KIND] == ONE or shape[row + MINIMUM] > 0 or words[node + shape[AT_COUNTS] + here] != 0:
            break
        here = shape[row + FOLLOWING]  # there is one: the last element is not counted


@bare
def go_on(words, keys, meta, shape, node, e, base, lost):  # type: ignore[no-untyped-def]
    """An element is done with a match; -> whether that is complete."""
    row = ELEMENTS + ELEMENT * e
    if shape[row + FOLLOWING] >= 0:
        enter(words, keys, meta, shape, node, shape[row + FOLLOWING], base)
    if shape[row + EVERY] >= 0:
        rearm(words, keys, meta, shape, node, shape[row + EVERY], base)
    return shape[row + LAST] != 0 and not lost


@bare
def begin(words, keys, meta, shape, key, base):  # type: ignore[no-untyped-def]
    """A key starts: there is a match that has bound nothing, and the waits of first elements begin."""
    keys[base + BEGUN] |= 1
    for e in range(shape[SIZE] // 2):
        _begin_at(words, keys, meta, shape, key, e, base)
    for e in range(shape[SIZE] // 2):
        row = ELEMENTS + ELEMENT * e
        if shape[row + START] >= 0 and shape[row + WAIT] >= 0:
            if shape[row + KIND] == ABSENT:
                wake_at(words, keys, meta, shape, e, base, meta[NOW] + shape[row + WAIT])
            else:
                wake(words, keys, meta, shape, e, base, meta[NOW] + shape[row + WAIT])


@bare
def _begin_at(words, keys, meta, shape, key, e, base):  # type: ignore[no-untyped-def]
    """Give a first element a match that has bound nothing, if it may start (again)."""
    row = ELEMENTS + ELEMENT * e
    if shape[row + START] < 0:
        return
    following, started = shape[row + FOLLOWING], STARTED << e
    kind = shape[ELEMENTS + ELEMENT * following + KIND] if following >= 0 else ONE
    again = shape[row + EVERY] >= 0 or kind in (AWAY, ABSENT)
    if not again and keys[base + BEGUN] & started != 0:
        return
    node = fresh(words, meta, shape, key)
    enter(words, keys, meta, shape, node, e, base)
    if words[node + WHERE] == 0:  # another one waits there
        released(words, meta, node)
    if shape[row + EVERY] < 0:
        keys[base + BEGUN] |= started


# ---- an event


@bare
def ready(words, keys, meta, shape, key, base):  # type: ignore[no-untyped-def]
    """Before an event, from the last element to the first: what is pending is broken off; then what is new becomes pending."""
    behind = ELEMENTS + ELEMENT * shape[SIZE]
    units = shape[len(shape) - 1]
    for n in range(units - 1, -1, -1):
        reset(words, keys, meta, shape, key, shape[behind + n], base)
    for n in range(units):
        advanced_both(words, keys, meta, shape, shape[behind + n], base)


@bare
def reset(words, keys, meta, shape, key, e, base):  # type: ignore[no-untyped-def]
    """What is pending is broken off, but a half-complete `and`. A first element may start again."""
    row, half = ELEMENTS + ELEMENT * e, shape[SIZE] // 2
    partner, following = shape[row + PARTNER], shape[row + FOLLOWING]
    if partner >= 0:
        held = base + STARTS + HELD + PLACE * half
        if shape[row + EITHER] == 0 and keys[held + PLACE * e] != keys[held + PLACE * partner]:
            return
        broken_off(words, keys, meta, shape, partner, base)
    broken_off(words, keys, meta, shape, e, base)
    if shape[row + START] < 0 or (shape[row + KIND] != ABSENT and keys[base + STARTS + PLACE * e + HEAD] != 0):
        return
    if shape[row + EVERY] >= 0 or following < 0 or keys[base + STARTS + PLACE * (half + following) + HEAD] == 0:
        _begin_at(words, keys, meta, shape, key, e, base)


@bare
def bound(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """A match has bound an event at an element (what it keeps of it is written); -> whether it is complete."""
    kind = shape[ELEMENTS + ELEMENT * e + KIND]
    if kind == ABSENT:
        _discarded(words, keys, meta, shape, node, e, base, t)
        return False
    if kind == AWAY:
        _came(words, keys, meta, shape, node, e, base, t)
        return False
    if kind == MANY:
        _collected(words, keys, meta, shape, node, e, base, t)
        return False
    row = ELEMENTS + ELEMENT * e
    _kept(words, meta, shape, node, e, t)
    done = False
    lost = shape[row + SILENT] != 0 and shape[row + EITHER] == 0
    if kind == ONE or shape[row + EITHER] != 0 or _both(words, keys, meta, shape, node, e, base):
        words[node + TS] = t
        done = go_on(words, keys, meta, shape, node, e, base, lost)
    leave(words, keys, meta, shape, node, e, base)
    return done


@bare
def _kept(words, meta, shape, node, e, t):  # type: ignore[no-untyped-def]
    """An element has bound one event."""
    start = shape[ELEMENTS + ELEMENT * e + START]
    if start >= 0:
        words[node + FIRST + start] = t
    words[node + shape[AT_COUNTS] + e] = 1
    changed(words, meta, node)


@bare
def _collected(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """A counted element has bound one more event."""
    row, counts = ELEMENTS + ELEMENT * e, node + shape[AT_COUNTS]
    start = shape[row + START]
    if start >= 0 and words[node + FIRST + start] == NOTHING:
        words[node + FIRST + start] = t
    words[counts + e] += 1
    words[node + TS] = t
    changed(words, meta, node)
    count = words[counts + e]
    if count >= shape[row + MINIMUM]:
        enter(words, keys, meta, shape, node, shape[row + FOLLOWING], base)
        if count != shape[row + MAXIMUM]:
            _admitted(words, keys, meta, shape, node, e, base)
    if count == shape[row + MAXIMUM]:
        leave(words, keys, meta, shape, node, e, base)


@bare
def _discarded(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """What should stay away for some time came: a match no longer waits for that; a first element waits anew."""
    row = ELEMENTS + ELEMENT * e
    words[node + TS] = t
    words[node + shape[AT_COUNTS] + e] = 1  # a counted element at which it waits, too, sees that it is gone
    changed(words, meta, node)
    if shape[row + START] >= 0 and shape[row + EVERY] == e:
        rearm(words, keys, meta, shape, node, e, base)
    leave(words, keys, meta, shape, node, e, base)
    wake_at(words, keys, meta, shape, e, base, t + shape[row + WAIT])


@bare
def _came(words, keys, meta, shape, node, e, base, t):  # type: ignore[no-untyped-def]
    """What should stay away came, as an operand. Without a waiting time the match remembers it, but under `every` and `and`."""
    row = ELEMENTS + ELEMENT * e
    keys[base + STARTS + PLACE * e + SEEN] = t
    if shape[row + WAIT] < 0 and (shape[row + EITHER] != 0 or shape[row + EVERY] < 0):
        _kept(words, meta, shape, node, e, t)
        words[node + shape[AT_SEEN] + e] = t
    if shape[row + SILENT] == 0:
        partner = shape[row + PARTNER]
        leave(words, keys, meta, shape, node, e, base)
        leave(words, keys, meta, shape, node, partner, base)


@bare
def _both(words, keys, meta, shape, node, e, base):  # type: ignore[no-untyped-def]
    """Whether the other operand of an `and` lets a match go on."""
    partner = shape[ELEMENTS + ELEMENT * e + PARTNER]
    row = ELEMENTS + ELEMENT * partner
    count = words[node + shape[AT_COUNTS] + partner]
    if shape[row + KIND] != AWAY:
        return count != 0
    seen = base + STARTS + PLACE * partner + SEEN
    if shape[row + EVERY] < 0 and keys[seen] > 0:
        return False
    if shape[row + WAIT] >= 0:
        return count != 0
    if shape[row + EVERY] < 0:
        return count == 0
    if keys[seen] > 0:
        keys[seen] = 0
        _begin_at(words, keys, meta, shape, words[node + KEY], partner, base)
        return False
    return True


# ---- within


@bare
def expire(words, keys, meta, shape, base, now, dropped):  # type: ignore[no-untyped-def]
    """Drop the matches that ran out of `within`: of the pending ones up to the first that did not, of the new ones all; -> whether there were some.

    Each scope in which some did starts again with a copy of the last one. `dropped` tells which output rows of this chunk are of such matches.
    """
    half, any_late = shape[SIZE] // 2, False
    for n in range(half):
        e = shape[ELEMENTS + ELEMENT * n + AGING]
        if e >= 0 and ((keys[base + WAITS] >> e) | (keys[base + WAITS] >> (half + e))) & 1 != 0:
            any_late = _expire_at(words, keys, meta, shape, e, base, now, dropped) or any_late
    return any_late


@bare
def _expire_at(words, keys, meta, shape, e, base, now, dropped):  # type: ignore[no-untyped-def]
    half, scope = shape[SIZE] // 2, shape[ELEMENTS + ELEMENT * e + SCOPE]
    found, last = False, 0
    for place in (half + e, e):
        node = keys[base + STARTS + PLACE * place + HEAD]
        while node != 0:
            if is_late(words, shape, node, now):
                found = True
                if words[node + EXPIRED] == 0:  # it may wait at several elements
                    words[node + EXPIRED] = 1
                    if words[node + SHOWN] != 0:
                        dropped[words[node + SHOWN] - 1] = True
                    last = node
            elif place != e:
                break
            node = words[node + shape[AT_LINKS] + LINKS * place + NEXT]
    if not found:
        return False
    if last != 0 and scope >= 0:
        rearm(words, keys, meta, shape, last, scope, base)  # the copy has bound nothing, so that it stays
    for place in (half + e, e):
        node = keys[base + STARTS + PLACE * place + HEAD]
        while node != 0:
            following = words[node + shape[AT_LINKS] + LINKS * place + NEXT]
            if is_late(words, shape, node, now):
                if place == e:
                    take(words, keys, meta, shape, node, e, base)
                else:
                    leave(words, keys, meta, shape, node, e, base)
            elif place != e:
                break
            node = following
    if last != 0 and scope >= 0:
        advanced_both(words, keys, meta, shape, scope, base)
    return True
