"""What a segment of a dump and a delta are made of: the changes of cells, in columns over all flow keys of an element.

Version 2 is MessagePack `[2, continued, [key…], [[element, dropped, at, [[cell, at, letter, [shape…], [data…]]…]]…]]`:

- `continued`: whether the first key has begun in an earlier segment of the same element and key-group, which this one goes on with;
- `element`: "" in segments, which have it outside;
- `dropped`: which keys were dropped, before all else;
- `at` of an element: which keys have cells, in the order in which they came; of a cell: which of those it is about. A number n is the first n; a list
  has places, each but the first as what it is more than the one before. A segment may name a key several times: its cells grow with each;
- `shape`, `data`: what the changes of a cell write behind their letter, a column for each part of it (`nadi.kernel.rows.columns`).

Version 1 was `[1, [[element, key, {cell: change}]…]]`, in segments `[1, [[key, {cell: change}]…]]`; `["x"]` instead of the cells was a key that was dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from operator import sub
from typing import Any

import msgspec

from nadi.errors import error
from nadi.kernel.damage import fitting
from nadi.kernel.rows.cells import Change
from nadi.kernel.rows.columns import column_of, values_of
from nadi.kernel.rows.messagepack import ENCODER, unpack
from nadi.kernel.segments import is_flat

VERSION = 2
READABLE = (1, 2)

Entry = tuple[str, str, Any]
"""Element, flow key, and {cell: change}, or DROPPED."""
DROPPED = ["x"]

_Places = int | list[int]
_Cell = tuple[str, _Places, str, list[str], list[msgspec.Raw]]
_Wire = tuple[int, bool, list[str], list[tuple[str, _Places, _Places, list[_Cell]]]]
_WIRE = msgspec.msgpack.Decoder(_Wire)


@dataclass(frozen=True, slots=True)
class CellChanges:
    """Changes of one cell; `at` says of which of the block's keys each one is."""

    name: str
    at: Sequence[int]
    changes: Iterable[Change]


@dataclass(frozen=True, slots=True)
class Block:
    """What became of one element: keys that were dropped, then keys with changes."""

    element: str
    dropped: Sequence[str]
    keys: Sequence[str]
    cells: Sequence[CellChanges]


# ---- writing ---------------------------------------------------------------------------------------------------------


def encode(blocks: Iterable[Block], continued: bool = False) -> bytes:
    """Blocks as a payload; where an element is in several, they must not tell of the same cells."""
    numbers: dict[str, int] = {}
    told = [
        [
            block.element,
            _places([numbers.setdefault(key, len(numbers)) for key in block.dropped]),
            _places([numbers.setdefault(key, len(numbers)) for key in block.keys]),
            [_told(cell) for cell in block.cells if cell.changes],
        ]
        for block in blocks
    ]
    return ENCODER.encode([VERSION, continued, list(numbers), told])


def _told(cell: CellChanges) -> list[Any]:
    letters, *parts = zip(*cell.changes, strict=True)
    shapes, data = zip(*map(column_of, parts), strict=True)
    return [cell.name, _places(cell.at), letters[0], shapes, data]


def _places(at: Sequence[int]) -> _Places:
    every = range(len(at))
    if not at or at == every or (at[0] == 0 and at[-1] == len(at) - 1 and at == list(every)):
        return len(at)
    return [at[0], *map(sub, at[1:], at)]


@dataclass(slots=True)
class _Growing:
    """A block while its entries come; `cells` are places and changes by the name of the cell and the letter of its changes."""

    dropped: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    cells: dict[tuple[str, str], tuple[list[int], list[Change]]] = field(default_factory=dict)

    def block(self, element: str) -> Block:
        cells = [CellChanges(name, at, changes) for (name, _letter), (at, changes) in self.cells.items()]
        return Block(element, self.dropped, self.keys, cells)


def encode_entries(entries: Iterable[Entry], continued: bool = False) -> bytes:
    """Entries as a payload. Of one element and key they may be several, of which only the first may be DROPPED."""
    found: dict[str, _Growing] = {}
    for element, key, change in entries:
        growing = found.setdefault(element, _Growing())
        if not isinstance(change, dict):
            growing.dropped.append(key)
            continue
        for name, what in change.items():
            at, changes = growing.cells.setdefault((name, what[0]), ([], []))
            at.append(len(growing.keys))
            changes.append(what)
        growing.keys.append(key)
    return encode((growing.block(element) for element, growing in found.items()), continued)


# ---- reading ---------------------------------------------------------------------------------------------------------


def is_version_1(payload: bytes) -> bool:
    """Raises ValueError for what is of no version known here."""
    if payload[:2] == b"\x92\x01":
        return True
    if is_flat(payload):
        raise error(
            "STATE_NOT_READABLE", reason="the columns kernel wrote it: a revision of it can be restored to rows"
        )
    if payload[:2] != b"\x94\x02":
        raise ValueError("it is no state of a version that is known here")
    return False


def decode(payload: bytes, known: dict[str, str]) -> Iterator[Block]:
    """The blocks of a payload of version 2; keys that are `known` already come as the same objects."""
    _version, _continued, texts, blocks = _WIRE.decode(payload)
    keys = [known.setdefault(key, key) for key in texts]
    for element, dropped, at, cells in blocks:
        yield Block(
            element,
            _picked(keys, dropped),
            _picked(keys, at),
            [
                CellChanges(name, _unrolled(where), _changes(letter, *columns))
                for name, where, letter, *columns in cells
            ],
        )


def _picked(keys: list[str], at: _Places) -> list[str]:
    if isinstance(at, int) and at > len(keys):
        raise ValueError(f"{at} of {len(keys)} keys")
    places = _unrolled(at)
    return keys[:at] if isinstance(at, int) else [keys[i] for i in places]


def _unrolled(at: _Places) -> Sequence[int]:
    places = range(at) if isinstance(at, int) else list(accumulate(at))
    if (at if isinstance(at, int) else min(places, default=0)) < 0:
        raise ValueError("a place that there is not")
    return places


def _changes(letter: str, shapes: list[str], data: list[msgspec.Raw]) -> Iterator[Change]:
    return zip(repeat(letter), *map(values_of, shapes, data))


def entries_of(payload: bytes, element: str = "") -> Iterator[Entry]:
    """The entries of a payload of any version; `element` is that of a segment. Errors: STATE_NOT_READABLE."""
    if payload:
        with fitting(f"'{element}'" if element else "a delta"):
            yield from _entries(payload, element)


def _entries(payload: bytes, element: str) -> Iterator[Entry]:
    if is_version_1(payload):
        for entry in unpack(payload)[1]:
            yield (element, *entry) if len(entry) == 2 else tuple(entry)
        return
    for block in decode(payload, {}):
        name = block.element or element
        for key in block.dropped:
            yield name, key, DROPPED
        found: list[dict[str, Change]] = [{} for _ in block.keys]
        for cell in block.cells:
            for i, change in zip(cell.at, cell.changes):
                found[i][cell.name] = change
        for key, cells in zip(block.keys, found, strict=True):
            yield name, key, cells


def elements_of(payload: bytes) -> set[str]:
    """The ids of the elements that a delta tells of. Errors: STATE_NOT_READABLE."""
    if not payload:
        return set()
    with fitting("a delta"):
        if is_version_1(payload):
            return {entry[0] for entry in unpack(payload)[1]}
        return {block[0] for block in _WIRE.decode(payload)[3]}


def is_continued(payload: bytes) -> bool:
    """Whether the first key of a segment has begun in an earlier one."""
    return payload[:3] == b"\x94\x02\xc3"
