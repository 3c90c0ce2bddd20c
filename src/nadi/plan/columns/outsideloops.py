"""What the columns kernel computes outside of its loops: before them for each event, behind them for each row (columns/loops.md#functions).

Loops compute numbers and bools. What they cannot compute, strings above all, becomes attributes that are computed ahead: in

    from S[str:upper(k) == 'A'] select str:concat(k, v * 2) as t, sum(v) as s

the filter reads a further attribute of `S`, str:upper(k). Of the selection the loop gives k, v * 2 and sum(v), and the text is made of them for the rows that
come out. So operators never see such a function, and all of them can have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nadi.lang.tree import Type
from nadi.plan.annotations import found
from nadi.plan.chains import least_events
from nadi.plan.columns.certainty import NOTHING, Known, facts, failing
from nadi.plan.columns.functionsupport import CLOCKS, KNOWN, OF_NOW, clocked, is_looped, looped, unlooped
from nadi.plan.nodes import (
    OUTPUT,
    AbsentElement,
    Aggregate,
    App,
    Arithmetic,
    Attr,
    Call,
    Column,
    Comparison,
    Const,
    CountElement,
    EveryElement,
    Expr,
    FilterStep,
    JoinInput,
    Logic,
    LogicalElement,
    Negation,
    NextElement,
    NullCheck,
    Partition,
    Query,
    Schema,
    Selection,
    SingleInput,
    StateElement,
    StateInput,
    Step,
    StreamElement,
    ValueKey,
    links,
)
from nadi.plan.render import written
from nadi.plan.walk import inside, read, replaced


@dataclass(frozen=True, slots=True)
class Ahead:
    """A query as operators see it, in an app whose streams have the further attributes.

    `before`: by stream, what is computed of each event, in order, over its attributes and what stands before. `behind`: the same over the rows that the query
    gives, and which of all that are its output columns (attributes or constants); None where its rows are the output. `asks`: a function may fail on an event;
    rows are asked what comes of that one.
    """

    query: Query
    app: App
    before: Mapping[str, tuple[Expr, ...]]
    behind: tuple[tuple[Expr, ...], tuple[Attr | Const, ...]] | None = None
    asks: bool = False


def ahead(query: Query, app: App, alone: bool = True) -> Ahead:
    """What is to be computed outside of a query's loops. What cannot be stays in the query as it was. `alone`: rows may be asked (see `stands_alone`)."""
    if _is_inner(getattr(query.output, "target", ""), app):
        return Ahead(query, app, {})
    sources = () if has_made_key(query, app) else read(query).values()
    streams = {key: Deriving(len(app.streams[key].schema)) for key in sources if key in app.streams}
    rewriting = _Ahead(query, app, streams, alone)
    made, behind = rewriting.run()
    before = {key: tuple(d.made) for key, d in streams.items() if d.made}
    if not before and behind is None:
        return Ahead(query, app, {})
    return Ahead(made, _widened(app, query, made, before), before, behind, rewriting.asks)


def stands_alone(query: Query, app: App) -> bool:
    """Whether rows can be asked for single events of a query: it has no state, and nobody stands behind it at its stream, no sink either, whom a failure would
    concern."""
    source, selection = query.input, query.selection
    if not isinstance(source, SingleInput) or query.partition is not None or query.rate is not None:
        return False
    plain = selection.having is None and selection.limit is None and not (selection.order_by or selection.offset)
    if not plain or selection.aggregates or selection.group_by:
        return False
    last = [q.id for q in app.queries if source.source in read(q).values()][-1]
    stream = app.streams.get(source.source)
    heard = stream is None or f"!{source.source}" in app.streams or bool(found(stream.annotations, "sink"))
    return last == query.id and not heard and all(isinstance(step, FilterStep) for step in source.steps)


def _is_inner(stream: str, app: App) -> bool:
    """Whether a stream is one inside of a partition: its events have the key with them."""
    return stream in app.streams and app.streams[stream].partition is not None


def has_made_key(query: Query, app: App) -> bool:
    """Whether events have the key of a partition as a further attribute: there is one such place behind those of a stream."""
    both = set(read(query).values())
    if any(_is_inner(key, app) for key in both):
        return True
    partition = next((e for e in app.elements if isinstance(e, Partition) and e.id == query.partition), None)
    keys = () if partition is None else partition.keys
    return any(k.stream in both and not (isinstance(k, ValueKey) and isinstance(k.value, Attr)) for k in keys)


def _widened(app: App, query: Query, made: Query, before: Mapping[str, tuple[Expr, ...]]) -> App:
    streams = dict(app.streams)
    for key, exprs in before.items():
        more = tuple(Column(f"${n}", e.type) for n, e in enumerate(exprs))
        streams[key] = replace(streams[key], schema=Schema((*streams[key].schema.columns, *more)))

    def changed(one: Query) -> Query:
        return made if one is query else one

    elements = tuple(
        replace(e, queries=tuple(map(changed, e.queries))) if isinstance(e, Partition) else changed(e)
        for e in app.elements
    )
    return replace(app, streams=streams, elements=elements)


class Deriving:
    """Further attributes of rows, all in slot 0, which have `width` of their own."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.made: list[Expr] = []

    def column(self, expr: Expr) -> Attr | Const:
        """An expression as an attribute."""
        if isinstance(expr, (Attr, Const)):
            return expr
        if isinstance(expr, Call) and not looped(expr):
            made: Expr = replace(expr, args=tuple(map(self.column, expr.args)))
        else:
            made = unlooped(expr, self.column)
        if made not in self.made:
            self.made.append(made)
        return Attr(0, self._width + self.made.index(made), expr.type, name=written(expr))


# ---- queries ---------------------------------------------------------------------------------------------------------


class _Ahead:
    def __init__(self, query: Query, app: App, streams: Mapping[str, Deriving], alone: bool) -> None:
        self.asks = False
        self._query = query
        self._app = app
        self._alone = alone and stands_alone(query, app)
        self._streams = streams
        self._sources = read(query)
        self._known: Known = NOTHING
        self._clocks = isinstance(query.input, SingleInput) and query.input.window is None
        self._bound: dict[int, int] = {}  # of the slots of a pattern, how many events they have at least
        self._own: int | None = None
        self._missing: tuple[int, ...] = ()  # sides of an outer join that rows of the other one come out without

    def run(self) -> tuple[Query, tuple[tuple[Expr, ...], tuple[Attr | Const, ...]] | None]:
        query = self._query
        match query.input:
            case SingleInput() as source:
                given: SingleInput | JoinInput | StateInput = self._single(source, 0)
            case JoinInput(left=left, right=right, on=on) as join:
                sides = (replace(side, input=self._single(side.input, n)) for n, side in enumerate((left, right)))
                self._known = NOTHING
                given = replace(join, left=next(sides), right=next(sides), on=None if on is None else self._loop(on))
                self._missing = (*((1,) if left.outer else ()), *((0,) if right.outer else ()))
            case StateInput() as state:
                given = replace(state, root=self._state(state.root))
        selection, behind = self._selection(query.selection)
        return replace(query, input=given, selection=selection), behind

    def _single(self, source: SingleInput, side: int) -> SingleInput:
        """Filters, each of which knows what those before it let through."""
        self._known = NOTHING
        steps: list[Step] = []
        for step in source.steps:
            if isinstance(step, FilterStep):
                steps.append(replace(step, condition=self._loop(step.condition, side)))
                self._known |= facts(step.condition)
            else:
                steps.append(step)
        return replace(source, steps=tuple(steps))

    def _state(self, node: StateElement) -> StateElement:
        """A part of a pattern with its conditions, which know what those before it have bound."""
        made = self._part(node)
        self._bound |= least_events(node)
        return made

    def _part(self, node: StateElement) -> StateElement:
        match node:
            case StreamElement():
                return self._element(node)
            case CountElement(element) | AbsentElement(element):
                return replace(node, element=self._element(element))
            case LogicalElement(left=left, right=right):
                return replace(node, left=self._side(left), right=self._side(right))
            case EveryElement(element):
                return replace(node, element=self._state(element))
            case NextElement(elements):
                return replace(node, elements=tuple(map(self._state, elements)))

    def _side(self, node: StreamElement | AbsentElement) -> StreamElement | AbsentElement:
        return (
            self._element(node)
            if isinstance(node, StreamElement)
            else replace(node, element=self._element(node.element))
        )

    def _element(self, element: StreamElement) -> StreamElement:
        self._own = element.slot
        steps = tuple(
            replace(s, condition=self._loop(s.condition)) if isinstance(s, FilterStep) else s for s in element.steps
        )
        self._own = None
        return replace(element, steps=steps)

    # ---- expressions

    def _loop(self, expr: Expr, side: int = 0) -> Expr:
        """An expression as loops compute it, if it cannot fail."""
        if is_looped(expr) or self._stays(expr):
            return expr
        return unlooped(clocked(expr), lambda part: self._attribute(part, side))

    def _stays(self, expr: Expr) -> bool:
        """Whether an expression is none for columns: for a function that they do not know, or as it may fail and nobody can be asked."""
        calls = [p for p in inside(expr) if isinstance(p, Call)]
        if any(p.function not in KNOWN or p.function in self._app.scripts for p in calls):
            return True
        if any(p.type is Type.OBJECT for p in inside(expr) if isinstance(p, (Attr, Call))):
            return True
        if self._app.playback is not None and any(p.function in OF_NOW for p in calls) and not self._alone:
            return True  # a clock of events may be at no date
        if not failing(expr, self._known):
            return False
        self.asks = self.asks or self._alone
        return not self._alone

    def _attribute(self, expr: Expr, side: int) -> Expr:
        """An expression over one event as a further attribute of its stream."""
        parts = tuple(inside(expr))
        places = {(p.slot, p.index) for p in parts if isinstance(p, Attr)}
        clocks = not self._clocks and any(isinstance(p, Call) and p.function in CLOCKS for p in parts)
        if not places and isinstance(self._query.input, SingleInput):
            places = {(0, None)}
        if len(places) != 1 or clocks or any(isinstance(p, Aggregate) for p in parts):
            return expr
        ((slot, index),) = places
        source = self._sources.get(slot + side, "")
        if slot < 0 or source not in self._streams or not self._is_there(slot, index):
            return expr
        here = replaced(expr, lambda leaf: replace(leaf, slot=0, index=None) if isinstance(leaf, Attr) else leaf)
        made = self._streams[source].column(here)
        return replace(made, slot=slot, index=index) if isinstance(made, Attr) else made

    def _is_there(self, slot: int, index: int | None) -> bool:
        """Whether a slot always has an event. Where it has none its attributes are null, and what is computed of nulls need not be."""
        if not isinstance(self._query.input, StateInput):
            return slot not in self._missing
        wanted = 1 if index is None else index + 1 if index >= 0 else -index
        return (slot == self._own and index is None) or self._bound.get(slot, 0) >= wanted

    # ---- the selection

    def _selection(
        self, selection: Selection
    ) -> tuple[Selection, tuple[tuple[Expr, ...], tuple[Attr | Const, ...]] | None]:
        by = tuple(k if isinstance(k, Attr) or self._stays(k) else self._attribute(k, 0) for k in selection.group_by)
        aggregates = tuple(replace(a, args=tuple(map(self._argument, a.args))) for a in selection.aggregates)
        values, having = selection.values, selection.having
        plain = all(isinstance(v, (Attr, Const)) or (v.type is not Type.STRING and is_looped(v)) for v in values)
        behind = None
        if not plain and not any(map(self._stays, values)):
            pieces = _Pieces()
            rows = tuple(pieces.of(clocked(value)) for value in values)
            deriving = Deriving(len(pieces.found))
            picked = tuple(map(deriving.column, rows))
            behind = tuple(deriving.made), picked
            having = None if having is None else replaced(having, lambda leaf: pieces.behind(leaf, selection.values))
            columns = tuple(Column(f"${n}", e.type) for n, e in enumerate(pieces.found))
            values = tuple(pieces.found)
            selection = replace(selection, schema=Schema(columns))
        if having is not None:
            having = self._loop(having)
        return replace(selection, values=values, group_by=by, aggregates=aggregates, having=having), behind

    def _argument(self, expr: Expr) -> Expr:
        """The argument of an aggregator."""
        if expr.type is Type.STRING:
            return expr if isinstance(expr, Attr) or self._stays(expr) else self._attribute(clocked(expr), 0)
        return self._loop(expr)


class _Pieces:
    """The parts of selected values that a query's loop gives."""

    def __init__(self) -> None:
        self.found: list[Expr] = []

    def of(self, expr: Expr) -> Expr:
        """A value over the pieces: their attributes in slot 0."""
        if isinstance(expr, Const):
            return expr
        if isinstance(expr, Attr) or (expr.type is not Type.STRING and is_looped(expr)):
            if expr not in self.found:
                self.found.append(expr)
            return Attr(0, self.found.index(expr), expr.type, name=written(expr))
        match expr:
            case Arithmetic() | Comparison() | Logic():
                chain = links(expr)
                left = self.of(chain[0].left)
                for link in chain:
                    left = replace(link, left=left, right=self.of(link.right))
                return left
            case Negation() | NullCheck():
                return replace(expr, operand=self.of(expr.operand))
            case Call():
                return replace(expr, args=tuple(map(self.of, expr.args)))
            case _:
                return expr

    def behind(self, leaf: Expr, values: tuple[Expr, ...]) -> Expr:
        """A leaf of `having`: an output column is the piece that it is, or what is computed of the same."""
        if not isinstance(leaf, Attr) or leaf.slot != OUTPUT:
            return leaf
        value = values[leaf.position]
        if isinstance(value, Const):
            return value
        return replace(leaf, position=self.found.index(value)) if value in self.found else value
