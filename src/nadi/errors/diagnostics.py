"""Where in a text something is, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from nadi.errors.readable import readable
from nadi.errors.redaction import covered

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a text: character offsets [start, end) and the line and column (from 1) of both ends."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """From the start of this one to the end of the other."""
        return Span(self.start, other.end, self.line, self.column, other.end_line, other.end_column)


_WIDTH = 400
"""Characters of a line that are shown."""

_BESIDE = 2_000
"""Characters before and after those in which secrets are looked for, so that none is shown in part."""

NOWHERE = Span(0, 0, 0, 0, 0, 0)
"""The span of what was made, not read."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One condition that was met, and where. A `warning` keeps nothing from running.

    >>> d = Diagnostic("SYNTAX", "SiddhiParserException", "unexpected 'x'", "check the spelling")
    >>> print(d.render())
    [SYNTAX] unexpected 'x' (check the spelling)
    """

    condition: str
    siddhi_class: str
    message: str
    next_step: str = ""
    span: Span = NOWHERE
    source: str = ""  # the text, or as much of it as is needed to show the line
    file: str = ""
    warning: bool = False

    @property
    def excerpt(self) -> str:
        """The line in question with what is meant underlined; empty where there is no place."""
        if self.span == NOWHERE or not self.source:
            return ""
        text, column = self._line(), self.span.column
        last = self.span.end_column if self.span.end_line == self.span.line else len(text) + 1
        begin = max(0, column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
        left = max(0, begin - _BESIDE)
        near = covered(text[left : begin + _WIDTH + _BESIDE])
        shown = near[begin - left : begin - left + _WIDTH].replace("\t", " ")
        marks = "^" * max(1, min(last - column, _WIDTH - (column - 1 - begin)))
        before, after = ("…" if cut else "" for cut in (begin > 0, begin + _WIDTH < len(text)))
        return f"    {before}{shown}{after}\n    {' ' * (column - 1 - begin + len(before))}{marks}"

    def _line(self) -> str:
        """The line in which the span starts, without going through all lines of a long text."""
        source, start = self.source, self.span.start
        if source.count("\n", 0, start) == self.span.line - 1:
            end = source.find("\n", start)
            return source[source.rfind("\n", 0, start) + 1 : end if end >= 0 else None].rstrip("\r")
        lines = source.splitlines() or [""]  # of a part of the text
        return lines[min(self.span.line, len(lines)) - 1]

    def render(self) -> str:
        """The diagnostic as a person reads it: place, message, excerpt, what to do next."""
        place = readable(self.file)
        if self.span != NOWHERE:
            place += f"{':' if place else 'line '}{self.span.line}:{self.span.column}"
        head = f"{place}: " if place else ""
        tail = f" ({readable(self.next_step)})" if self.next_step else ""
        head += "warning: " if self.warning else ""
        excerpt = readable(self.excerpt, "\n")
        return f"{head}[{self.condition}] {readable(self.message)}{tail}" + (f"\n{excerpt}" if excerpt else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like `name`, or "" where none is near.

    >>> nearest("symbl", ["symbol", "price"])
    'symbol'
    """
    space = name.lower().rpartition(":")[0]
    # else `sentiment:getRate` would be taken for `time:extract`
    names = [n for n in known if not space or get_close_matches(space, [n.lower().rpartition(":")[0]], 1, 0.65)]
    lowered = {n.lower(): n for n in names}
    found = get_close_matches(name, names, 1, 0.6) or get_close_matches(name.lower(), list(lowered), 1, 0.6)
    return lowered.get(found[0].lower(), found[0]) if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A half sentence that names the nearest known name or, failing that, up to eight known ones.

    >>> did_you_mean("symbl", ["symbol", "price"])
    "did you mean 'symbol'?"
    """
    names = sorted(set(known))
    if near := nearest(name, names):
        return f"did you mean '{near}'?"
    if not names:
        return "none is defined"
    return "known: " + ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
