"""The handlers of one stream input: filters, stream functions and at most one window, chained in the order of the text (semantics/events.md#a-query).

`make_steps` is used by plain queries and by each side of a join. Patterns do not use it: their filters see the other slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from nadi.errors import error
from nadi.kernel.rows.compile import compile_filter, compile_row
from nadi.kernel.rows.events import RESET, TIMER, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.processors import PROCESSORS, Setup
from nadi.kernel.rows.windows import make_window
from nadi.plan.nodes import Expr, FilterStep, FunctionStep, Schema, Step, WindowStep

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable
    from nadi.kernel.rows.windows import WindowProcessor

Emit = Callable[[Chunk], None]


class Steps:
    """A chain of steps. `process` takes a chunk of the source; what is left of it arrives at `emit`.

    `window` is the window among the steps, or None: joins search its `content()`.
    """

    __slots__ = ("process", "window")

    def __init__(self, process: Emit, window: WindowProcessor | None) -> None:
        self.process = process
        self.window = window

    def begin(self) -> None:
        """Called once per flow key, before its first event: windows with timers of their own start them."""
        if self.window is not None:
            self.window.begin()

    def content(self) -> Iterable[Event]:
        """What the window holds for the current flow key; nothing where there is no window."""
        return () if self.window is None else self.window.content()


def make_steps(
    steps: tuple[Step, ...],
    schema: Schema,
    flow: Flow,
    tables: Mapping[str, Searchable],
    registry: Registry,
    emit: Emit,
    *,
    keeps_expired: bool = True,
    searched: bool = False,
    shown: tuple[Expr, ...] | None = None,
) -> Steps:
    """Chain `steps`, the last one pushing to `emit`.

    `schema` is what comes out of the whole chain (`SingleInput.schema`). `keeps_expired` is whether the query wants X events, `searched` whether a
    join or `in` looks into the window: batch windows keep the previous batch only for one of them. `shown` are the values that the query puts out.
    """
    window: WindowProcessor | None = None
    push, width = emit, len(schema)
    for step in reversed(steps):
        if isinstance(step, FilterStep):
            push = filtering(compile_filter(step.condition, flow, tables), push)
        elif isinstance(step, WindowStep):
            before = Schema(schema.columns[:width])
            window = make_window(step.call, flow, push, before, keeps_expired, searched, tables, shown)
            push = window.process
        else:
            width -= len(step.adds)
            push = applying(step, flow, tables, registry, push)
    return Steps(push, window)


def filtering(keep: Callable[[Chunk], Chunk], emit: Emit) -> Emit:
    """Drops C and X for which the condition is not true; R and T have no row and pass. An emptied chunk goes no further."""

    def process(chunk: Chunk) -> None:
        kept = keep(chunk)
        if kept:
            emit(kept)

    return process


def applying(step: FunctionStep, flow: Flow, tables: Mapping[str, Searchable], registry: Registry, emit: Emit) -> Emit:
    """Runs a stream function: it maps the values of its arguments to the values to append, or to None, which drops the event.

    Of one with `many` there are any number of such tuples; what comes of an event stands in its place in the chunk. Stream processors do as they will.
    """
    spec = registry.stream_function(step.name)
    if spec is None:
        raise error("STREAM_FUNCTION_NOT_FOUND", name=step.name, hint="register it before the app is made")
    if step.name in PROCESSORS:
        return PROCESSORS[step.name](Setup(step, flow, emit, tables)).process
    arguments = [compile_row(a, flow, tables) for a in step.args]
    function, many = spec.make(tuple(a.type for a in step.args)), spec.many

    def process(chunk: Chunk) -> None:
        made: Chunk = []
        for event in chunk:
            kind, ts, row = event
            if kind in (RESET, TIMER):
                made.append(event)
                continue
            added = function(tuple(argument(row, ts) for argument in arguments))
            if many:
                made.extend(Event(kind, ts, row + tuple(values)) for values in added)
            elif added is not None:
                made.append(Event(kind, ts, row + tuple(added)))
        if made:
            emit(made)

    return process
