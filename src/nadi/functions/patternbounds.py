"""How many steps Python's `re` takes at most for a pattern and a text of a length, told from the pattern alone.

`re` goes back and tries the next way where a text does not fit, and cannot be stopped or counted. So what it may take is bounded before it is asked: each
item of a pattern has a cost and a number of ways in which it lets the rest be tried; the costs of what follows are multiplied by the ways so far. The bound
is high where a pattern is better than it looks (`(a|b)*` counts as if both fitted). A bound that is too high costs speed, as another engine is asked then;
one that is too low would cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from re import _constants as op  # CPython has parser and constants in these since 3.11
from typing import Any

ENDLESS = 1e18
LONGEST = 1 << 30
STEPS_PER_CHARACTER = 64  # a pattern that takes no more than so many is linear
SINGLE = frozenset({op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN})
REPEATS = frozenset({op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The greatest lengths of texts for which a number of steps is enough: to match a whole text, to match its beginning, to find all matches."""

    whole: int
    beginning: int
    all: int


def bounds(tree: Any, steps: int) -> Bounds:
    """The lengths for a pattern, as `re._parser` gives it.

    >>> from re import _parser
    >>> bounds(_parser.parse("a*b"), 10_000).all, bounds(_parser.parse("(a+)+b"), 10_000).whole, bounds(_parser.parse(",+"), 10_000).all == LONGEST
    (56, 3, True)
    """
    items = list(tree)
    begun = _without_last_run(items)
    return Bounds(
        _longest(lambda n: _sequence(items, n)[0], steps),
        _longest(lambda n: _sequence(begun, n)[0] + n, steps),
        _longest(lambda n: (n + 1) * _sequence(begun, n)[0] + n, steps),
    )


def _longest(cost: Callable[[int], float], steps: int) -> int:
    """The greatest length of which the cost is not above `steps`, -1 where there is none. Any length is right where it grows no faster."""
    if cost(LONGEST) <= STEPS_PER_CHARACTER * LONGEST:
        return LONGEST
    low, high = -1, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        if cost(middle) <= steps:
            low = middle
        else:
            high = middle - 1
    return low


def _without_last_run(items: list[Any]) -> list[Any]:
    """Where nothing follows a repeated character, nobody goes back into it: what it takes is counted once, as a part of the text. Its least number stays."""
    items = list(items)
    while items and items[-1][0] is op.SUBPATTERN and not (items[-1][1][1] or items[-1][1][2]):
        items[-1:] = [(op.AT, None), *items[-1][1][3]]
    if items and items[-1][0] in REPEATS and is_single(items[-1][1][2]):
        code, (least, _, inner) = items[-1]
        items[-1] = (code, (least, least, inner))
    return items


def is_single(inner: Any) -> bool:
    """Whether something is one character, without a group."""
    return len(inner) == 1 and inner[0][0] in SINGLE


def _sequence(items: Iterable[Any], n: int) -> tuple[float, float]:
    """The cost of a sequence, and in how many ways it can match."""
    cost, ways = 1.0, 1.0
    for item in items:
        more, times = _item(item, n)
        cost += ways * more
        ways *= times
    return min(cost + ways, ENDLESS), min(ways, ENDLESS)


def _item(item: Any, n: int) -> tuple[float, float]:
    code, value = item
    match code:
        case op.BRANCH:
            return _either((_sequence(branch, n) for branch in value[1]), 1.0)
        case op.SUBPATTERN:
            return _sequence(value[3], n)
        case op.MAX_REPEAT | op.MIN_REPEAT:
            return _repeat(value, n)
        case op.POSSESSIVE_REPEAT:
            return _repeat(value, n)[0], 1.0
        case op.ATOMIC_GROUP:
            return _sequence(value, n)[0], 1.0
        case op.ASSERT | op.ASSERT_NOT:
            return _sequence(value[1], n)[0], 1.0
        case op.GROUPREF:
            return n + 1.0, 1.0
        case op.GROUPREF_EXISTS:
            return _either((_sequence(branch or (), n) for branch in value[1:]), 1.0)
    return 1.0, 1.0


def _either(branches: Iterable[tuple[float, float]], cost: float) -> tuple[float, float]:
    ways = 0.0
    for more, times in branches:
        cost += more
        ways += times
    return min(cost, ENDLESS), min(ways, ENDLESS)


def _repeat(value: Any, n: int) -> tuple[float, float]:
    least, most, inner = int(value[0]), int(value[1]), value[2]
    if is_single(inner):
        taken = min(most, n)
        return taken + 1.0, max(1.0, taken - least + 1.0)
    times = min(most, n + least + 1)
    cost, ways = _sequence(inner, n)
    if ways <= 1:
        return min(times * (cost + 3.0), ENDLESS), times + 1.0
    total = last = 1.0
    for _ in range(min(times, 60)):  # 2 to the 60th are more than endless
        last = min(last * ways, ENDLESS)
        total += last
    if times > 60:
        total = ENDLESS
    return min(total * (cost + 3.0), ENDLESS), min(total, ENDLESS)
