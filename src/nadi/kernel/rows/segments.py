"""What an element holds in a key-group as segments of bounded size, one after the other: of what is to be written only one segment is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from nadi.kernel.contract import Segment
from nadi.kernel.rows.cells import Cell, Cells, Change
from nadi.kernel.rows.payloads import Block, CellChanges, encode

SEGMENT_BYTES = 1 << 20
MOST_BYTES = 4 << 20
_FIRST = 4_000  # entries of which nothing is known yet
_FASTER = 8  # times the entries of the segment before
_LARGE = 4_000  # entries of a key that is cut
_SLICE = 250  # entries of a large cell that stay together

Row = tuple[str, Cells]
"""A flow key and its cells."""
Slice = tuple[str, str, Cell, Change, bool]
"""A flow key, a cell and its name, some of what it holds, as a change of an empty one, and whether that is the first of the key."""
_Some = TypeVar("_Some", Row, Slice)


def segments(element: str, group: int, rows: Iterable[Row]) -> Iterator[Segment]:
    """The segments of keys; where they are cut follows from what is held alone, so that equal states make equal segments."""
    for payload in _payloads(rows):
        yield Segment(element, group, payload)


def _payloads(rows: Iterable[Row]) -> Iterator[bytes]:
    wanted, held, entries = _FIRST, list[Row](), 0
    for key, cells in rows:
        more = sum(map(len, cells.values())) + 1
        if more > _LARGE or entries >= wanted:
            size = 0
            for payload in _of_rows(held):
                yield payload
                size += len(payload)
            if size:
                wanted = _next(entries, size)
            held, entries = [], 0
        if more > _LARGE:
            yield from _of_large(key, cells)
        else:
            held.append((key, cells))
            entries += more
    yield from _of_rows(held)


def _next(entries: int, size: int) -> int:
    """How many entries the next segment gets after one of so many entries and bytes."""
    return min(entries * _FASTER, max(1, entries * SEGMENT_BYTES // size))


def _of_rows(rows: list[Row]) -> Iterator[bytes]:
    for some, payload in _halved(rows, _rows, _whole) if rows else ():
        if len(payload) > MOST_BYTES:  # it is one key
            yield from _of_large(*some[0])
        else:
            yield payload


def _rows(rows: Sequence[Row]) -> bytes:
    keys = [key for key, _cells in rows]
    every = range(len(rows))
    told = [CellChanges(name, every, [cells[name].content() for _key, cells in rows]) for name in rows[0][1]]
    return encode([Block("", (), keys, told)])


def _of_large(key: str, cells: Cells) -> Iterator[bytes]:
    """A key in several segments."""
    wanted, held = _FIRST, list[Slice]()
    for cut in _cut(key, cells):
        held.append(cut)
        if len(held) * _SLICE >= wanted:
            entries, size = len(held) * _SLICE, 0
            for _some, payload in _halved(held, _slices, _finer):
                yield payload
                size += len(payload)
            wanted, held = _next(entries, size), []
    for _some, payload in _halved(held, _slices, _finer) if held else ():
        yield payload


def _cut(key: str, cells: Cells) -> Iterator[Slice]:
    begins = True
    for name, cell in cells.items():
        for part in cell.contents(_SLICE):
            yield key, name, cell, part, begins
            begins = False


def _slices(slices: Sequence[Slice]) -> bytes:
    columns: dict[str, tuple[list[int], list[Change]]] = {}
    for i, (_key, name, _cell, change, _begins) in enumerate(slices):
        at, changes = columns.setdefault(name, ([], []))
        at.append(i)
        changes.append(change)
    told = [CellChanges(name, *column) for name, column in columns.items()]
    return encode([Block("", (), [key for key, *_rest in slices], told)], continued=not slices[0][4])


def _finer(cut: Slice) -> list[Slice]:
    key, name, cell, change, begins = cut
    return [(key, name, cell, half, begins and not i) for i, half in enumerate(cell.halves(change))]


def _whole(row: Row) -> list[Row]:
    return [row]


def _halved(
    some: Sequence[_Some], make: Callable[[Sequence[_Some]], bytes], finer: Callable[[_Some], list[_Some]]
) -> Iterator[tuple[Sequence[_Some], bytes]]:
    """All as one payload, or in halves while it is too large and can be cut."""
    payload = make(some)
    if len(payload) > MOST_BYTES and len(some) == 1:
        some = finer(some[0])
    if len(payload) <= MOST_BYTES or len(some) == 1:
        yield some, payload
        return
    del payload
    half = len(some) // 2
    yield from _halved(some[:half], make, finer)
    yield from _halved(some[half:], make, finer)
