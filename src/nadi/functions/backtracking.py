"""Patterns that may try exponentially many ways to match a text: a word of 40 letters would keep `(\\w+)*!` busy for hours.

Python's `re` goes back and tries the next way where a text does not fit. The ways double with every character where a repetition can match the same text in two
ways and come back to where it was (exponential degree of ambiguity). That is a property of the pattern alone, so it is decided before any text is seen, and
the same everywhere: no clock, no count of steps.

The pattern becomes an automaton of its places (Glushkov); what may follow what is counted, so that `(a*)*` has two ways from `a` to `a`. Two walks side by
side over equal characters that begin at one place, part, and meet there again are the proof. Kept simple: a count above 3 stands for 3 (above 20: for any
number), what is possessive or atomic is one place that goes back nowhere, and a loop of more than 60 places is not looked at. Times that grow with a power of
the length (`\\s+$` in a text of spaces) are not found: the length of a message bounds them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from re import _constants as op  # CPython has parser and constants in these since 3.11
from re import _parser as parser
from typing import Any, TypeVar

N = TypeVar("N")

DOUBLES = (
    "it may take a time that doubles with every character of a text: something in a repetition can match the same characters in two ways; make the inner "
    "one possessive ('(a++)+'), or write what stands between two of them ('(a+,)+')"
)
TOO_MANY = "too many places of it may follow each other: it has too many optional parts behind each other, or too many alternatives in a repetition"
MOST_WAYS = 300_000  # from one place to the next, over the whole pattern: a pattern may come with an event
LARGEST_LOOP = 60  # places; the pairs of them are looked at
FEW, MANY = 3, 20
_SAMPLES = "\t\n\x0b\r !\"#'(),-./0123456789:;<=>@AFZ[\\]_`afz{|}~\x85\xa0éÉß\u0663\u2028\u4e2d\U0001f600"
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


class TooManyWays(ValueError):
    """A pattern that is too large to be looked at, which is matched no faster."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a piece of a pattern can begin and end, a place as often as there are ways to it; in how many ways it can match nothing (2: or more)."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    empty: int = 1


@dataclass(slots=True)
class _Automaton:
    """Places with the characters of the alphabet that they take, how often one follows another, and pieces that are matched by themselves."""

    alphabet: str
    takes: list[frozenset[str]] = field(default_factory=list)
    follows: Counter[tuple[int, int]] = field(default_factory=Counter)
    apart: list[tuple[Any, int]] = field(default_factory=list)
    ways: int = 0

    # ---- building

    def sequence(self, items: Iterable[Any], flags: int) -> _Part:
        made = _Part()
        for item in items:
            made = self._then(made, self._item(item, flags))
        return made

    def _then(self, one: _Part, other: _Part) -> _Part:
        self._follow(one, other)
        first = one.first + other.first * one.empty
        last = other.last + one.last * other.empty
        self._count(len(first) * (one.empty > 0) + len(last) * (other.empty > 0))
        return _Part(first, last, min(2, one.empty * other.empty))

    def _follow(self, one: _Part, other: _Part) -> None:
        """Any end of one may be followed by any beginning of the other."""
        self._count(len(one.last) * len(other.first))
        for a in one.last:
            for b in other.first:
                self.follows[a, b] += 1

    def _count(self, more: int) -> None:
        self.ways += more
        if self.ways > MOST_WAYS:
            raise TooManyWays(TOO_MANY)

    def _item(self, item: Any, flags: int) -> _Part:
        code, value = item
        match code:
            case op.BRANCH:
                parts = [self.sequence(branch, flags) for branch in value[1]]
                return _Part(
                    tuple(p for part in parts for p in part.first),
                    tuple(p for part in parts for p in part.last),
                    min(2, sum(part.empty for part in parts)),
                )
            case op.SUBPATTERN:
                _, added, removed, inner = value
                return self.sequence(inner, (flags | added) & ~removed)
            case op.MAX_REPEAT | op.MIN_REPEAT:
                least, most, inner = value
                return self._repeat(int(least), int(most), inner, flags)
            case op.POSSESSIVE_REPEAT:
                self.apart.append((value[2], flags))
                return self._leaf(frozenset(), empty=int(value[0] == 0))
            case op.ATOMIC_GROUP:
                self.apart.append((value, flags))
                return self._leaf(frozenset())
            case op.ASSERT | op.ASSERT_NOT:
                self.apart.append((value[1], flags))
                return _Part()
            case op.AT:
                return _Part()
            case op.GROUPREF_EXISTS:
                yes, no = self.sequence(value[1], flags), self.sequence(value[2] or (), flags)
                return _Part(yes.first + no.first, yes.last + no.last, min(2, yes.empty + no.empty))
            case op.GROUPREF:
                return self._leaf(frozenset(self.alphabet))
            case _:
                return self._leaf(taken(item, self.alphabet, flags))

    def _leaf(self, takes: frozenset[str], empty: int = 0) -> _Part:
        self.takes.append(takes)
        place = (len(self.takes) - 1,)
        return _Part(place, place, empty)

    def _repeat(self, least: int, most: int, inner: Any, flags: int) -> _Part:
        made = _Part()
        copies = max(1, min(least, FEW)) if most > MANY else min(most, FEW)
        for i in range(copies):
            part = self.sequence(inner, flags)
            made = self._then(made, _Part(part.first, part.last, min(2, part.empty + (i >= least))))
        if most > MANY:
            self._follow(part, part)
            if part.empty:  # after the last one, one more that matches nothing
                return _Part(made.first, made.last * 2, 2)
        return made

    # ---- looking

    def doubles(self) -> bool:
        after: dict[int, list[int]] = {}
        for a, b in self.follows:
            after.setdefault(a, []).append(b)
        for loop in _components(range(len(self.takes)), lambda p: after.get(p, ())):
            within = set(loop)
            if len(loop) <= LARGEST_LOOP and self._loop_doubles(
                within, {p: within.intersection(after.get(p, ())) for p in loop}
            ):
                return True
        return False

    def _loop_doubles(self, loop: set[int], after: dict[int, set[int]]) -> bool:
        if any(self.follows[a, b] > 1 and self.takes[b] for a in loop for b in after[a]):
            return True

        def both(pair: tuple[int, int]) -> list[tuple[int, int]]:
            return [(p, q) for p in after[pair[0]] for q in after[pair[1]] if self.takes[p] & self.takes[q]]

        for together in _components(((p, p) for p in sorted(loop)), both):
            same = sum(p == q for p, q in together)
            if 0 < same < len(together):
                return True
        return False


def doubling(pattern: str, flags: int = 0) -> bool:
    """Whether matching may take a time that doubles with every character. `pattern` and `flags` are Python's, and right. Errors: TooManyWays.

    >>> [doubling(p) for p in ("(a+)+b", "(a|ab|b)*c", "([a-z]+,?)*$", "(a*)*")]
    [True, True, True, True]
    >>> [doubling(p) for p in ("a+b", "(a|b)*c", "([a-z]+,)*$", "(a++)+b", "([0-9]{1,3}[.]){3}[0-9]{1,3}")]
    [False, False, False, False, False]
    """
    tree = parser.parse(pattern, flags)
    alphabet = "".join(sorted({*_SAMPLES, *_borders(tree)}))
    waiting: list[tuple[Any, int]] = [(tree, tree.state.flags)]
    while waiting:
        inner, own = waiting.pop()
        made = _Automaton(alphabet)
        made.sequence(inner, own)
        if made.doubles():
            return True
        waiting += made.apart
    return False


def _borders(tree: Any) -> set[str]:
    """The characters at which the classes of a pattern begin and end, and those beside them."""
    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, tuple) and len(value) == 2 and value[0] in (op.LITERAL, op.NOT_LITERAL):
            found.update(range(value[1] - 1, value[1] + 2))
        elif isinstance(value, tuple) and len(value) == 2 and value[0] is op.RANGE:
            for end in value[1]:
                found.update(range(end - 1, end + 2))
        elif isinstance(value, tuple | list | parser.SubPattern):
            for inner in value:
                look(inner)

    look(tree)
    return {chr(n) for n in found if 0 <= n < 0x110000}


def taken(item: Any, alphabet: str, flags: int) -> frozenset[str]:
    """Those of some characters, which are in order, that a single place of a pattern takes."""
    code, value = item
    if code is op.NOT_LITERAL:
        return frozenset(alphabet) - taken((op.LITERAL, value), alphabet, flags)
    if code is op.IN and value[0][0] is op.NEGATE:
        return frozenset(alphabet) - taken((op.IN, value[1:]), alphabet, flags)
    if flags & re.IGNORECASE and code in (op.IN, op.LITERAL, op.RANGE):
        cases = {c: {c, c.lower()[:1], c.upper()[:1]} for c in alphabet}
        exactly = taken(item, "".join(sorted(set().union(*cases.values()))), flags & ~re.IGNORECASE)
        return frozenset(c for c, written in cases.items() if not exactly.isdisjoint(written))
    match code:
        case op.LITERAL:
            return _between(alphabet, value, value)
        case op.ANY:
            return frozenset(alphabet) - (frozenset() if flags & re.DOTALL else frozenset("\n"))
        case op.RANGE:
            return _between(alphabet, *value)
        case op.CATEGORY:
            is_in = re.compile(_CATEGORIES[value], flags & (re.ASCII | re.UNICODE)).match
            return frozenset(filter(is_in, alphabet))
        case op.IN:
            return frozenset().union(*(taken(one, alphabet, flags) for one in value))
    return frozenset(alphabet)


def _between(alphabet: str, first: int, last: int) -> frozenset[str]:
    return frozenset(alphabet[bisect_left(alphabet, chr(first)) : bisect_right(alphabet, chr(last))])


def _components(nodes: Iterable[N], after: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """The strongly connected components that are reached from some nodes and have an edge inside (Tarjan's algorithm, without recursion)."""
    found: list[list[N]] = []
    number: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    for root in nodes:
        if root in number:
            continue
        work = [(root, iter(after(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            other = next(rest, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = [stack.pop()]
                    while component[-1] != node:  # from its end: a long pattern has a stack as long
                        component.append(stack.pop())
                    component.reverse()
                    on_stack.difference_update(component)
                    if len(component) > 1 or node in after(node):
                        found.append(component)
            elif other not in number:
                number[other] = low[other] = len(number)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter(after(other))))
            elif other in on_stack:
                low[node] = min(low[node], number[other])
    return found
