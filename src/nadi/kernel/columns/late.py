"""Events of a time window that are late and have not left yet, because no event came: where the window becomes another one they leave first.

On rows a timer has let them go. In a running window they leave before the next event, which comes to the same; under another time they might stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nadi.functions.arithmetic import wrap_long
from nadi.kernel.columns.asrows.aggregates import Kept, kept_of
from nadi.kernel.columns.asrows.texts import texts
from nadi.kernel.columns.flat import Block
from nadi.plan.nodes import Const, Query, SingleInput

Group = dict[str, Any]


def without_late(query: Query, blocks: Iterable[Block], now: int) -> Iterator[Block]:
    """The state of a query with aggregators over `time` or `timeLength`, as its operator's `contents` gives it, after what is late at `now` has left."""
    assert isinstance(query.input, SingleInput)
    window = query.input.window
    if window is None or window.name == "length":
        yield from blocks
        return
    span = window.args[0].value if isinstance(window.args[0], Const) else 0
    assert isinstance(span, int)
    leaving = _Leaving(query, now - span)
    for block in blocks:
        yield leaving.groups(block) if block.letter == "g" else leaving.window(block)


class _Leaving:
    """Windows come before groups: what each group loses is noted until it comes."""

    def __init__(self, query: Query, before: int) -> None:
        self._before = before
        self._accumulators, self._arguments = kept_of(query.selection.aggregates)
        self._waiting: set[str] = set()  # keys whose oldest event stays
        self._taken: dict[str, list[tuple[Any, ...]]] = {}

    def window(self, block: Block) -> Block:
        """The events that stay: all from the first one of its queue that is not late."""
        arrays = block.arrays
        names = texts(arrays) or [""]
        coded = next(
            (arrays[name] for name in ("key", "group") if name in arrays), np.zeros(len(arrays["ts"]), np.int32)
        )
        codes, chained = coded.tolist(), block.letter == "k"
        values = [
            [None if null else value for value, null in zip(arrays[f"a{i}"].tolist(), arrays[f"z{i}"].tolist())]
            for i in range(len(self._arguments))
        ]
        stays = []
        for at, ts in enumerate(arrays["ts"].tolist()):
            name = names[codes[at]]
            queue = name if chained else ""
            if queue not in self._waiting and ts > self._before:
                self._waiting.add(queue)
            if queue in self._waiting:
                stays.append(at)
            else:
                self._taken.setdefault(name, []).append(tuple(column[at] for column in values))
        per_event = {n: a[stays] for n, a in arrays.items() if n not in ("ends", "texts", "taken")}
        return replace(block, arrays={**arrays, **per_event})

    def groups(self, block: Block) -> Block:
        """The groups without what has left."""
        names = texts(block.arrays) or [""]
        arrays = {n: a.copy() for n, a in block.arrays.items() if n not in ("ends", "texts")}
        for at, name in enumerate(names):
            for values in self._taken.get(name, ()):
                group = {n: a[at].item() for n, a in arrays.items()}
                for one in self._accumulators:
                    _take(one, group, None if one.argument is None else values[one.argument])
                _renew(self._accumulators, group)
                for n, value in group.items():
                    arrays[n][at] = value
        return replace(block, arrays={**block.arrays, **arrays})


def _take(one: Kept, group: Group, value: Any) -> None:
    """As `Accumulator.take` in a loop."""
    n, s = f"n{one.number}", f"s{one.number}"
    if one.function == "count":
        group[n] -= 1
        return
    if value is None:
        return
    group[s] = wrap_long(group[s] - value) if one.whole else group[s] - value
    group[n] -= 1
    if not one.whole and group[n] == 0 and abs(group[s]) <= 1e-9 * abs(value):
        group[s] *= 0.0


def _renew(accumulators: Iterable[Kept], group: Group) -> None:
    """A group that is as if it had seen nothing begins anew."""
    if not any(group.values()):
        for one in accumulators:
            if isinstance(group.get(f"s{one.number}"), float):
                group[f"s{one.number}"] = 0.0
