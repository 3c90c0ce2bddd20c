"""The partial matches of chains and sequences as on rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nadi.kernel.columns.asrows.texts import texts, values
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.layout import lay_out
from nadi.kernel.columns.patterns.runs import BEGUN, lay_out_run
from nadi.kernel.columns.patterns.sources import Sources
from nadi.kernel.rows.events import CURRENT
from nadi.kernel.rows.payloads import Entry
from nadi.lang.tree import Type
from nadi.plan.chains import as_chain, as_run
from nadi.plan.nodes import App, Query, StateInput

_FLOATS = (Type.FLOAT, Type.DOUBLE)
Row = tuple[Any, ...]


class Rows:
    """Makes rows of streams: null but for the values that are known, and for the key of the partition."""

    def __init__(self, sources: Sources, sources_of: Sequence[int]) -> None:
        self._widths = sources.widths
        self._keys = [key - start for key, start in zip(sources.keys, sources.starts)]
        self._kinds = [sources.types[key] for key in sources.keys]
        self._sources = sources_of

    def row(self, slot: int, key: str, known: Mapping[int, Any]) -> Row:
        """The row of an event of an element; `known` by position."""
        source = self._sources[slot]
        made: list[Any] = [None] * self._widths[source]
        if self._keys and self._keys[source] < self._widths[source]:
            (made[self._keys[source]],) = values(key, (self._kinds[source],))
        for position, value in known.items():
            made[position] = value
        return tuple(made)


def _value(word: int, kind: Type, names: Sequence[str]) -> Any:
    if kind is Type.STRING:
        return names[word]
    if kind in _FLOATS:
        return float(np.int64(word).view(np.float64))
    return bool(word) if kind is Type.BOOL else word


class ChainState:
    """A pattern that is a chain: blocks of keys, then of their matches."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        chain = as_chain(query.input, app.compat)
        assert chain is not None  # as islands says
        self._element = query.input.id
        self._layout = layout = lay_out(query, app, chain)
        self._rows = Rows(layout.sources, [e.source for e in layout.elements])
        self._columns = {word: i for i, word in enumerate(layout.told)}
        self._heads: dict[str, tuple[int, list[int]]] = {}  # by key how many matches have bound nothing, and `moved`

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        arrays, layout = block.arrays, self._layout
        names = texts(arrays)
        partitioned = bool(layout.sources.keys)
        following = int(arrays["next"][0])
        rows = arrays["row"].reshape(-1, 1 + layout.places).tolist()
        for code, (used, *fresh) in zip(arrays["key"].tolist(), rows, strict=True):
            key = names[code] if partitioned else ""
            head = 1 if layout.every == "first" or not used else 0, [number or following for number in fresh]
            self._heads[key] = head
            yield self._entry(key, following, [[] for _ in fresh])
        held: dict[str, list[list[Any]]] = {}
        matrix = arrays["nodes"].reshape(-1, len(layout.told)).tolist()
        for code, place, words in zip(arrays["node"].tolist(), arrays["place"].tolist(), matrix, strict=True):
            key = names[code] if partitioned else ""
            places = held.setdefault(key, [[] for _ in range(layout.places)])
            places[place].append((words[0], self._match(key, place, words, names)))
        for key, found in held.items():
            yield self._entry(key, following, found)

    def _entry(self, key: str, following: int, held: list[list[Any]]) -> Entry:
        starts, moved = self._heads[key]
        return self._element, key, {"matches": ["c", starts, following, [], moved, tuple(held)]}

    def _match(self, key: str, place: int, words: list[int], names: Sequence[str]) -> tuple[Any, ...]:
        """The slots of a match that waits for element `place + 1`."""
        layout, at = self._layout, self._columns
        first = words[1]
        last = words[at[layout.last_word]] if layout.places > 1 else first
        nulls = words[at[layout.null_word]] if layout.captured else 0
        known: list[dict[int, Any]] = [{} for _ in layout.elements]
        for number, (slot, position) in enumerate(layout.captured):
            if slot <= place and not (nulls >> number) & 1:
                word = words[at[layout.word((slot, position))]]
                known[slot][position] = _value(word, layout.type_of((slot, position)), names)
        slots: list[Any] = [None] * len(layout.elements)
        for slot in range(place + 1):
            ts = last if slot == place else first
            slots[slot] = ((CURRENT, ts, self._rows.row(slot, key, known[slot])),)
        return tuple(slots)


class RunState:
    """A sequence: blocks of keys."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        run = as_run(query.input, app.compat)
        assert run is not None  # as islands says
        self._element = query.input.id
        self._layout = layout = lay_out_run(query, app, run)
        self._rows = Rows(layout.sources, [e.source for e in layout.elements])

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        names, layout = texts(block.arrays), self._layout
        partitioned = bool(layout.sources.keys)
        rows = block.arrays["rows"].reshape(-1, layout.key_width).tolist()
        for code, words in zip(block.arrays["key"].tolist(), rows, strict=True):
            key = names[code] if partitioned else ""
            flags = [("begun", True), ("0.begun", True)] if layout.every or words[BEGUN] else []
            partials = self._partials(key, words, names)
            yield (
                self._element,
                key,
                {"partials": ["m", False, partials, []], "flags": ["m", False, flags, []]},
            )

    def _partials(self, key: str, words: list[int], names: Sequence[str]) -> list[tuple[int, list[Any]]]:
        """The matches, each once, with the elements at which it waits as a new one."""
        count = len(self._layout.elements)
        waits: dict[int, list[int]] = {}
        for slot, match in enumerate(words[1 : 1 + count]):
            if match:
                waits.setdefault(match, []).append(slot)
        made = []
        for number, (match, slots) in enumerate(waits.items()):
            start = self._layout.start + match * self._layout.match_width
            bound = self._slots(key, words[start : start + self._layout.match_width], names)
            ts = max((events[-1][1] for events in bound if events), default=-1)
            places = [slot * 2 * count + 2 * slot for slot in slots]
            made.append((number, [number, ts, False, bound, places]))
        return made

    def _slots(self, key: str, words: list[int], names: Sequence[str]) -> list[Any]:
        layout = self._layout
        first = words[layout.first_word]
        made: list[Any] = []
        for slot, count in enumerate(words[: len(layout.elements)]):
            known: dict[int, dict[int, Any]] = {}
            for number, reference in enumerate(layout.captured):
                index = reference.index if reference.index >= 0 else count + reference.index
                if reference.slot == slot and 0 <= index < count and not words[layout.word(number) - 1]:
                    value = _value(words[layout.word(number)], layout.type_of(reference), names)
                    known.setdefault(index, {})[reference.position] = value
            blank = (CURRENT, first, self._rows.row(slot, key, {})) if count else None
            events = [
                (CURRENT, first, self._rows.row(slot, key, known[i])) if i in known else blank for i in range(count)
            ]
            made.append(events or None)
        return made
