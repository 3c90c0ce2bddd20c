"""Events of a time window that are late and have not left yet, because no event came: where the window becomes another one they leave first.

On rows a timer has let them go. In a running window they leave before the next event, which comes to the same; under another time they might stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import nan
from typing import Any

from nadi.functions.arithmetic import wrap_long
from nadi.kernel.columns.asrows.aggregates import Kept, kept_of
from nadi.kernel.columns.asrows.held import Events, Grouping
from nadi.kernel.columns.asrows.texts import texts
from nadi.kernel.columns.flat import Block
from nadi.plan.aggregatortraits import Looks
from nadi.plan.columns.windowsupport import shows_expired
from nadi.plan.nodes import App, Const, Query, SingleInput

Group = dict[str, Any]
_BY_EVENT = ("ts", "key", "group", "kept", "time")


def without_late(query: Query, app: App, blocks: Iterable[Block], now: int) -> Iterator[Block]:
    """The state of a query as its operator's `contents` gives it, where it has aggregators over `time` or `timeLength` after what is late at `now` has left."""
    window = query.input.window if isinstance(query.input, SingleInput) else None
    if (
        window is None
        or window.name not in ("time", "timeLength")
        or not query.selection.aggregates
        or shows_expired(query)
    ):
        yield from blocks
        return
    span = window.args[0].value if isinstance(window.args[0], Const) else 0
    assert isinstance(span, int)
    leaving = _Leaving(query, app, now - span)
    for block in blocks:
        yield leaving.left_of(block)


class _Leaving:
    """Windows come before groups, and these before the pairs of `distinctCount`: what each loses is noted until it comes."""

    def __init__(self, query: Query, app: App, before: int) -> None:
        self._query, self._before = query, before
        self._accumulators, self._arguments = kept_of(query.selection.aggregates)
        self._grouping = Grouping(query, app)
        self._waiting: set[str] = set()  # keys whose oldest event stays
        self._taken: dict[str, list[tuple[Any, ...]]] = {}
        self._stays: dict[str, list[tuple[Any, ...]]] = {}
        self._pairs: dict[int, Counter[str]] = {
            a.number: Counter() for a in self._accumulators if a.counted is not None
        }

    def left_of(self, block: Block) -> Block:
        """What is left of a block."""
        if block.element == self._query.selector_id:
            return self._groups(block) if block.letter == "g" else self._counts(block)
        return self._window(block) if block.letter in ("q", "k") else block

    def _window(self, block: Block) -> Block:
        """The events that stay: all from the first one of its queue that is not late."""
        events = Events(block, self._grouping, self._accumulators, self._arguments)
        looks_back = any(a.extreme or a.counted is not None for a in self._accumulators)
        pairs = list(zip(*events.pairs.values())) or [()] * len(events)
        stays = []
        for at, (key, ts) in enumerate(zip(events.keys, events.ts)):
            if key not in self._waiting and ts > self._before:
                self._waiting.add(key)
            left = key not in self._waiting
            if not left:
                stays.append(at)
            if events.kept[at] and (left or looks_back):
                told = self._taken if left else self._stays
                told.setdefault(events.groups[at], []).append((events.arguments[at], pairs[at]))
        own = {n: a[stays] for n, a in block.arrays.items() if n in _BY_EVENT or n[1:].isdigit()}
        return replace(block, arrays={**block.arrays, **own})

    def _groups(self, block: Block) -> Block:
        """The groups without what has left."""
        names = texts(block.arrays) or [""]
        arrays = {n: a.copy() for n, a in block.arrays.items() if n not in ("ends", "texts", "prefix")}
        for at, name in enumerate(names):
            if name not in self._taken:
                continue
            group = {n: a[at].item() for n, a in arrays.items()}
            for values, _pairs in self._taken[name]:
                for one in self._accumulators:
                    _take(one, group, None if one.argument is None else values[one.argument])
                _renew(self._accumulators, group)
            self._look_back(name, group)
            _renew(self._accumulators, group)
            for n, value in group.items():
                arrays[n][at] = value
        return replace(block, arrays={**block.arrays, **arrays})

    def _look_back(self, name: str, group: Group) -> None:
        """What is made of the events that stay: extremes, how many different values there are."""
        stays, number = self._stays.get(name, ()), 0
        for one in self._accumulators:
            if one.extreme and one.argument is not None:
                _extreme(one, group, [v for values, _pairs in stays if (v := values[one.argument]) is not None])
            elif one.counted is not None:
                self._pairs[one.number].update(p[number] for _values, p in self._taken[name] if p[number] is not None)
                group[f"n{one.number}"] = len({p[number] for _values, p in stays if p[number] is not None})
                number += 1

    def _counts(self, block: Block) -> Block:
        """The pairs without those that have left."""
        name = f"pc{block.letter[1:]}"
        gone = self._pairs[int(block.letter[1:])]
        counts = block.arrays[name].copy()
        for at, text in enumerate(texts(block.arrays)):
            counts[at] -= gone.get(text, 0)
        return replace(block, arrays={**block.arrays, name: counts})


def _take(one: Kept, group: Group, value: Any) -> None:
    """As `take` of an aggregator in a loop."""
    if one.counted is not None or one.extreme or one.traits.forever:
        return  # made of the events that stay, or of all that ever came
    if value is not None or one.traits.looks is Looks.NOTHING:
        UNDOING[one.function](one, group, value)


def _undo_count(one: Kept, group: Group, _value: Any) -> None:
    group[f"n{one.number}"] -= 1


def _undo_truth(one: Kept, group: Group, value: Any) -> None:
    group[f"{'n' if value else 's'}{one.number}"] -= 1


def _undo_sum(one: Kept, group: Group, value: Any) -> None:
    n, s = f"n{one.number}", f"s{one.number}"
    group[s] = wrap_long(group[s] - value) if one.whole else group[s] - value
    group[n] -= 1
    if not one.whole and group[n] == 0 and abs(group[s]) <= 1e-9 * abs(value):
        group[s] *= 0.0


def _undo_deviation(one: Kept, group: Group, value: Any) -> None:
    """As `Deviation.take`."""
    n, s, u, w = (f"{name}{one.number}" for name in "nsuw")
    before = group[u]
    group[n] -= 1
    if group[n] == 0:
        group[s] = group[u] = group[w] = 0.0
    else:
        group[s] -= value
        group[u] = group[s] / group[n]
        group[w] -= (value - before) * (value - group[u])


UNDOING: dict[str, Callable[[Kept, Group, Any], None]] = {
    "count": _undo_count,
    "sum": _undo_sum,
    "avg": _undo_sum,
    "stdDev": _undo_deviation,
    "and": _undo_truth,
    "or": _undo_truth,
}
"""What takes a value off an aggregator, of those that are not made of the events that stay."""


def _extreme(one: Kept, group: Group, stays: list[Any]) -> None:
    """What `min` or `max` shows of the values that stay: NaN only where no number does."""
    n, s = f"n{one.number}", f"s{one.number}"
    held = [value for value in stays if value == value]
    nans = len(stays) - len(held)
    shown = (max(held) if one.function == "max" else min(held)) if held else nan if nans else 0
    if not one.whole:
        zeros = f"zc{one.number}", f"zr{one.number}"
        group[zeros[0]] = sum(value == 0.0 for value in held)
        if not group[zeros[0]]:
            group[zeros[1]] = 0.0
        shown = group[zeros[1]] if shown == 0.0 and held else float(shown)
    group[n], group[s] = bool(held) + 2 * nans, shown


def _renew(accumulators: Iterable[Kept], group: Group) -> None:
    """A group that is as if it had seen nothing begins anew."""
    if not any(group.values()):
        for one in accumulators:
            if isinstance(group.get(f"s{one.number}"), float):
                group[f"s{one.number}"] = 0.0
