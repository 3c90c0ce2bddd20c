"""The lines for aggregators over a join: add for the rows that come, take off for those of events that leave (semantics/joins.md#expired-events-join)."""

from __future__ import annotations

from collections.abc import Iterable

from nadi.kernel.columns.accumulating import Aggregator, InBags, accumulators
from nadi.kernel.columns.bags import END, FREE, parameters_of
from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.joins.layout import Layout, Side, at_hand, leaving
from nadi.kernel.columns.keytable import BETWEEN
from nadi.kernel.columns.ranking import Different, Ranked
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Expr

_NO_TERM = Term("")


class Totalling:
    """Writes them. Groups are the partition's keys, or the texts of an attribute by their numbers in the operator's table; there is one where there is neither.

    The loop gets, by group: the aggregators' arrays, `changed` (set for the next delta), `seen` and `slot` (the event that brought a row to it last, by its
    number, and where that row is). Where a side has no window an event of it empties all groups in the end: `dirty` has those that are to be emptied, `listed`
    says which these are, `counts[0]` how many. `null_id` is the number of the text `null`.
    """

    def __init__(self, layout: Layout, writer: Writer) -> None:
        self._layout = layout
        self._writer = writer
        # events leave for reasons of either side, in no order
        self.accumulators, self._arguments = accumulators(layout.aggregates, removes=True, bags=InBags.ALL)
        self.ranked = tuple(one for one in self.accumulators if isinstance(one, (Ranked, Different)))
        self.arrays = {name: dtype for one in self.accumulators for name, dtype in one.arrays.items()}
        self.holds = bool(layout.aggregates)  # without, groups tell no more than how many rows come out
        self.apart = self.holds and layout.grouped and layout.partitioned  # groups for each key
        self.null = BETWEEN.join("null" for side in layout.sides for _ in side.group) or "null"
        self.empties = self.holds and layout.grouped and any(side.empties for side in layout.sides)

    @property
    def parameters(self) -> dict[str, str]:
        """What the loop gets."""
        dirty = {"listed": "bool[]", "dirty": "int64[]", "counts": "int64[]"} if self.empties else {}
        return {
            "null_id": "int64",
            **{name: f"{dtype}[]" for name, dtype in self.arrays.items()},
            **{name: dtype for one in self.ranked for name, dtype in parameters_of(one.number, one.whole).items()},
            "changed": "bool[]",
            "seen": "int64[]",
            "slot": "int64[]",
            **dirty,
        }

    def add(self, side: Side, other: str) -> None:
        """The lines for a row that comes. `other` is the group of the event that is not at hand, where output is grouped by it."""
        group = side.group_text if side.group else other
        values = self._begin(group, (at_hand(a, side.slot, side.start) for a in self._arguments))
        shown = {}
        for one in self.accumulators:
            value = _NO_TERM if one.argument is None else values[one.argument]
            one.add(self._writer, value, "h")
            shown[one.number] = self._shown(one, value)
        self._writer.aggregates = shown

    def take(self, side: Side, own: str, other: str) -> None:
        """The lines for a row of an event that leaves."""
        values = self._begin(own if side.group else other, (leaving(a, side.slot) for a in self._arguments))
        for one in self.accumulators:
            # more may leave than came: what is held forever sees that, too
            step = one.add if one.forever else one.take
            step(self._writer, _NO_TERM if one.argument is None else values[one.argument], "h")
        sums = [name for a in self.accumulators for name, dtype in a.arrays.items() if dtype == "float64"]
        if sums:  # as in a window: a group that is as if it had seen nothing begins anew
            self._writer.line(f"if {' and '.join(a.fresh() for a in self.accumulators)}:")
            for name in sums:
                self._writer.line(f"    {name}[h] = 0.0")

    def _begin(self, group: str, arguments: Iterable[Expr]) -> tuple[Term, ...]:
        line = self._writer.line
        line(f"h = {group}" if self._layout.grouped else "h = g")
        if self.holds:
            line("changed[h] = True")
        if self.empties:
            line("if not listed[h]:")
            for text in ("listed[h] = True", "dirty[counts[0]] = h", "counts[0] += 1"):
                line(f"    {text}")
        return tuple(map(self._value, arguments))

    def _value(self, argument: Expr) -> Term:
        if isinstance(argument, Attr) and argument.type is Type.STRING:
            return self._writer.bound[argument.slot, argument.position]
        return self._writer.term(argument)

    def full(self) -> str:
        """The text that is true where there may be no room for a row's values."""
        return "".join(
            f" or (bm{n}[{FREE}] == 0 and bm{n}[{END}] >= len(bw{n}))" for n in (one.number for one in self.ranked)
        )

    def _shown(self, one: Aggregator, value: Term) -> Term:
        """A value after a row that came. More may have been taken off than was put in: a sum of no values is one as soon as a value was added."""
        if one.function != "sum":
            return one.shown(self._writer)
        return Term(f"s{one.number}_", self._writer.name(f"n{one.number}_ == 0 and {value.null}") if value.null else "")

    def place(self) -> str:
        """The lines that find where a row is to be written: what an event brings to a group is one row, the last one."""
        line = self._writer.line
        for text in ("if seen[h] == serial:", "    place = slot[h]", "else:", "    place = k", "    k += 1"):
            line(text)
        line("    seen[h] = serial")
        line("    slot[h] = place")
        return "place"

    def reset(self) -> None:
        """The lines that empty all groups: after an event of a side without a window, before a batch."""
        line = self._writer.line
        if self.empties:
            line("for each in range(counts[0]):")
            line("    h = dirty[each]")
            line("    listed[h] = False")
        else:
            line("h = g")
        indent = "    " if self.empties else ""
        line(f"{indent}changed[h] = True")
        for one in self.accumulators:
            for text in one.clear("h"):
                line(f"{indent}{text}")
        if self.empties:
            line("counts[0] = 0")
