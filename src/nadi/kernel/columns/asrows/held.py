"""The events that a block of a sliding window tells of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nadi.kernel.columns.asrows.aggregates import Kept, leaves_of
from nadi.kernel.columns.asrows.texts import texts, values
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.keying import key_of
from nadi.kernel.columns.keytable import BETWEEN, NULL
from nadi.kernel.columns.stretch import Array
from nadi.lang.tree import Type
from nadi.plan.nodes import App, Attr, Expr, Query, SingleInput

Row = tuple[Any, ...]


class Grouping:
    """How a query groups. `key` is the attribute by which its partition splits events, `by` are all attributes whose values are the text of a group."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, SingleInput)
        self.key = key_of(query, query.input.source, app)
        by = tuple(k for k in query.selection.group_by if isinstance(k, Attr))
        self.by = by if self.key is None else (self.key, *by)
        self.kinds = tuple(k.type for k in self.by)

    @property
    def apart(self) -> bool:
        """Whether each key has groups of its own."""
        return self.key is not None and len(self.by) > 1

    def split(self, text: str) -> tuple[str, str]:
        """The flow key and the group on rows, of the text of a group here."""
        if self.key is None:
            return "", text
        key, _between, rest = text.partition(BETWEEN) if self.apart else (text, "", "")
        return key, rest


class Events:
    """By event: `keys` of the queue that it stands in, `groups` (both texts), `arguments`, `kept` (whether it passed the filters behind the window), and by
    aggregator the text of what `distinctCount` counts."""

    def __init__(
        self, block: Block, grouping: Grouping, accumulators: Sequence[Kept], arguments: Sequence[Expr]
    ) -> None:
        self._arrays = arrays = block.arrays
        self._accumulators, self._arguments = accumulators, arguments
        count = len(arrays["ts"])
        self.ts: list[int] = arrays["ts"].tolist()
        self.keys, self.groups = _named(arrays, grouping, count)
        columns = [_nullable(arrays[f"a{i}"], arrays[f"z{i}"]) for i in range(len(arguments))]
        self.arguments: list[Row] = list(zip(*columns)) if columns else [()] * count
        self.kept: list[bool] = arrays["kept"].tolist() if "kept" in arrays else [True] * count
        self.pairs = {a.number: _pairs(arrays, f"e{a.number}") for a in accumulators if a.counted is not None}

    def __len__(self) -> int:
        return len(self.ts)

    def rows(self, width: int, grouping: Grouping, time: int | None) -> Iterator[Row]:
        """The events with what is known of them; `time` is the attribute that is the window's clock."""
        columns: list[list[Any]] = [[None] * len(self) for _ in range(width)]
        for number, argument in enumerate(self._arguments):
            if isinstance(argument, Attr):
                columns[argument.position] = [row[number] for row in self.arguments]
        for number, leaf in enumerate(leaves_of(self._arguments)):
            columns[leaf.position] = _nullable(self._arrays[f"c{number}"], self._arrays[f"y{number}"])
        for one in self._accumulators:
            if one.counted is not None:
                columns[one.counted.position] = [
                    None if text is None else counted(text, grouping, one)[1] for text in self.pairs[one.number]
                ]
        if time is not None:
            columns[time] = self._arrays["time"].tolist()
        known = {text: values(text, grouping.kinds) for text in dict.fromkeys(self.groups)} if grouping.by else {}
        for place, key in enumerate(grouping.by):
            if key.position == width:  # made for the partition
                continue
            columns[key.position] = [known[text][place] for text in self.groups]
        return zip(*columns)


def counted(text: str, grouping: Grouping, one: Kept) -> tuple[str, Any]:
    """The group's text and the value of a pair of `distinctCount`."""
    assert one.counted is not None
    if not grouping.by:
        return "", _value(text, one.kind)
    if one.kind is not Type.STRING:
        group, _between, last = text.rpartition(BETWEEN)
        return group, values(last, (one.kind,))[0]
    parts = text.split(BETWEEN)
    held = len(grouping.by)
    return BETWEEN.join(parts[:held]), _value(BETWEEN.join(parts[held:]), one.kind)


def _value(text: str, kind: Type) -> Any:
    return None if text == NULL else values(text, (kind,))[0]


def _named(arrays: Mapping[str, Array], grouping: Grouping, count: int) -> tuple[list[str], list[str]]:
    if not grouping.by:
        return [""] * count, [""] * count
    names = texts(arrays)
    if grouping.key is None:
        return [""] * count, [names[code] for code in arrays["group"].tolist()]
    keys = [names[code] for code in arrays["key"].tolist()]
    if not grouping.apart:
        return keys, keys
    groups = texts({part: arrays[f"group.{part}"] for part in ("ends", "texts")})
    return keys, [groups[code] for code in arrays["group"].tolist()]


def _pairs(arrays: Mapping[str, Array], name: str) -> list[str | None]:
    known = texts({part: arrays[f"{name}.{part}"] for part in ("ends", "texts")})
    return [None if code < 0 else known[code] for code in arrays[name].tolist()]


def _nullable(given: Array, nulls: Array) -> list[Any]:
    return [None if null else value for value, null in zip(given.tolist(), nulls.tolist())]
