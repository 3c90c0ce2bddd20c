"""Sliding windows and the groups of aggregators as on rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nadi.kernel.columns.asrows.aggregates import Kept, kept_of
from nadi.kernel.columns.asrows.held import Events, Grouping, counted
from nadi.kernel.columns.asrows.texts import texts
from nadi.kernel.columns.flat import Block
from nadi.kernel.rows.bags import held_as
from nadi.kernel.rows.payloads import Entry
from nadi.plan.nodes import App, Attr, Const, Query, SingleInput


class WindowState:
    """One query with aggregators. Blocks come in the order of `contents`: the window, the groups, the pairs of `distinctCount`."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, SingleInput)
        self._query = query
        self._source = query.input
        self._width = len(app.streams[query.input.source].schema)
        self._accumulators, self._arguments = kept_of(query.selection.aggregates)
        self._grouping = Grouping(query, app)
        self._latest: dict[str, int] = {}
        window = self._source.window
        extremes = [a for a in self._accumulators if a.extreme] if window is not None else []
        self._bags: dict[int, dict[str, dict[Any, int]]] = {a.number: {} for a in extremes}
        first = window.args[0] if window is not None and window.name == "externalTime" else None
        self._time = first.position if isinstance(first, Attr) else None

    def entries(self, block: Block) -> Iterator[Entry]:
        """What a block comes to."""
        if block.letter == "g":
            yield from self._groups(block)
        elif block.letter.startswith("d"):
            yield from self._distinct(block)
        else:
            yield from self._window(block)

    # ---- groups

    def _groups(self, block: Block) -> Iterator[Entry]:
        names = texts(block.arrays) if self._grouping.by else [""]
        columns = [self._states(one, block) for one in self._accumulators]
        holds = np.any([array != 0 for name, array in block.arrays.items() if name[1:].isdigit()], axis=0).tolist()
        held: dict[str, list[tuple[str, list[Any]]]] = {}
        for at, (name, is_held, states) in enumerate(zip(names, holds, zip(*columns), strict=True)):
            if is_held:  # rows forget what is as if it had seen nothing
                key, group = self._grouping.split(name)
                held.setdefault(key, []).append((group, list(states)))
                yield from self._bag(key, group, name, block, at)
        for key, groups in held.items():
            yield self._query.selector_id, key, {"groups": ["m", False, groups, []]}

    def _states(self, one: Kept, block: Block) -> list[list[Any]]:
        number = one.number
        if one.traits.numbers:
            given = [block.arrays[f"{name}{number}"].tolist() for name in one.traits.numbers]
            return [list(state) for state in zip(*given)]
        counts, shown = block.arrays[f"n{number}"].tolist(), block.arrays[f"s{number}"].tolist()
        return [[value if count else None] for count, value in zip(counts, shown)]

    def _bag(self, key: str, group: str, name: str, block: Block, at: int) -> Iterator[Entry]:
        """The values of which `min` and `max` show one: those of the events that are held. Of zeros, which are equal, the first one that came."""
        for number, bag in self._bags.items():
            found = bag.pop(name, {})
            if f"zr{number}" in block.arrays and 0.0 in found:
                count = found.pop(0.0)
                found[float(block.arrays[f"zr{number}"][at])] = count
            if found:
                counts = [((group, value), count) for value, count in found.items()]
                yield self._query.selector_id, key, {f"bag{number}": ["m", False, counts, []]}

    def _distinct(self, block: Block) -> Iterator[Entry]:
        """Pairs of group and value, and how often each is held."""
        number = int(block.letter[1:])
        one = next(a for a in self._accumulators if a.number == number)
        for text, count in zip(texts(block.arrays), block.arrays[f"pc{number}"].tolist(), strict=True):
            if count:
                name, value = counted(text, self._grouping, one)
                key, group = self._grouping.split(name)
                yield self._query.selector_id, key, {f"bag{number}": ["m", False, [((group, value), count)], []]}

    # ---- windows

    def _window(self, block: Block) -> Iterator[Entry]:
        window = self._source.window
        assert window is not None  # its element told of it
        events = Events(block, self._grouping, self._accumulators, self._arguments)
        self._note(events)
        held: dict[str, list[tuple[int, Any]]] = {}
        for key, ts, row in zip(events.keys, events.ts, events.rows(self._width, self._grouping, self._time)):
            held.setdefault(key, []).append((ts, row))
        timed = window.name in ("time", "timeLength") and isinstance(window.args[0], Const)
        span = window.args[0].value if timed else None  # type: ignore[union-attr]
        for key, mine in held.items():
            if not isinstance(span, int):
                yield window.id, key, {"held": ["d", 0, mine]}
                continue
            due = []
            for ts, _row in mine:
                if key not in self._latest or ts > self._latest[key]:
                    self._latest[key] = ts
                    due.append(ts + span)
            yield window.id, key, {"held": ["d", 0, mine], "last": ["v", self._latest[key]]}
            yield f"{window.id}/timer", key, {"due": ["d", 0, due]}

    def _note(self, events: Events) -> None:
        """The values of extremes, until their groups come."""
        for one in self._accumulators:
            if one.number in self._bags and one.argument is not None:
                bag = self._bags[one.number]
                for group, values, kept in zip(events.groups, events.arguments, events.kept):
                    if kept and (value := values[one.argument]) is not None:
                        mine, value = bag.setdefault(group, {}), held_as(value)
                        mine[value] = mine.get(value, 0) + 1
