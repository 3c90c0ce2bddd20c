"""Patterns whose time is bounded by a count of steps: what an event brings decides neither how long its app works, nor on another machine something else.

A `Pattern` has three engines that give the same, and takes one by the pattern and the length of the text alone:

1. Python's `re`, where its steps are surely few (`nadi.functions.patternbounds`): quick with short texts, and with simple patterns at any length;
2. RE2, which takes linear time, where the pattern means the same there (`nadi.functions.linearpatterns`);
3. our own, which counts its steps and gives up when they are too many (`nadi.functions.countedpatterns`).

All matches are found as `java.util.regex.Matcher.find` does: after a match of no width the next begins a character later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from re import _parser as parser

from nadi.errors import NadiError, error
from nadi.functions import countedpatterns as own
from nadi.functions.countedpatterns import Allowance, Counted, StepsExceeded
from nadi.functions.linearpatterns import Encoded, Linear, Spans, linear
from nadi.functions.patternbounds import Bounds, bounds

QUICK_BESIDE_LINEAR = 100_000  # steps of `re`, some 10 ns each, where RE2 could be asked
QUICK = 1_000_000  # where it could not
MOST_STEPS = 500_000  # of our own engine, for one call of a function
SHOWN = 200  # characters of a pattern in an error
MOST_LINEAR = 1_000_000_000  # characters that RE2 looks at, times instructions, for one call of a function


@dataclass(frozen=True, slots=True)
class Found:
    """A match: groups by number, 0 is all of it; None for one that took no part."""

    text: str
    spans: Spans

    def start(self) -> int:
        return self.spans[0][0]

    def end(self) -> int:
        return self.spans[0][1]

    def __getitem__(self, group: int) -> str | None:
        first, last = self.spans[group]
        return None if first < 0 else self.text[first:last]


class Pattern:
    """A pattern of Python's `re` with bounded steps.

    >>> Pattern(".*foo.*bar.*baz").fullmatch("foo" * 7000 + "bar" * 7000) is None
    True
    >>> [found[0] for found in Pattern("a|(?=b)").finditer("aab")]
    ['a', 'a', '']

    `shown` is what errors call it. Each method raises PATTERN_STEPS where the steps are too many.
    """

    def __init__(self, text: str, flags: int = 0, shown: str = "") -> None:
        self._quick = re.compile(text, flags)
        self.text = text
        self._flags = flags
        self._shown = shown or text
        self.groups = self._quick.groups
        self.groupindex = self._quick.groupindex

    @cached_property
    def _tree(self) -> parser.SubPattern:
        return parser.parse(self.text, self._flags)

    @cached_property
    def _linear(self) -> Linear | None:
        return linear(self._tree)

    @cached_property
    def _counted(self) -> Counted:
        return own.counted(self._tree)

    @cached_property
    def _bounds(self) -> Bounds:
        return bounds(self._tree, QUICK if self._linear is None else QUICK_BESIDE_LINEAR)

    def fullmatch(self, text: str) -> Found | re.Match[str] | None:
        """The match of a whole text."""
        if len(text) <= self._bounds.whole:
            return self._quick.fullmatch(text)
        if (engine := self._linear_for(text)) is not None:
            return _found(text, engine.fullmatch(Encoded(text)))
        return _found(text, self._begins(text, True))

    def match(self, text: str) -> Found | re.Match[str] | None:
        """The match of a text's beginning."""
        if len(text) <= self._bounds.beginning:
            return self._quick.match(text)
        if (engine := self._linear_for(text)) is not None:
            return _found(text, engine.match(Encoded(text)))
        return _found(text, self._begins(text, False))

    def search(self, text: str, at: int = 0) -> Found | re.Match[str] | None:
        """The first match at or behind a character."""
        if len(text) <= self._bounds.all:
            return self._quick.search(text, at)
        if (engine := self._linear_for(text)) is not None:
            return _found(text, engine.search(Encoded(text), at))
        return _found(text, self._next(text, at, Allowance(MOST_STEPS)))

    def finditer(self, text: str) -> Iterator[Found | re.Match[str]]:
        """All matches, one behind the other."""
        if len(text) <= self._bounds.all:
            at = 0
            while at <= len(text) and (found := self._quick.search(text, at)) is not None:
                yield found
                at = found.end() + (found.end() == found.start())
            return
        for spans in self._spans(text):
            yield Found(text, spans)

    def _spans(self, text: str) -> Iterator[Spans]:
        """RE2 may look at the rest of the text for each match: where that becomes too much, steps are counted from there on."""
        engine = self._linear_for(text)
        encoded = Encoded(text if engine else "")
        scanned = MOST_LINEAR // engine.part.programsize if engine else 0
        allowance = Allowance(MOST_STEPS)
        at = 0
        while at <= len(text):
            scanned -= len(text) - at
            engine = engine if scanned >= 0 else None
            spans = self._next(text, at, allowance) if engine is None else engine.search(encoded, at)
            if spans is None:
                return
            yield spans
            first, last = spans[0]
            at = last + (first == last)

    def _begins(self, text: str, whole: bool) -> Spans | None:
        try:
            return own.match(self._counted, text, 0, Allowance(MOST_STEPS), whole)
        except StepsExceeded as reason:
            raise self._too_many(text) from reason

    def _next(self, text: str, at: int, allowance: Allowance) -> Spans | None:
        try:
            return own.search(self._counted, text, at, allowance)
        except StepsExceeded as reason:
            raise self._too_many(text) from reason

    def _too_many(self, text: str) -> NadiError:
        return error("PATTERN_STEPS", pattern=self._shown[:SHOWN], length=len(text), most=MOST_STEPS)

    def _linear_for(self, text: str) -> Linear | None:
        found = self._linear
        if found is None or len(text) * found.part.programsize > MOST_LINEAR or not found.takes(text):
            return None
        return found


def _found(text: str, spans: Spans | None) -> Found | None:
    return None if spans is None else Found(text, spans)
