"""Patterns on RE2, whose time grows with the length of a text and no faster, where they mean the same there.

`linear(tree)` writes a pattern, as `re._parser` gives it, for RE2: classes as ranges of characters, case ignored by writing both. What RE2 does not have,
or might understand otherwise, has no linear form, and `linear` gives None:

- look-around, possessive and atomic groups, references, conditions;
- a repetition of something that can match nothing (what its groups hold then differs), counts above 1,000;
- `\\B`, lines (`(?m)`), and `\\b`, `\\d`, `\\w`, `\\s` and ignored case of Unicode: the two know different versions of Unicode.

One look-ahead is taken, since so many patterns end with it: Java's `$`. Where nothing follows it, it becomes what may follow the match. RE2 cannot tell
whether a `\\n` at the end has a `\\r` before it, so texts that end with both are left to others; and so are texts with halves of characters, as these
have no UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from re import _constants as op  # CPython has parser and constants in these since 3.11
from re import _parser as parser
from typing import Any

import re2

LARGEST_COUNT = 1000
LARGEST_PROGRAM = 20_000  # instructions
LARGEST_CHARACTER = 0x10FFFF
BEFORE_END = "(?=(?:\\r\\n|(?<!\\r)\\n|[\\r\\x85\\u2028\\u2029])?\\Z)"
"""Java's `$`, without lines, as Python understands it."""

Ranges = list[tuple[int, int]]
Spans = tuple[tuple[int, int], ...]
_CATEGORIES: dict[Any, Ranges] = {
    op.CATEGORY_DIGIT: [(48, 57)],
    op.CATEGORY_SPACE: [(9, 13), (32, 32)],
    op.CATEGORY_WORD: [(48, 57), (65, 90), (95, 95), (97, 122)],
}
_OPPOSITES = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}
_END_TREE = next(iter(parser.parse(BEFORE_END, re.ASCII)))
_NOTHING = (-1, -1)


class _NotLinear(Exception):
    """A pattern that has no linear form."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A pattern on RE2. `whole` matches whole texts; `part` finds, and has an empty group at each `ends` where a match may end before what `$` looks at."""

    whole: Any
    part: Any
    groups: tuple[int, ...]
    whole_groups: tuple[int, ...]
    ends: tuple[int, ...]

    def takes(self, text: str) -> bool:
        return not (self.ends and text.endswith("\r\n")) and (text.isascii() or _has_whole_characters(text))

    def fullmatch(self, text: Encoded) -> Spans | None:
        return text.spans(self.whole.fullmatch(text.data), self.whole_groups, ())

    def match(self, text: Encoded) -> Spans | None:
        return text.spans(self.part.match(text.data), self.groups, self.ends)

    def search(self, text: Encoded, at: int) -> Spans | None:
        return text.spans(self.part.search(text.data, text.place_of(at)), self.groups, self.ends)


@dataclass(slots=True)
class Encoded:
    """A text as UTF-8, which says at which character a byte stands; asked in order, it goes through the text once."""

    text: str
    data: bytes = b""
    _place: int = 0
    _index: int = 0

    def __post_init__(self) -> None:
        self.data = self.text.encode()

    def place_of(self, index: int) -> int:
        """The byte at which a character begins."""
        if len(self.data) == len(self.text):
            return index
        if index < self._index:
            self._place = self._index = 0
        self._place += len(self.text[self._index : index].encode())
        self._index = index
        return self._place

    def index_of(self, place: int) -> int:
        """The character that begins at a byte."""
        if len(self.data) == len(self.text) or place < 0:
            return place
        if place < self._place:
            self._place = self._index = 0
        self._index += len(self.data[self._place : place].decode())
        self._place = place
        return self._index

    def spans(self, found: Any, groups: Iterable[int], ends: Iterable[int]) -> Spans | None:
        """Where the groups of a match stand, in characters; the first is the whole match."""
        if found is None:
            return None
        first, last = found.span(0)
        for end in ends:
            if found.span(end) != _NOTHING:
                last = found.span(end)[0]
        places = [(first, last), *(found.span(group) for group in groups)]
        index = {place: self.index_of(place) for place in sorted({p for span in places for p in span})}
        return tuple((index[a], index[b]) for a, b in places)


def _has_whole_characters(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def linear(tree: Any) -> Linear | None:
    """The linear form of a pattern, where it has one.

    >>> from re import _parser
    >>> pattern = linear(_parser.parse("(?:(a+)|b)+c", re.ASCII))
    >>> pattern.search(Encoded("xxéaabc"), 0)
    ((3, 7), (3, 5))
    >>> linear(_parser.parse("a(?=b)")) is None
    True
    """
    try:
        whole, part = _Writer(whole=True), _Writer(whole=False)
        texts = whole.sequence(tree, tree.state.flags, True), part.sequence(tree, tree.state.flags, True)
        programs = [re2.compile(text, _options()) for text in texts]
    except (_NotLinear, re2.error, RecursionError):
        return None
    if max(p.programsize for p in programs) > LARGEST_PROGRAM:
        return None
    return Linear(programs[0], programs[1], tuple(part.groups), tuple(whole.groups), tuple(part.ends))


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@dataclass(slots=True)
class _Writer:
    """Writes a pattern for RE2, and counts the groups it makes. `last` is whether nothing follows, in no group."""

    whole: bool
    made: int = 0
    groups: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def sequence(self, items: Any, flags: int, last: bool) -> str:
        items = list(items)
        return "".join(self._item(item, flags, last and i == len(items) - 1) for i, item in enumerate(items))

    def _item(self, item: Any, flags: int, last: bool) -> str:
        code, value = item
        match code:
            case op.LITERAL | op.NOT_LITERAL | op.ANY | op.IN:
                return _written(_members(item, flags))
            case op.BRANCH:
                return f"(?:{'|'.join(self.sequence(branch, flags, last) for branch in value[1])})"
            case op.SUBPATTERN:
                number, added, removed, inner = value
                if number is None:
                    return f"(?:{self.sequence(inner, combined(flags, added, removed), last)})"
                self.made += 1
                self.groups.append(self.made)
                return f"({self.sequence(inner, combined(flags, added, removed), False)})"
            case op.MAX_REPEAT | op.MIN_REPEAT:
                return self._repeat(value, flags) + ("" if code is op.MAX_REPEAT else "?")
            case op.AT:
                return _place(value, flags)
            case op.ASSERT if last and _same(item, _END_TREE):
                return self._end()
            case op.FAILURE:
                return _written([])
        raise _NotLinear

    def _repeat(self, value: Any, flags: int) -> str:
        least, most, inner = value
        endless = most is op.MAXREPEAT
        if inner.getwidth()[0] == 0 or least > LARGEST_COUNT or (not endless and most > LARGEST_COUNT):
            raise _NotLinear
        return f"(?:{self.sequence(inner, flags, False)}){{{least},{'' if endless else most}}}"

    def _end(self) -> str:
        if self.whole:
            return "\\z"
        self.made += 1
        self.ends.append(self.made)
        return "()(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])?\\z"


def combined(flags: int, added: int, removed: int) -> int:
    """The flags within a group that adds and removes some; the kinds of characters exclude each other."""
    kinds = int(re.ASCII | re.LOCALE | re.UNICODE)
    return ((flags & ~kinds if added & kinds else flags) | added) & ~removed


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def _place(value: Any, flags: int) -> str:
    if value is op.AT_BEGINNING_STRING or (value is op.AT_BEGINNING and not flags & re.MULTILINE):
        return "\\A"
    if value is op.AT_END_STRING:
        return "\\z"
    if value is op.AT_BOUNDARY and flags & re.ASCII:
        return "\\b"
    raise _NotLinear


# ---- sets of characters --------------------------------------------------------------------------------------------


def _members(item: Any, flags: int) -> Ranges:
    code, value = item
    match code:
        case op.ANY:
            return [(0, LARGEST_CHARACTER)] if flags & re.DOTALL else _others([(10, 10)])
        case op.LITERAL:
            return _with_cases([(value, value)], flags)
        case op.NOT_LITERAL:
            return _others(_with_cases([(value, value)], flags))
    negated = value[0][0] is op.NEGATE
    found: Ranges = []
    for kind, content in value[negated:]:
        if kind is op.CATEGORY:
            found += _category(content, flags)
        else:
            found += _with_cases([content if kind is op.RANGE else (content, content)], flags)
    return _others(found) if negated else _merged(found)


def _category(value: Any, flags: int) -> Ranges:
    if not flags & re.ASCII:
        raise _NotLinear
    return _CATEGORIES[value] if value in _CATEGORIES else _others(_CATEGORIES[_OPPOSITES[value]])


def _with_cases(ranges: Ranges, flags: int) -> Ranges:
    if not flags & re.IGNORECASE:
        return ranges
    if not flags & re.ASCII and any(last > 127 or _has_letters(first, last) for first, last in ranges):
        raise _NotLinear
    shifted = []
    for first, last in ranges:
        for begin, end, shift in ((65, 90, 32), (97, 122, -32)):
            if max(first, begin) <= min(last, end):
                shifted.append((max(first, begin) + shift, min(last, end) + shift))
    return ranges + shifted


def _has_letters(first: int, last: int) -> bool:
    return any(chr(n).isalpha() for n in range(first, last + 1))


def _merged(ranges: Ranges) -> Ranges:
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _others(ranges: Ranges) -> Ranges:
    found: Ranges = []
    begin = 0
    for first, last in _merged(ranges):
        if begin < first:
            found.append((begin, first - 1))
        begin = last + 1
    if begin <= LARGEST_CHARACTER:
        found.append((begin, LARGEST_CHARACTER))
    return found


def _written(ranges: Ranges) -> str:
    if not ranges:
        return f"[^\\x{{0}}-\\x{{{LARGEST_CHARACTER:x}}}]"
    parts = []
    for first, last in ranges:
        parts.append(f"\\x{{{first:x}}}" + (f"-\\x{{{last:x}}}" if last > first else ""))
    return f"[{''.join(parts)}]"
