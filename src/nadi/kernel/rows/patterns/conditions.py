"""The filters and stream functions of an element, evaluated for an event and a partial match.

What depends on the event alone is evaluated once per event; only filters that look at other slots (and what follows them) are evaluated per match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from nadi.errors import error
from nadi.kernel.rows.compile import compile_slots
from nadi.kernel.rows.events import Event
from nadi.plan.nodes import (
    TABLE,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Expr,
    FilterStep,
    FunctionStep,
    Logic,
    SlotNullCheck,
    Step,
    links,
)
from nadi.plan.walk import inside

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable
    from nadi.kernel.rows.flow import Flow

Slots = list[list[Event] | None]
Check = Callable[[Slots, Event], Event | None]


class Conditions:
    """`prepare` runs what depends on the event alone: the event to bind, or None. `check` runs the rest with the slots of a match; None if there is no rest.

    Both take the slots as a list of `width` + 1 entries whose last one holds the event at hand.
    """

    __slots__ = ("_alone", "_width", "check")

    def __init__(self, alone: list[Check], rest: list[Check], width: int) -> None:
        self._alone = alone
        self._width = width
        self.check: Check | None = _all(rest) if rest else None

    def prepare(self, event: Event) -> Event | None:
        if not self._alone:
            return event
        found = event
        for check in self._alone:
            slots: Slots = [None] * self._width
            slots.append([found])
            passed = check(slots, found)
            if passed is None:
                return None
            found = passed
        return found


def make_conditions(
    steps: tuple[Step, ...],
    slot: int,
    counted: bool,
    width: int,
    flow: Flow,
    tables: Mapping[str, Searchable],
    registry: Registry,
) -> Conditions:
    """The conditions of the element in `slot` of a pattern with `width` slots.

    Inside the filter of a counted element a plain reference to itself means the event at hand, `e1[last]` the latest accepted one.
    """
    alone: list[Check] = []
    rest: list[Check] = []
    for step in steps:
        if isinstance(step, FilterStep):
            condition = _own(step.condition, slot, counted, width)
            compiled = compile_slots(condition, flow, tables, events=True)
            target = rest if rest or not _depends_on_event_alone(condition, width) else alone
            target.append(_filter(compiled))
        elif isinstance(step, FunctionStep):
            arguments = [compile_slots(_own(a, slot, counted, width), flow, tables, events=True) for a in step.args]
            (rest or alone).append(_function(step, arguments, registry))
        else:
            raise error("NOT_SUPPORTED", what="a window inside a pattern", alternative="a window in a query before it")
    return Conditions(alone, rest, width)


def _filter(condition: Callable[[Any, int], object]) -> Check:
    def check(slots: Slots, event: Event) -> Event | None:
        return event if condition(slots, event.ts) else None

    return check


def _function(step: FunctionStep, arguments: list[Callable[[Any, int], object]], registry: Registry) -> Check:
    spec = registry.stream_function(step.name)
    if spec is None:
        raise error("STREAM_FUNCTION_NOT_FOUND", name=step.name, hint="register it before the app is made")
    if spec.many:
        raise error(
            "NOT_SUPPORTED",
            what=f"'{step.name}', which multiplies events, inside a pattern",
            alternative="a query before it",
        )
    function = spec.make(tuple(a.type for a in step.args))

    def check(slots: Slots, event: Event) -> Event | None:
        added = function(tuple(argument(slots, event.ts) for argument in arguments))
        return None if added is None else Event(event.kind, event.ts, event.row + tuple(added))

    return check


def _all(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(slots: Slots, event: Event) -> Event | None:
        found: Event | None = event
        for one in checks:
            found = one(slots, found)  # type: ignore[arg-type]  # the loop ends as soon as it is None
            if found is None:
                return None
            slots[-1] = [found]
        return found

    return check


def _own(expr: Any, slot: int, counted: bool, width: int) -> Any:
    """Let references to the element itself mean the event at hand, which stands in the slot after the last one."""
    if isinstance(expr, (Attr, SlotNullCheck, Call)) and expr.slot == slot and (expr.index is None or not counted):
        expr = replace(expr, slot=width, index=None)
    if isinstance(expr, (Arithmetic, Comparison, Logic)):
        chain = links(expr)
        made = _own(chain[0].left, slot, counted, width)
        for link in chain:
            made = replace(link, left=made, right=_own(link.right, slot, counted, width))
        return made
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_own(a, slot, counted, width) for a in expr.args))
    changes = {
        f.name: _own(value, slot, counted, width)
        for f in fields(expr)
        if is_dataclass(value := getattr(expr, f.name)) and not isinstance(value, type)
    }
    return replace(expr, **changes) if changes else expr


def _depends_on_event_alone(expr: Expr, width: int) -> bool:
    """Whether no other slot is looked at. Tables may be: nothing is emitted, so nothing changes, while a chunk is matched."""
    return all(getattr(part, "slot", width) in (width, TABLE, None) for part in inside(expr))
