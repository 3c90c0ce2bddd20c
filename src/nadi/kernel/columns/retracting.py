"""Aggregators over events that come and events that have left, of which a column tells (`expiring`): what has left is taken off.

Nothing is held of an event, as it comes whole when it leaves. Any may leave next, so that `min` and `max` have bags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.accumulating import Aggregator, InBags, accumulators
from nadi.kernel.columns.bags import CALLS, Bags
from nadi.kernel.columns.code import Term
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.distinct import Distinct, Pairs
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.ranking import Different, Ranked
from nadi.kernel.columns.selecting import Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import Stretch
from nadi.lang.tree import Events, Type
from nadi.plan.nodes import Attr, Query


class Retracting:
    """The operator behind `Expiring`; the last of the columns that it reads tells what has left."""

    def __init__(self, query: Query, given: Input) -> None:
        selection = query.selection
        self._key = given.key
        self._accumulators, arguments = accumulators(selection.aggregates, True, InBags.EXTREMES)
        arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr))
        by = by if given.key is None else (given.key, *by)
        self.groups = Groups(query.selector_id, by, tuple(given.types[p] for p in by), arrays, given.sharded)
        distinct = [a for a in self._accumulators if isinstance(a, Distinct)]
        self._pairs = Pairs(distinct, query.selector_id, by, given.types, given.sharded)
        ranked = [a for a in self._accumulators if isinstance(a, (Ranked, Different))]
        self._bags = Bags(ranked, query.selector_id, self.groups)
        text = self._text = LoopText(given.types)
        write_filters(text, given)
        self._write([text.writer.term(argument) for argument in arguments], query.output.events)
        rule = Rule.GROUP if selection.group_by else Rule.CHUNK
        self._selected = Selected(SelectionText(text, selection, rule).picked, given.types)
        text.own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]"}
        text.own |= {**self._pairs.parameters, **self._bags.parameters}
        text.own |= {"groups": "const int32[]"} if by else {}
        text.names |= CALLS if self._bags else {}
        self._loop = text.compiled("retracting")
        self._chunks = 0  # how many chunks there were, at least: `opened` of the groups has their numbers
        self.elements = (self.groups.element,)

    # ---- the loop

    def _write(self, values: list[Term], shows: Events) -> None:
        """The lines for an event that comes or has left."""
        write = self._text.writer
        line = write.line
        line("g = groups[i]" if self.groups.grouped else "g = 0")
        line("touched[g] = True")
        left = write.term(Attr(0, len(write.types) - 1, Type.BOOL)).text
        terms = [self._term(one, values) for one in self._accumulators]
        line(f"if {left}:")
        with write.indented():
            for one, term in zip(self._accumulators, terms, strict=True):
                one.take(write, term, "g")
            self._begin_anew()
        line("else:")
        with write.indented():
            for one, term in zip(self._accumulators, terms, strict=True):
                one.add(write, term, "g")
        write.aggregates = {one.number: one.shown(write) for one in self._accumulators}
        if shows is Events.EXPIRED:
            line(f"if not {left}: continue")

    def _term(self, one: Aggregator, values: list[Term]) -> Term:
        """The value that an aggregator looks at, or the pair that `distinctCount` counts."""
        if isinstance(one, Distinct):
            return Term(self._text.writer.name(one.held(self._text.writer)))
        return Term("") if one.argument is None else values[one.argument]

    def _begin_anew(self) -> None:
        """A group that is as if it had seen nothing begins anew: its sums are 0.0 and not -0.0."""
        line = self._text.writer.line
        sums = [f"s{a.number}" for a in self._accumulators if a.arrays.get(f"s{a.number}") == "float64"]
        if sums:
            line(f"if {' and '.join(a.fresh() for a in self._accumulators)}:")
            for name in sums:
                line(f"    {name}[g] = 0.0")

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """One row for each chunk and group of it, if one of its events is wanted."""
        stretch = taking_part(given, self._key)
        if stretch is None:
            return None
        groups = self.groups
        own = self._selected.room(stretch.size)
        if groups.grouped:
            own["groups"], own["base"], own["alone"] = groups.numbers(stretch), self._chunks, stretch.alone
        own |= self._pairs.given(stretch)
        own |= self._bags.own(stretch.size) if self._bags else {}
        self._loop(stretch, own, self._selected.held, groups.own)
        self._chunks += stretch.size if stretch.apart else int(stretch.chunk[-1]) + 1
        if groups.may_sweep:
            groups.sweep(_NO_GROUPS)
        self._pairs.sweep()
        return self._selected.stretch(stretch)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The groups that were touched."""
        yield from self.groups.changes()
        yield from self._pairs.changes()
        yield from self._bags.changes()

    def contents(self) -> Iterator[Block]:
        """All groups."""
        yield from self.groups.contents()
        yield from self._pairs.contents()
        yield from self._bags.contents()

    def apply(self, block: Block) -> None:
        """Put back groups."""
        if self._pairs.is_of(block):
            self._pairs.apply(block)
        elif not self._bags.apply(block):
            self.groups.apply(block)

    def clear(self) -> None:
        """Forget all."""
        self.groups.clear()
        self._pairs.clear()
        self._bags.clear()

    def size(self) -> dict[str, int]:
        """Groups known."""
        return {self.groups.element: self.groups.size()}


_NO_GROUPS = np.zeros(0, np.int32)
