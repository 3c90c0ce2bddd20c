"""Tokens of SiddhiQL, its keywords and its units of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nadi.errors import Span

Kind = Literal["name", "quoted", "int", "long", "float", "double", "string", "operator", "script", "end"]

_KEYWORDS = """
    stream define function trigger table app from partition window select group by order limit offset asc desc having
    insert delete update set return events into output expired current snapshot for of as at or and in on is not within
    with begin end null every last all first join inner outer right left full unidirectional false true string int long
    float double bool object aggregation aggregate per
    """
KEYWORDS = frozenset(_KEYWORDS.split())
"""Every keyword but the units of time. Any of them may also be a name."""

UNITS = {
    spelling: unit
    for unit, spellings in {
        "year": "year years",
        "month": "month months",
        "week": "week weeks",
        "day": "day days",
        "hour": "hour hours",
        "min": "min minute minutes",
        "sec": "sec second seconds",
        "millisec": "millisec millisecond milliseconds",
    }.items()
    for spelling in spellings.split()
}
"""Every spelling of a unit of time, and the unit's name in the tree."""

UNIT_MILLISECONDS = {
    "year": 365 * 86_400_000,
    "month": 30 * 86_400_000,
    "week": 7 * 86_400_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "min": 60_000,
    "sec": 1_000,
    "millisec": 1,
}
"""The units in descending order, with their lengths in ms."""

_QUOTED_AS_NAMES = """
    from select insert delete update set return define partition begin end every not and or in is as on of by at within
    with per having group order limit offset output into for join inner outer left right full unidirectional aggregate
    true false null
    """
QUOTED_AS_NAMES = frozenset(_QUOTED_AS_NAMES.split())
"""Keywords that the printer puts between back quotes where they are names, because the grammar could read on with them."""


@dataclass(slots=True)
class Token:
    """One token.

    `word` is what the parser compares with: the lower-case text of an unquoted name, the text of an operator, else "". `value` is
    the text without quotes and escapes.
    """

    kind: Kind
    word: str
    text: str
    value: str
    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def span(self) -> Span:
        """Where the token is."""
        return Span(self.start, self.end, self.line, self.column, self.end_line, self.end_column)

    @property
    def is_name(self) -> bool:
        """Whether the token can be a name; keywords can."""
        return self.kind in ("name", "quoted")

    @property
    def shown(self) -> str:
        """The token as an error message shows it."""
        if self.kind == "end":
            return "the end of the text"
        if self.kind == "script":
            return "'{'"
        text = self.text if len(self.text) <= 40 else self.text[:37] + "…"
        return text if self.kind == "string" else f"'{text}'"
