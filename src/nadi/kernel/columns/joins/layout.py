"""What a join is made of, as its loop sees it: two sides, what each holds of its events, and what it asks of the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nadi.kernel.columns.joins.places import FIXED, LINKS
from nadi.kernel.columns.patterns.sources import Sources, sources_named
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import (
    OUTPUT,
    Aggregate,
    App,
    Attr,
    Comparison,
    Const,
    Expr,
    FilterStep,
    JoinInput,
    Query,
    WindowCall,
)
from nadi.plan.walk import conjuncts, inside, read, replaced

NO_BIT = 62
"""Of what is never null."""
HOARD = "every batch"
LAST = "last batch"
"""The windows that hold all chunks, and the last one, of what a stage lets go on; no app can name them."""
_INDEXED = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)
_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Side:
    """One side. Positions are those of its stream; `start` is where its columns begin among those of all sources.

    `held`: its window is looked into. Of a held event `captured` are the attributes that are kept, `keyed` those that are the text of the partition's key.
    `index` are the attributes that the other side wants to be equal to those at the same place of its own `index`.
    `group` are the attributes by which output is grouped, if they are those of this side.
    `on` are the conditions under which an event of this side meets one of the other; there, and in `values` and `having`, the event at hand is in
    slot 0, by column, and the other one in slot 1, by position.
    """

    slot: int
    source: int
    start: int
    types: tuple[Type, ...]
    filters: tuple[Expr, ...]
    window: WindowCall | None
    partitioned: bool
    held: bool
    triggers: bool
    outer: bool
    captured: tuple[int, ...]
    keyed: frozenset[int]
    index: tuple[int, ...]
    group: tuple[int, ...]
    on: tuple[Expr, ...]
    values: tuple[Expr, ...]
    having: Expr | None

    @property
    def span(self) -> int:
        """The window's number: ms, or how many events; of `timeLength` the first one."""
        return self._number(-1 if self.most is None else 0)

    @property
    def most(self) -> int | None:
        """How many events `timeLength` holds; None of other windows."""
        return self._number(1) if self.window is not None and self.window.name == "timeLength" else None

    @property
    def batches(self) -> bool:
        """Whether the window takes whole chunks, each of which empties aggregators: it holds the last one, which the next one lets go, or `hoards`."""
        return self.window is not None and self.window.name in ("batch", "timeBatch", LAST, HOARD)

    @property
    def opens(self) -> bool:
        """Whether its first chunk empties nothing: the window `batch` of Siddhi has no batch before. It then holds no event; one that holds none at any
        time has nothing to empty that is not of its own events."""
        return self.held and self.window is not None and self.window.name == "batch"

    @property
    def hoards(self) -> bool:
        """Whether the window holds all chunks that there ever were."""
        return self.window is not None and self.window.name == HOARD

    @property
    def period(self) -> int | None:
        """The period of a chunk that ends by itself (ms): a window that does not hoard lets it go after another one."""
        timed = self.window is not None and (self.window.name == "timeBatch" or (self.hoards and self.window.args))
        return self._number(0) if timed else None

    @property
    def piece(self) -> int | None:
        """The length of the pieces into which `batch` cuts a chunk; None where it does not."""
        cut = self.window is not None and self.window.name == "batch" and self.window.args
        return self._number(0) if cut else None

    @property
    def empties(self) -> bool:
        """Whether its events empty all groups: without a window behind each of them, in batches before the first."""
        return self.triggers and (self.window is None or self.batches)

    def _number(self, place: int) -> int:
        assert self.window is not None
        argument = self.window.args[place]
        assert isinstance(argument, Const)  # as islands says
        return int(argument.value or 0)

    @property
    def timed(self) -> bool:
        """Whether events leave the window by time."""
        return self.window is not None and self.window.name in ("time", "timeLength")

    @property
    def clock(self) -> int | None:
        """The attribute that is the window's clock; None where time is that of the app, or none."""
        first = self.window.args[0] if self.window is not None and self.window.args else None
        return first.position if isinstance(first, Attr) else None

    @property
    def owner_word(self) -> int:
        """Where a node has its key, 0 for nowhere: buckets of a partition may have events of several keys."""
        return FIXED + LINKS if self.index and self.partitioned else 0

    @property
    def first_word(self) -> int:
        """Where in a node the captured attributes begin."""
        return FIXED + (LINKS if self.index else 0) + (1 if self.owner_word else 0)

    def word(self, position: int) -> int:
        """Where a node has the value of a captured attribute."""
        return self.first_word + self.captured.index(position)

    def null_bit(self, position: int) -> int:
        """Which bit says that it is null; the lowest one says something else."""
        return 1 + self.captured.index(position)

    @property
    def group_word(self) -> int:
        """Where a node has the number of its group's text, 0 for nowhere."""
        return self.first_word + len(self.captured) if self.group else 0

    @property
    def group_text(self) -> str:
        """The number of the group's text, of an event at hand: one of its own where several texts make it, the partition's key being one of them."""
        alone = len(self.group) == 1 and not self.partitioned
        return f"s_{self.start + self.group[0]}" if alone else f"y_{self.slot}"

    @property
    def node_width(self) -> int:
        """Words of a node."""
        return self.first_word + len(self.captured) + bool(self.group)


@dataclass(frozen=True, slots=True)
class Layout:
    """A join: its sources, its left and right side, its conditions and aggregators as the plan has them."""

    sources: Sources
    sides: tuple[Side, Side]
    on: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def grouped(self) -> bool:
        """Whether output is grouped by attributes."""
        return any(side.group for side in self.sides)

    @property
    def cuts(self) -> bool:
        """Whether what comes of a chunk may be several ones."""
        alone = len(self.sources.names) == 1  # its events are chunks by themselves
        return not alone and any(side.triggers and side.piece is not None for side in self.sides)

    @property
    def partitioned(self) -> bool:
        """Whether each key has windows of its own."""
        return bool(self.sources.keys)


def lay_out(query: Query, app: App) -> Layout:
    """The layout of a join that `nadi.plan.columns.joinsupport` lets through."""
    join = query.input
    assert isinstance(join, JoinInput)
    sources = sources_named(query, app, tuple(dict.fromkeys(read(query).values())))
    given = (join.left, join.right)
    numbers = tuple(sources.names.index(side.input.source) for side in given)
    keys = tuple(sources.keys[n] - sources.starts[n] if sources.keys else -1 for n in numbers)
    types = tuple(app.streams[side.input.source].schema.types for side in given)
    parts = () if join.on is None else tuple(conjuncts(join.on))
    parts = tuple(part for part in parts if not _same_key(part, keys))
    pairs = tuple(pair for part in parts if (pair := _equal(part)) is not None)
    by = tuple((key.slot, key.position) for key in query.selection.group_by if isinstance(key, Attr))
    looked = (
        *parts,
        *query.selection.values,
        *query.selection.aggregates,
        *(() if query.selection.having is None else (query.selection.having,)),
    )
    sides = []
    for slot, side in enumerate(given):
        start = sources.starts[numbers[slot]]
        key = keys[slot]
        index = tuple(pair[slot] for pair in pairs)
        own = 0 <= key < len(types[slot])  # and no key that was made
        keyed = frozenset({key} if own and types[slot][key] is Type.STRING and key not in index else ())
        read_of = {part.position for part in _attributes(looked) if part.slot == slot}
        if side.input.window is not None:  # its clock, if that is an attribute
            read_of |= {part.position for part in _attributes(side.input.window.args)}
        sides.append(
            Side(
                slot,
                numbers[slot],
                start,
                types[slot],
                tuple(at_hand(s.condition, 0, start) for s in side.input.steps if isinstance(s, FilterStep)),
                side.input.window,
                query.partition is not None,
                side.input.window is not None
                and (given[1 - slot].triggers or (side.triggers and bool(query.selection.aggregates))),
                side.triggers,
                side.outer,
                tuple(sorted(read_of - keyed)),
                keyed,
                index,
                tuple(position for other, position in by if other == slot),
                tuple(at_hand(part, slot, start) for part in parts),
                tuple(at_hand(value, slot, start) for value in query.selection.values),
                None if query.selection.having is None else at_hand(having_of(query.selection), slot, start),
            )
        )
    return Layout(sources, (sides[0], sides[1]), parts, query.selection.aggregates)


def strings(layout: Layout, side: Side) -> Iterator[int]:
    """The columns of a side whose texts its loop needs as numbers: strings, and what groups."""
    positions = [*side.captured, *side.index] if side.held else list(side.index)
    columns = {side.start + p for p in positions}
    columns |= {p.position for p in _attributes(_computed(layout, side)) if p.slot == 0}
    grouped = {side.start + p for p in side.group if side.group_text.startswith("s")}
    return (c for c in sorted(columns | grouped) if layout.sources.types[c] is Type.STRING or c in grouped)


def read_columns(layout: Layout, side: Side) -> tuple[int, ...]:
    """The columns of a side that are no strings and that its loop reads."""
    found = {p.position for p in _attributes((*side.filters, *_computed(layout, side))) if p.slot == 0}
    found |= {side.start + p for p in (*side.captured, *side.index)}
    return tuple(c for c in sorted(found) if layout.sources.types[c] is not Type.STRING)


def null_columns(layout: Layout, side: Side) -> tuple[int, ...]:
    """The columns of strings of which filters ask whether they are null."""
    found = {p.position for p in _attributes(side.filters)}
    return tuple(c for c in sorted(found) if layout.sources.types[c] is Type.STRING)


def _computed(layout: Layout, side: Side) -> tuple[Expr, ...]:
    having = () if side.having is None else (side.having,)
    return (*side.on, *side.values, *having, *(at_hand(a, side.slot, side.start) for a in layout.aggregates))


def leaving(expr: Expr, slot: int) -> Expr:
    """An expression as the loop computes it while the event of a slot leaves: that one is in slot 2, the other one in slot 1."""

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot == OUTPUT:
            return one
        return replace(one, slot=2 if one.slot == slot else 1)

    return replaced(expr, leaf)


def at_hand(expr: Expr, slot: int, start: int) -> Expr:
    """An expression as the loop computes it while the event of a slot is at hand."""

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot == OUTPUT:
            return one
        return replace(one, slot=0, position=start + one.position) if one.slot == slot else replace(one, slot=1)

    return replaced(expr, leaf)


def _equal(expr: Expr) -> tuple[int, int] | None:
    """The attributes of the left and the right side that a condition wants to be equal, where they can be looked up."""
    if not isinstance(expr, Comparison) or expr.op != "==":
        return None
    sides = {s.slot: s for s in (expr.left, expr.right) if isinstance(s, Attr)}
    if sides.keys() != {0, 1}:
        return None
    left, right = sides[0].type, sides[1].type
    if left not in _INDEXED or not (left is right or (left in _WHOLE and right in _WHOLE)):
        return None
    return sides[0].position, sides[1].position


def _same_key(expr: Expr, keys: tuple[int, ...]) -> bool:
    """Whether a condition says no more than that both events are of one key of the partition."""
    if _equal(expr) != keys:
        return False
    assert isinstance(expr, Comparison)
    return expr.left.type is expr.right.type


def _attributes(exprs: Iterable[Expr]) -> Iterator[Attr]:
    return (part for expr in exprs for part in inside(expr) if isinstance(part, Attr) and part.slot != OUTPUT)
