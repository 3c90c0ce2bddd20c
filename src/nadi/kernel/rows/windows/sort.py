"""`sort(n, attr [, 'asc'|'desc'], …)` (semantics/windows.md#sort)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any

from nadi.errors import error
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.state import Cells, Map, Value
from nadi.kernel.rows.windows.contract import Setup, current, expired
from nadi.plan.nodes import Attr, Const


class Descending:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # never a key of anything


class Null:
    """No value: it cannot be compared, as in Siddhi, but it may stand where nothing is."""

    def __lt__(self, other: object) -> bool:
        raise error("NULL_VALUE", where="an attribute of the window 'sort'")

    __gt__ = __eq__ = __lt__
    __hash__ = None  # type: ignore[assignment]  # never a key of anything


class SortWindow:
    """[C, X?]: the event enters, then, if more than n are held, the greatest leaves (among equals the newest).

    Cells: `held` number → event, `next` number. The order is a cache, as soon as the window is full: a sorted list of (values, number), made anew when the
    cells are others.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._length: int = setup.constant(0)
        self._by = _order(setup)
        self._state = setup.element(held=Map, next=Value)
        self._sorted: tuple[Cells, list[tuple[tuple[Any, ...], int]]] | None = None

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells, now = self._state.at(self._flow.key), self._flow.now
        held: Map = cells["held"]
        out: Chunk = []
        for event in chunk:
            if event.kind != CURRENT:
                continue
            full = len(held) >= self._length
            number = cells["next"].get() or 0
            if full:  # before, nothing is compared, and nulls do no harm
                order = self._order(cells)
                insort(order, (self._values(event.row), number))
            cells["next"].set(number + 1)
            held.set(number, (event.ts, event.row))
            out.append(event)
            if full:
                out.append(expired(held.pop(order.pop()[1]), now))
        if out:
            self._emit(out)

    def _order(self, cells: Cells) -> list[tuple[tuple[Any, ...], int]]:
        if self._sorted is None or self._sorted[0] is not cells:
            self._sorted = cells, sorted((self._values(row), number) for number, (_ts, row) in cells["held"].items())
        return self._sorted[1]

    def _values(self, row: Row) -> tuple[Any, ...]:
        values = [_comparable(row[position]) for position, _up in self._by]
        return tuple(value if up else Descending(value) for value, (_position, up) in zip(values, self._by))

    def content(self) -> Iterable[Event]:
        """In order of arrival until the window first overflows, sorted from then on."""
        cells = self._state.at(self._flow.key)
        held: Map = cells["held"]
        if (cells["next"].get() or 0) <= self._length:
            return map(current, held.values())
        return (current(held.get(number)) for _values, number in self._order(cells))


def _comparable(value: Any) -> Any:
    """Strings are ordered by UTF-16 code unit, as in Java."""
    if value is None:
        return Null()
    return value.encode("utf-16-be", "surrogatepass") if type(value) is str else value


def _order(setup: Setup) -> tuple[tuple[int, bool], ...]:
    """The columns to sort by, and whether ascending."""
    found: list[tuple[int, bool]] = []
    for argument in setup.call.args[1:]:
        if isinstance(argument, Attr):
            found.append((argument.position, True))
        elif isinstance(argument, Const):
            found[-1] = (found[-1][0], str(argument.value).lower() != "desc")
    return tuple(found)
