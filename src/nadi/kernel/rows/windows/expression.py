"""`expression('…' | attr)` and `expressionBatch('…' | attr [, includeTriggeringEvent [, streamCurrentEvent]])` (language text §6).

The expression sees the new event by plain attribute names, the ends of the window as `first` and `last`, and aggregators over what is held. Aggregates
are computed from what is held each time, so a check costs as much as the window is long if the expression has aggregators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nadi import lang
from nadi.errors import error
from nadi.functions.entries import Accumulator
from nadi.kernel.rows.aggregation import CountedBag, accumulator_of
from nadi.kernel.rows.compile import EVENTS, ROW, compile_values
from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.state import Cells, Deque, Map, Value
from nadi.kernel.rows.windows.contract import Held, Setup, current, expired
from nadi.lang.tree import Type
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions
from nadi.plan.nodes import Aggregate, Const, Expr
from nadi.plan.scopes import Place, Scope

Entries = Sequence[Held] | Deque
Holds = Callable[[Entries], bool]
_NOTHING = Const(None, Type.OBJECT)
_NOW, _FIRST, _LAST = 0, 1, 2


def compile_expression(text: str, setup: Setup) -> Holds:
    """The function that tells whether the expression holds for events, oldest first; the newest is the one at hand.

    Raises:
        NadiError: the text is no expression, names what does not exist, or is no bool.
    """
    aggregates: list[Aggregate] = []
    expr = _bound(text, setup, aggregates)
    holds = compile_values((expr,), setup.flow, setup.tables, EVENTS)
    arguments = [a.args[0] if a.args else _NOTHING for a in aggregates]
    values = compile_values(arguments, setup.flow, setup.tables, ROW)
    accumulators = [accumulator_of(a, True, setup.flow) for a in aggregates]

    def check(held: Entries) -> bool:
        shown = [values(row, ts, (), ()) for ts, row in held] if accumulators else []
        totals = [_total(a, [v[n] for v in shown]) for n, a in enumerate(accumulators)]
        ends = [[Event(CURRENT, *held[n])] for n in (-1, 0, -1)]
        return holds(ends, held[-1][0], totals, ())[0] is True

    return check


def _bound(text: str, setup: Setup, aggregates: list[Aggregate]) -> Expr:
    schema = setup.schema
    ends = (Place(_FIRST, ("first",), schema), Place(_LAST, ("last",), schema))
    scope = Scope(((Place(_NOW, (), schema),), ends))
    context = Context(setup.flow.registry, text, compat=setup.flow.compat)
    tree = lang.parse_expression(text)
    return Expressions(context, scope, aggregates, where="window").condition(tree, "window's expression")


def _total(accumulator: Accumulator, values: Iterable[Any]) -> Any:
    bag = CountedBag()
    bag.bind(Map(lambda: None))
    state, found = accumulator.fresh(), None
    for value in values:
        found = accumulator.add(state, value, bag, "")
    return found


class Condition:
    """The expression at hand: constant, or the text that an attribute of the newest event holds (cell `text`)."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._position = setup.position(0)
        text = setup.constant(0)
        self._fixed = compile_expression(text, setup) if text is not None else None
        self._compiled: dict[str, Holds] = {}

    def turn(self, cells: Cells, event: Event) -> bool:
        """Take the expression that the event brings; whether it is another one than before."""
        if self._position is None:
            return False
        text = event.row[self._position]
        if text == cells["text"].get():
            return False
        if not isinstance(text, str):
            raise error("CLASS_CAST", where="the expression of a window", reason=f"{text!r} is not a text")
        if text not in self._compiled:
            self._compiled[text] = compile_expression(text, self._setup)
        changed = cells["text"].get() is not None
        cells["text"].set(text)
        return changed

    def holds(self, cells: Cells, held: Entries) -> bool:
        """Whether it holds for these events."""
        if self._fixed is not None:
            return self._fixed(held)
        text = cells["text"].get()
        if text not in self._compiled:
            self._compiled[text] = compile_expression(text, self._setup)
        return self._compiled[text](held)


class ExpressionWindow:
    """Keeps the newest events for which the expression holds: on each C the oldest leave, before it, until it does."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._condition = Condition(setup)
        self._state = setup.element(held=Deque, text=Value)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        held: Deque = cells["held"]
        out: Chunk = []
        for event in chunk:
            if event.kind != CURRENT:
                continue
            if self._condition.turn(cells, event):
                self._evaluate_again(cells, held, out)
            held.append((event.ts, event.row))
            while len(held) and not self._condition.holds(cells, held):
                out.append(expired(held.popleft(), self._flow.now))
            out.append(event)
        if out:
            self._emit(out)

    def _evaluate_again(self, cells: Cells, held: Deque, out: Chunk) -> None:
        """Another expression: what is held enters the window anew, one by one."""
        kept: list[Held] = []
        for entering in list(held):
            kept.append(entering)
            while kept and not self._condition.holds(cells, kept):
                out.append(expired(kept.pop(0), self._flow.now))
                held.popleft()

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


class ExpressionBatchWindow:
    """Collects while the expression holds; the event at which it fails brings [X(previous), C(batch)], both stamped now, and starts the next batch.

    Cells: `batch`, `previous`, `text`. An event that fails alone is a batch of its own, and leaves at once. With stream.current.event C pass at once and
    the event that ends the batch comes as [X(batch), C].
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._condition = Condition(setup)
        self._includes = setup.value(1) if len(setup.call.args) > 1 else None
        self._streams: bool = setup.constant(2, False)
        self._state = setup.element(batch=Deque, previous=Deque, text=Value)

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        made: list[Chunk] = []
        for event in chunk:
            if event.kind == CURRENT:
                take = self._stream if self._streams else self._collect
                made += take(cells, event)
        for out in made:
            self._emit(out)

    # ---- collecting

    def _collect(self, cells: Cells, event: Event) -> list[Chunk]:
        made: list[Chunk] = []
        if self._condition.turn(cells, event):
            entering = list(cells["batch"])
            cells["batch"].clear()
            for held in entering:
                made += self._enter(cells, held, False)
        includes = self._includes is not None and self._includes(event.row, event.ts) is True
        return [*made, *self._enter(cells, (event.ts, event.row), includes)]

    def _enter(self, cells: Cells, held: Held, includes: bool) -> list[Chunk]:
        batch: Deque = cells["batch"]
        batch.append(held)
        if self._condition.holds(cells, batch):
            return []
        now = self._flow.now
        if len(batch) == 1:
            out = self._flush(cells)
            cells["previous"].clear()
            return [[*out, expired(held, now)]]
        if includes:
            return [self._flush(cells)]
        entered = list(batch)
        batch.replace(entered[:-1])
        out = self._flush(cells)
        batch.append(held)
        return [out]

    def _flush(self, cells: Cells) -> Chunk:
        now = self._flow.now
        batch, previous = cells["batch"], cells["previous"]
        out = [expired(held, now) for held in previous]
        out += [Event(CURRENT, now, row) for _ts, row in batch]
        previous.replace(batch)
        batch.clear()
        return out

    # ---- streaming

    def _stream(self, cells: Cells, event: Event) -> list[Chunk]:
        """[X(batch)?, C]; an event that fails alone leaves before it came."""
        batch: Deque = cells["batch"]
        out: Chunk = []
        if self._condition.turn(cells, event) and len(batch) and not self._condition.holds(cells, batch):
            self._expire(batch, out)
        held = (event.ts, event.row)
        batch.append(held)
        if not self._condition.holds(cells, batch):
            includes = self._includes is not None and self._includes(event.row, event.ts) is True
            if includes or len(batch) == 1:
                self._expire(batch, out)
            else:
                batch.replace(list(batch)[:-1])
                self._expire(batch, out)
                batch.append(held)
        out.append(event)
        return [out]

    def _expire(self, batch: Deque, out: Chunk) -> None:
        out += [expired(held, self._flow.now) for held in batch]
        batch.clear()

    def content(self) -> Iterable[Event]:
        cells = self._state.at(self._flow.key)
        return map(current, cells["batch"] if self._streams else cells["previous"])
