"""Sliding windows and the groups of aggregators as on rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nadi.kernel.columns.asrows.aggregates import kept_of, leaves_of
from nadi.kernel.columns.asrows.texts import texts, values
from nadi.kernel.columns.flat import Block
from nadi.kernel.rows.payloads import Entry
from nadi.plan.nodes import App, Attr, Const, Partition, Query, SingleInput, ValueKey

_FRESH = {"sum": 0, "avg": 0.0}


class WindowState:
    """One query with aggregators. Blocks come in the order of `contents`."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, SingleInput)
        self._query = query
        self._source = query.input
        self._width = len(app.streams[query.input.source].schema)
        self._accumulators, self._arguments = kept_of(query.selection.aggregates)
        key = _key(query, app)
        by = tuple(k for k in query.selection.group_by if isinstance(k, Attr))
        self._partitioned = key is not None
        self._by = (key,) if key is not None else by
        self._latest: dict[str, int] = {}

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        if block.letter == "g":
            yield from self._groups(block)
        else:
            yield from self._window(block)

    # ---- groups

    def _groups(self, block: Block) -> Iterator[Entry]:
        names = texts(block.arrays) if self._by else [""]
        columns = [self._states(number, block) for number in range(len(self._accumulators))]
        holds = np.any([array != 0 for name, array in block.arrays.items() if name[1:].isdigit()], axis=0).tolist()
        groups = zip(names, holds, zip(*columns), strict=True)
        held = [
            (name, list(states)) for name, is_held, states in groups if is_held
        ]  # rows forget what is as if it had seen nothing
        if self._partitioned:
            for name, states in held:
                yield self._query.selector_id, name, {"groups": ["m", False, [("", states)], []]}
        elif held:
            yield self._query.selector_id, "", {"groups": ["m", False, held, []]}

    def _states(self, number: int, block: Block) -> list[list[Any]]:
        one = self._accumulators[number]
        counts = block.arrays[f"n{number}"].tolist()
        if one.function == "count":
            return [[count] for count in counts]
        sums = block.arrays[f"s{number}"].tolist()
        if one.function in _FRESH:
            return [[count, value] for count, value in zip(counts, sums)]
        return [[value if count else None] for count, value in zip(counts, sums)]

    # ---- windows

    def _window(self, block: Block) -> Iterator[Entry]:
        window = self._source.window
        assert window is not None  # its element told of it
        arrays = block.arrays
        names = texts(arrays)
        coded = "key" if self._partitioned else "group"
        codes = arrays[coded].tolist() if self._by else []
        rows = self._rows(block, names, codes)
        held: dict[str, list[tuple[int, Any]]] = {}
        for at, (ts, row) in enumerate(zip(arrays["ts"].tolist(), rows)):
            held.setdefault(names[codes[at]] if self._partitioned else "", []).append((ts, row))
        span = window.args[0].value if window.name != "length" and isinstance(window.args[0], Const) else None
        for key, events in held.items():
            if not isinstance(span, int):
                yield window.id, key, {"held": ["d", 0, events]}
                continue
            due = []
            for ts, _row in events:
                if key not in self._latest or ts > self._latest[key]:
                    self._latest[key] = ts
                    due.append(ts + span)
            yield window.id, key, {"held": ["d", 0, events], "last": ["v", self._latest[key]]}
            yield f"{window.id}/timer", key, {"due": ["d", 0, due]}

    def _rows(self, block: Block, names: list[str], codes: list[int]) -> Iterator[tuple[Any, ...]]:
        """The events, with what is known of them."""
        count = len(block.arrays["ts"])
        columns: list[list[Any]] = [[None] * count for _ in range(self._width)]
        for number, argument in enumerate(self._arguments):
            if isinstance(argument, Attr):
                given, nulls = block.arrays[f"a{number}"].tolist(), block.arrays[f"z{number}"].tolist()
                columns[argument.position] = [None if null else value for value, null in zip(given, nulls)]
        for leaf in leaves_of(self._arguments):
            given, nulls = block.arrays[f"c{leaf.position}"].tolist(), block.arrays[f"y{leaf.position}"].tolist()
            columns[leaf.position] = [None if null else value for value, null in zip(given, nulls)]
        kinds = tuple(key.type for key in self._by)
        found = [values(name, kinds) for name in names] if self._by else []
        for place, key in enumerate(self._by):
            columns[key.position] = [found[code][place] for code in codes]
        return zip(*columns)


def _key(query: Query, app: App) -> Attr | None:
    """The attribute by which the partition of a query splits its events."""
    partition = next((e for e in app.elements if isinstance(e, Partition) and query in e.queries), None)
    if partition is None:
        return None
    assert isinstance(query.input, SingleInput)
    source = query.input.source
    value = next(k.value for k in partition.keys if isinstance(k, ValueKey) and k.stream == source)
    assert isinstance(value, Attr)  # as islands says
    return value
