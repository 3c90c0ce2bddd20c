"""`expression('…' | attr)` and `expressionBatch('…' | attr [, includeTriggeringEvent [, streamCurrentEvent]])` (semantics/windows.md#expression).

The expression sees the new event by plain attribute names, the ends of the window as `first` and `last`, and aggregators over what is held. Aggregates
are kept up as events come and go, so that a check costs the same however long the window is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nadi.errors import error
from nadi.functions.arithmetic import told
from nadi.functions.entries import Accumulator
from nadi.kernel.rows.aggregation import accumulator_of
from nadi.kernel.rows.bags import CountedBag
from nadi.kernel.rows.compile import EVENTS, ROW, compile_values
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.state import Cell, Cells, Deque, Map, Value
from nadi.kernel.rows.windows.contract import Held, Setup, current, expired
from nadi.lang.tree import Type
from nadi.plan.context import Context
from nadi.plan.nodes import Aggregate, Const
from nadi.plan.windows import bind_condition

Evaluate = Callable[[Any, int, Sequence[Any], Row], Any]
_NOTHING = Const(None, Type.OBJECT)

CELLS: dict[str, type[Cell]] = {"text": Value, "totals": Value, "bag": Map}
"""What a condition keeps: the text where it comes with the events, [state, value] of each aggregator, and the values that some must remember."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression: `holds` tells whether it does, `values` gives what its aggregators count of an event."""

    holds: Evaluate
    values: Evaluate
    accumulators: tuple[Accumulator, ...]


def compile_expression(text: str, setup: Setup) -> Compiled:
    """The expression of a text.

    Raises:
        NadiError: the text is no expression, names what does not exist, or is no bool.
    """
    aggregates: list[Aggregate] = []
    context = Context(setup.flow.registry, text, compat=setup.flow.compat)
    expr = bind_condition(context, setup.schema, text, aggregates)
    holds = compile_values((expr,), setup.flow, setup.tables, EVENTS)
    arguments = [a.args[0] if a.args else _NOTHING for a in aggregates]
    values = compile_values(arguments, setup.flow, setup.tables, ROW)
    return Compiled(holds, values, tuple(accumulator_of(a, True, setup.flow) for a in aggregates))


class Condition:
    """The expression at hand, constant or the text that an attribute of the newest event holds, and its aggregates over what has entered."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._position = setup.position(0)
        text = setup.constant(0)
        self._fixed = compile_expression(text, setup) if text is not None else None
        self._compiled: dict[str, Compiled] = {}
        self._bag = CountedBag()
        self._bound: Map | None = None

    def turn(self, cells: Cells, event: Event) -> bool:
        """Take the expression that the event brings; whether it is another one than before. Then nothing has entered yet."""
        if self._position is None:
            return False
        text = event.row[self._position]
        if text == cells["text"].get():
            return False
        if not isinstance(text, str):
            raise error("CLASS_CAST", where="the expression of a window", reason=f"{told(text)} is not a text")
        if text not in self._compiled:
            self._compiled[text] = compile_expression(text, self._setup)
        changed = cells["text"].get() is not None
        cells["text"].set(text)
        if changed:
            self.restart(cells)
        return changed

    def _expression(self, cells: Cells) -> Compiled:
        if self._fixed is not None:
            return self._fixed
        text = cells["text"].get()
        if text not in self._compiled:
            self._compiled[text] = compile_expression(text, self._setup)
        return self._compiled[text]

    # ---- aggregates

    def enter(self, cells: Cells, held: Held) -> None:
        """The aggregators add an event."""
        self._step(cells, held, adds=True)

    def leave(self, cells: Cells, held: Held) -> None:
        """The aggregators remove an event that had entered."""
        self._step(cells, held, adds=False)

    def restart(self, cells: Cells) -> None:
        """Nothing has entered."""
        cells["totals"].set(None)
        if len(cells["bag"]):
            self._bag_of(cells).clear()

    def _step(self, cells: Cells, held: Held, adds: bool) -> None:
        expression = self._expression(cells)
        if not expression.accumulators:
            return
        totals = cells["totals"].get() or [[a.fresh(), None] for a in expression.accumulators]
        bag, values = self._bag_of(cells), expression.values(held[1], held[0], (), ())
        done = 0
        try:
            for accumulator, total in zip(expression.accumulators, totals, strict=True):
                total[1] = (accumulator.add if adds else accumulator.remove)(total[0], values[done], bag, done)
                done += 1
        except Exception:
            # an event counts for all aggregators or for none; the one that failed has changed nothing
            for number in range(done):
                accumulator, total = expression.accumulators[number], totals[number]
                undo = accumulator.remove if adds else accumulator.add
                total[1] = undo(total[0], values[number], bag, number)
            raise
        finally:
            cells["totals"].set(totals)

    def _bag_of(self, cells: Cells) -> CountedBag:
        """One bag for all aggregators: the number of each is its group."""
        if self._bound is not cells["bag"]:
            self._bound = cells["bag"]
            self._bag.bind(self._bound)
        return self._bag

    def holds(self, cells: Cells, first: Held, last: Held) -> bool:
        """Whether it holds for what has entered; `first` and `last` are its ends, the last one is the event at hand."""
        expression = self._expression(cells)
        newest, oldest = [Event(CURRENT, *last)], [Event(CURRENT, *first)]
        shown = [total[1] for total in cells["totals"].get() or ()]
        return expression.holds([newest, oldest, newest], last[0], shown, ())[0] is True


class ExpressionWindow:
    """Keeps the newest events for which the expression holds: on each C the oldest leave, before it, until it does."""

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._condition = Condition(setup)
        self._state = setup.element(held=Deque, **CELLS)

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
            newest = (event.ts, event.row)
            self._condition.enter(cells, newest)
            held.append(newest)
            while len(held) and not self._condition.holds(cells, held[0], newest):
                out.append(expired(self._drop(cells, held), self._flow.now))
            out.append(event)
        if out:
            self._emit(out)

    def _drop(self, cells: Cells, held: Deque) -> Held:
        oldest: Held = held.popleft()
        self._condition.leave(cells, oldest)
        return oldest

    def _evaluate_again(self, cells: Cells, held: Deque, out: Chunk) -> None:
        """Another expression: what is held enters the window anew, one by one."""
        kept: deque[Held] = deque()
        for entering in list(held):
            kept.append(entering)
            self._condition.enter(cells, entering)
            while kept and not self._condition.holds(cells, kept[0], entering):
                kept.popleft()
                out.append(expired(self._drop(cells, held), self._flow.now))

    def content(self) -> Iterable[Event]:
        return map(current, self._state.at(self._flow.key)["held"])


class ExpressionBatchWindow:
    """Collects while the expression holds; the event at which it fails brings [X(previous), C(batch)], both stamped now, and starts the next batch.

    Cells: `batch`, `previous`, those of the condition. An event that fails alone leaves at once, before it comes. With stream.current.event C pass at once
    and the event that ends the batch comes as [X(batch), C], or, where it is included, as [C, X(batch with it)].
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._condition = Condition(setup)
        self._includes = setup.value(1) if len(setup.call.args) > 1 else None
        self._streams: bool = setup.constant(2, False)
        self._state = setup.element(batch=Deque, previous=Deque, **CELLS)

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
        return [*made, *self._enter(cells, (event.ts, event.row), self._is_included(event))]

    def _is_included(self, event: Event) -> bool:
        """Whether the event belongs to the batch that it ends."""
        return self._includes is not None and self._includes(event.row, event.ts) is True

    def _fits(self, cells: Cells, held: Held) -> bool:
        """Whether the expression holds with one event more."""
        batch: Deque = cells["batch"]
        self._condition.enter(cells, held)
        try:
            return self._condition.holds(cells, batch[0] if len(batch) else held, held)
        except Exception:
            self._condition.leave(cells, held)  # an event that fails is in no batch
            raise

    def _enter(self, cells: Cells, held: Held, includes: bool) -> list[Chunk]:
        batch: Deque = cells["batch"]
        if self._fits(cells, held):
            batch.append(held)
            return []
        self._begin(cells, held)
        if not len(batch):
            out = self._flush(cells)  # the previous batch
            now = self._flow.now
            return [[*out, expired(held, now), Event(CURRENT, now, held[1])]]
        if includes:
            batch.append(held)
            return [self._flush(cells)]
        out = self._flush(cells)
        batch.append(held)
        return [out]

    def _begin(self, cells: Cells, held: Held) -> None:
        """The aggregators of the expression begin anew with the event that ended a batch, as in Siddhi also where it is part of that."""
        self._condition.restart(cells)
        self._condition.enter(cells, held)

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
        """[X(batch)?, C], or [C, X(batch)] where C is included; an event that fails alone leaves before it came."""
        batch: Deque = cells["batch"]
        out: Chunk = []
        if self._condition.turn(cells, event) and len(batch):
            for entered in batch:
                self._condition.enter(cells, entered)
            if not self._condition.holds(cells, batch[0], batch[-1]):
                out += self._expired(batch)
                self._condition.restart(cells)
        held = (event.ts, event.row)
        if self._fits(cells, held):
            batch.append(held)
            return [[*out, event]]
        self._begin(cells, held)
        alone = not len(batch)
        if alone or self._is_included(event):
            batch.append(held)
            left = self._expired(batch)
            return [[*out, *left, event._replace(ts=self._flow.now)] if alone else [*out, event, *left]]
        out += self._expired(batch)
        batch.append(held)
        return [[*out, event]]

    def _expired(self, batch: Deque) -> Chunk:
        """The events of the batch, which leave."""
        out = [expired(held, self._flow.now) for held in batch]
        batch.clear()
        return out

    def content(self) -> Iterable[Event]:
        """The batch that is being collected; nothing where its events have passed, as in Siddhi."""
        return () if self._streams else map(current, self._state.at(self._flow.key)["batch"])
