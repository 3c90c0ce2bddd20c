"""JSON paths as the namespace `json` takes them.

`$.a.b`, `['a']`, `[0]`, `[-1]`, `[0,2]`, `['a','b']`, `[1:3]`, `.*`, `[*]`, `..a`, filters `[?(@.price < 10 && @.kind == 'x')]` (comparisons and existence,
joined by `&&` and `||`), and `.length()` at the end. A path is *definite* if it can only mean one place; the others give the list of what they match.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from nadi.functions.jsontext import parse as parse_json


class PathError(ValueError):
    """The text is no path; the message says where."""


class TooMuchError(ValueError):
    """A path that leads to more places than may be looked at."""


class NothingThereError(LookupError):
    """A definite path that leads nowhere."""


MOST_PLACES = 1_000_000
"""Places that one reading of a path looks at: those on the way and those at its end."""

Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Path:
    """A path that was read. `keys` are names and indexes where it is definite, so that `place` can go there."""

    steps: tuple[Step, ...]
    definite: bool
    keys: tuple[str | int, ...]
    counts: bool = False

    def read(self, value: Any) -> Any:
        """What is there: one value, or the list of all where the path is not definite.

        Raises:
            NothingThereError: a definite path leads nowhere.
            TooMuchError: the steps lead to more than `MOST_PLACES` places; each `..` may multiply them.
        """
        found = [value]
        left = MOST_PLACES
        for step in self.steps:
            found = list(islice((inner for outer in found for inner in step(outer)), left + 1))
            left -= len(found)
            if left < 0:
                raise TooMuchError(f"the path leads to more than {MOST_PLACES} places")
        if not self.definite:
            return len(found) if self.counts else found
        if not found:
            raise NothingThereError
        if self.counts:
            if not isinstance(found[0], (list, dict, str)):
                raise NothingThereError
            return len(found[0])
        return found[0]

    def replaced(self, value: Any, change: Callable[[Any], Any]) -> Any:
        """A copy of the value with what is at a definite path changed; only what lies on the way is copied."""
        return _replaced(value, self.keys, change)


def _replaced(value: Any, keys: tuple[str | int, ...], change: Callable[[Any], Any]) -> Any:
    if not keys:
        return change(value)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[keys[0]] = _replaced(copy[keys[0]], keys[1:], change)
    return copy


# ---- steps ---------------------------------------------------------------------------------------------------------


def _keys(names: tuple[str, ...]) -> Step:
    return lambda value: (value[n] for n in names if isinstance(value, dict) and n in value)


def _indexes(places: tuple[int, ...]) -> Step:
    return lambda value: (value[i] for i in places if isinstance(value, list) and -len(value) <= i < len(value))


def _slice(part: slice) -> Step:
    return lambda value: iter(value[part]) if isinstance(value, list) else iter(())


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everywhere(value: Any) -> Iterator[Any]:
    """The value and all in it."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(list(_children(current))))


def _filter(test: Callable[[Any], bool]) -> Step:
    def chosen(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (v for v in value if test(v))
        elif isinstance(value, dict) and test(value):
            yield value

    return chosen


# ---- reading a path ------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[^.\[\]()\s]+")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_NAMES = re.compile(rf"\s*(?:{_QUOTED})(?:\s*,\s*(?:{_QUOTED}))*\s*\]")
_PLACES = re.compile(r"\s*-?\d+(?:\s*,\s*-?\d+)*\s*\]")
_SLICE = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)(?:\s*:\s*(-?\d*))?\s*\]")


@lru_cache(maxsize=1024)
def path(text: str) -> Path:
    """Read a path.

    >>> path("$.a[1]").read({"a": [1, 2]}), path("$..b").read({"a": {"b": 1}})
    (2, [1])

    Raises:
        PathError: it is none.
    """
    source = text.strip()
    if not source.startswith("$"):
        source = "$." + source
    counts = source.endswith(".length()")
    reader = _Reader(text, source.removesuffix(".length()"))
    while reader.at < len(reader.source):
        reader.step()
    return Path(tuple(reader.steps), reader.definite, tuple(reader.keys), counts)


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = 1
        self.steps: list[Step] = []
        self.keys: list[str | int] = []
        self.definite = True

    def step(self) -> None:
        if self.source.startswith("..", self.at):
            self.steps.append(_everywhere)
            self.definite = False
            self.at += 2
            if not self.source.startswith("[", self.at):
                self._name()
        elif self.source.startswith(".", self.at):
            self.at += 1
            self._name()
        if self.source.startswith("[", self.at):
            self.at += 1
            self._brackets()
        elif self.at < len(self.source) and self.source[self.at] != ".":
            raise self._wrong()

    def _wrong(self) -> PathError:
        return PathError(f"{self.text!r} is not a JSON path: unexpected {self.source[self.at :]!r}")

    def _add(self, step: Step, key: str | int | None) -> None:
        self.steps.append(step)
        if key is None:
            self.definite = False
        else:
            self.keys.append(key)

    def _name(self) -> None:
        found = _NAME.match(self.source, self.at)
        if found is None:
            raise self._wrong()
        self.at = found.end()
        if found[0] == "*":
            self._add(_children, None)
        else:
            self._add(_keys((found[0],)), found[0])

    def _brackets(self) -> None:
        if self.source.startswith("*]", self.at):
            self.at += 2
            self._add(_children, None)
        elif self.source.startswith("?(", self.at):
            end = self.source.find(")]", self.at)
            if end < 0:
                raise self._wrong()
            self._add(_filter(_condition(self.source[self.at + 2 : end])), None)
            self.at = end + 2
        elif found := _NAMES.match(self.source, self.at):
            self.at = found.end()
            names = tuple(q[1:-1].replace("\\'", "'") for q in re.findall(_QUOTED, found[0]))
            self._add(_keys(names), names[0] if len(names) == 1 else None)
        elif found := _PLACES.match(self.source, self.at):
            self.at = found.end()
            places = tuple(map(int, re.findall(r"-?\d+", found[0])))
            self._add(_indexes(places), places[0] if len(places) == 1 else None)
        elif found := _SLICE.match(self.source, self.at):
            self.at = found.end()
            if found[3] and int(found[3]) == 0:
                raise self._wrong()
            self._add(_slice(slice(*(int(p) if p else None for p in found.groups()))), None)
        else:
            raise self._wrong()


# ---- filters -------------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(rf"\s*(?:(!)\s*)?@([^\s=!<>]*)\s*(?:(==|!=|<=|>=|<|>)\s*({_QUOTED}|-?[\w.+-]+)\s*)?")


def _condition(text: str) -> Callable[[Any], bool]:
    alternatives = [[_comparison(c) for c in part.split("&&")] for part in text.split("||")]
    return lambda value: any(all(test(value) for test in tests) for tests in alternatives)


def _comparison(text: str) -> Callable[[Any], bool]:
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise PathError(f"the filter {text.strip()!r} is not supported: it must compare @.name with a constant")
    inner = path("$" + found[2])
    if found[3] is None:
        return lambda value: _exists(inner, value) is (found[1] is None)
    compare, wanted = _COMPARE[found[3]], parse_json(found[4])

    def test(value: Any) -> bool:
        try:
            given = inner.read(value)
        except NothingThereError:
            return False
        if compare in (operator.eq, operator.ne):
            same = given == wanted and isinstance(given, bool) is isinstance(wanted, bool)
            return same is (compare is operator.eq)
        numbers = _is_number(given) and _is_number(wanted)
        return (numbers or (isinstance(given, str) and isinstance(wanted, str))) and compare(given, wanted)

    return test


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _exists(inner: Path, value: Any) -> bool:
    try:
        inner.read(value)
    except NothingThereError:
        return False
    return True
