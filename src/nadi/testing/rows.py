"""Rows of tests: what is sent, what came, what was expected, and how the latter two are laid side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nadi.errors import did_you_mean, error
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.runtime.values import row_of
from nadi.testing.times import Time, instant, words
from nadi.testing.yamltext import ANY

_WRAPPED = frozenset({"row", "at", "timestamp"})
_MOST = 1000  # rows of one expectation up to which the best alignment is looked for; above, row n is laid beside row n
_INTS = {Type.INT: 1 << 31, Type.LONG: 1 << 63}


@dataclass(frozen=True, slots=True)
class Arrived:
    """A row that came: its values, the clock at that moment and its own timestamp (ms)."""

    row: tuple[object, ...]
    at: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Expected:
    """A row that should come; times that are None are not looked at, nor values that are ANY."""

    row: tuple[object, ...]
    at: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of the comparison: what was expected, what came instead, whether they agree."""

    expected: Expected | None
    actual: Arrived | None
    same: bool

    @property
    def mark(self) -> str:
        """`=`, `≠`, `-` (missing) or `+` (not expected)."""
        if self.same:
            return "="
        return "≠" if self.expected and self.actual else "-" if self.expected else "+"


# ---- reading rows --------------------------------------------------------------------------------------------------


def several(given: object) -> list[object]:
    """Rows as they may be given: one row (a list of values, a mapping), or a list of rows."""
    if isinstance(given, (list, tuple)) and all(isinstance(item, (list, tuple, dict)) for item in given):
        return list(given)
    return [given]


def sent(given: object, stream: str, schema: Schema, start: int) -> tuple[int | None, tuple[object, ...]]:
    """A row to send: (its own timestamp in ms or None, values in the order of the stream's attributes).

    Raises:
        TEST_ROW, TEST_VALUE, ATTRIBUTE_NOT_FOUND, TEST_TIME.
    """
    found = _unwrapped(given, stream, schema, start, missing=None)
    values = zip(found.row, schema.columns, strict=True)
    return found.timestamp, tuple(_checked(value, column, stream) for value, column in values)


def expected(given: object, stream: str, schema: Schema, start: int) -> Expected:
    """A row to compare with; attributes that a mapping leaves out are not looked at. Errors: as `sent`."""
    found = _unwrapped(given, stream, schema, start, missing=ANY)
    return Expected(row_of(schema, found.row), found.at, found.timestamp)


def _unwrapped(given: object, stream: str, schema: Schema, start: int, missing: object) -> Expected:
    at: Time | None = None
    timestamp: Time | None = None
    if isinstance(given, Mapping) and "row" in given and given.keys() <= _WRAPPED:
        at, timestamp, given = given.get("at"), given.get("timestamp"), given["row"]
    row = _values(given, stream, schema, missing)
    times = (None if t is None else instant(t, start) for t in (at, timestamp))
    return Expected(row, *times)


def _values(given: object, stream: str, schema: Schema, missing: object) -> tuple[object, ...]:
    if isinstance(given, Mapping):
        for name in given:
            if name not in schema.names:
                hint = did_you_mean(str(name), schema.names)
                raise error("ATTRIBUTE_NOT_FOUND", name=name, of=f"'{stream}'", hint=hint)
        return tuple(given.get(name, missing) for name in schema.names)
    values = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    if len(values) != len(schema):
        raise error("TEST_ROW", stream=stream, count=len(schema), names=", ".join(schema.names), found=len(values))
    return values


def _checked(value: object, column: Column, stream: str) -> object:
    """A value that an attribute can hold: a test that sends text for a number would only test what a broken source does."""
    kind = column.type
    if value is None or kind is Type.OBJECT:
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (Type.FLOAT, Type.DOUBLE) and number:
        return float(value)  # type: ignore[arg-type]  # it is a number
    if kind in _INTS and number and isinstance(value, int) and -_INTS[kind] <= value < _INTS[kind]:
        return value
    if (kind is Type.STRING and isinstance(value, str)) or (kind is Type.BOOL and isinstance(value, bool)):
        return value
    raise error("TEST_VALUE", value=shown_value(value), type=kind, attribute=column.name, stream=stream)


# ---- comparing -----------------------------------------------------------------------------------------------------


def agree(wanted: Expected, came: Arrived, tolerance: float) -> bool:
    """Whether a row is the expected one."""
    if (wanted.at is not None and wanted.at != came.at) or (
        wanted.timestamp is not None and wanted.timestamp != came.timestamp
    ):
        return False
    return len(wanted.row) == len(came.row) and all(
        same_value(w, c, tolerance) for w, c in zip(wanted.row, came.row, strict=True)
    )


def same_value(wanted: object, came: object, tolerance: float) -> bool:
    """Whether a value is the expected one; floats may differ by `tolerance`, times their size where that is above 1.

    >>> same_value(0.3, 0.1 + 0.2, 1e-9), same_value(1, True, 1e-9), same_value([0.3], [0.1 + 0.2], 1e-9)
    (True, False, True)
    """
    if wanted is ANY:
        return True
    if isinstance(wanted, bool) or isinstance(came, bool):
        return wanted is came
    if isinstance(wanted, (int, float)) and isinstance(came, (int, float)):
        if isinstance(wanted, int) and isinstance(came, int):
            return wanted == came
        if math.isnan(wanted) or math.isnan(came):
            return math.isnan(wanted) and math.isnan(came)
        return wanted == came or abs(wanted - came) <= tolerance * max(1.0, abs(wanted))
    if isinstance(wanted, (list, tuple)) and isinstance(came, (list, tuple)):
        return len(wanted) == len(came) and all(same_value(w, c, tolerance) for w, c in zip(wanted, came, strict=True))
    if isinstance(wanted, Mapping) and isinstance(came, Mapping):
        return wanted.keys() == came.keys() and all(same_value(wanted[k], came[k], tolerance) for k in wanted)
    return wanted == came


def compare(
    wanted: Sequence[Expected], came: Sequence[Arrived], tolerance: float, unordered: bool = False
) -> tuple[Pair, ...]:
    """Both side by side: as many equal rows as possible next to each other, in the order in which they came."""

    def same(i: int, j: int) -> bool:
        return agree(wanted[i], came[j], tolerance)

    both = _matching(len(wanted), len(came), same) if unordered else _common(len(wanted), len(came), same)
    if unordered:
        rest = iter([i for i in range(len(wanted)) if i not in {i for i, _j in both}])
        of = {j: i for i, j in both}
        pairs = [Pair(wanted[of[j]], c, True) for j, c in enumerate(came) if j in of]
        pairs += [Pair(_at(wanted, next(rest, None)), c, False) for j, c in enumerate(came) if j not in of]
        return (*pairs, *(Pair(wanted[i], None, False) for i in rest))
    made: list[Pair] = []
    i = j = 0
    for end_i, end_j in [*both, (len(wanted), len(came))]:
        while i < end_i or j < end_j:
            made.append(Pair(wanted[i] if i < end_i else None, came[j] if j < end_j else None, False))
            i, j = min(i + 1, end_i), min(j + 1, end_j)
        if end_i < len(wanted) or end_j < len(came):
            made.append(Pair(wanted[end_i], came[end_j], True))
        i, j = end_i + 1, end_j + 1
    return tuple(made)


def _at(wanted: Sequence[Expected], index: int | None) -> Expected | None:
    return None if index is None else wanted[index]


def _common(n: int, m: int, same: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """The longest common subsequence, as pairs of indices; equal rows at both ends are set aside first."""
    head = 0
    while head < min(n, m) and same(head, head):
        head += 1
    tail = 0
    while tail < min(n, m) - head and same(n - 1 - tail, m - 1 - tail):
        tail += 1
    ends = [(k, k) for k in range(head)], [(n - k, m - k) for k in range(tail, 0, -1)]
    rows, columns = n - head - tail, m - head - tail
    if rows > _MOST or columns > _MOST:
        middle = [(head + k, head + k) for k in range(min(rows, columns)) if same(head + k, head + k)]
        return [*ends[0], *middle, *ends[1]]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            equal = same(head + i, head + j)
            best[i][j] = best[i + 1][j + 1] + 1 if equal else max(best[i + 1][j], best[i][j + 1])
    middle, i, j = [], 0, 0
    while i < rows and j < columns:
        if best[i][j] == best[i + 1][j + 1] + 1 and same(head + i, head + j):
            middle.append((head + i, head + j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return [*ends[0], *middle, *ends[1]]


def _matching(n: int, m: int, same: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """As many pairs of equal rows as possible (augmenting paths: with tolerances, first come is not best)."""
    of: dict[int, int] = {}  # actual → expected

    def find(i: int, seen: set[int]) -> bool:
        for j in range(m):
            if j not in seen and same(i, j):
                seen.add(j)
                if j not in of or find(of[j], seen):
                    of[j] = i
                    return True
        return False

    for i in range(n):
        find(i, set())
    return sorted((i, j) for j, i in of.items())


# ---- showing -------------------------------------------------------------------------------------------------------


def shown_value(value: object) -> str:
    """A value as one writes it in a test file."""
    if value is ANY:
        return "..."
    return json.dumps(value, ensure_ascii=False, default=repr)


def shown(row: Expected | Arrived | None, start: int, times: bool) -> str:
    """A row as one writes it in a test file; `times` adds when it came."""
    if row is None:
        return ""
    text = "[" + ", ".join(map(shown_value, row.row)) + "]"
    if times and row.at is not None:
        text += f" at {words(row.at - start)}"
    if isinstance(row, Expected) and row.timestamp is not None:
        text += f" timestamp {words(row.timestamp - start)}"
    return text
