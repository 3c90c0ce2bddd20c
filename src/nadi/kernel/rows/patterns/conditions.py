"""The filters and stream functions of an element, evaluated for an event and a partial match.

What depends on the event alone is evaluated once per event; only filters that look at other slots (and what follows them) are evaluated per match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from nadi.errors import error
from nadi.kernel.rows.compile import compile_match
from nadi.kernel.rows.events import Event, Row
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

Slots = Sequence[Sequence[Event] | None]
Check = Callable[[Slots, Row, int], Row | None]
"""Slots of a match, row and timestamp of the event at hand → the row to bind, or None where it does not fit."""

_NO_SLOTS: Slots = []


class Conditions:
    """`alone` is what depends on the event alone (called with no slots), `rest` what looks at the slots of a match, too; None where there is none."""

    __slots__ = ("alone", "rest")

    def __init__(self, alone: list[Check], rest: list[Check]) -> None:
        self.alone = _all(alone)
        self.rest = _all(rest)

    def prepare(self, event: Event) -> Event | None:
        """The event as it is to be bound so far as it alone tells, or None."""
        if self.alone is None:
            return event
        return rebound(event, self.alone(_NO_SLOTS, event.row, event.ts))


def rebound(event: Event, row: Row | None) -> Event | None:
    """The event with the row that a check gave."""
    if row is None or row is event.row:
        return None if row is None else event
    return Event(event.kind, event.ts, row)


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
            target = rest if rest or not _depends_on_event_alone(condition, width) else alone
            target.append(compile_match(condition, flow, tables, width, filters=True))
        elif isinstance(step, FunctionStep):
            own = [_own(a, slot, counted, width) for a in step.args]
            target = rest if rest or not all(_depends_on_event_alone(a, width) for a in own) else alone
            target.append(
                _function(step, [compile_match(a, flow, tables, width, filters=False) for a in own], registry)
            )
        else:
            raise error("NOT_SUPPORTED", what="a window inside a pattern", alternative="a window in a query before it")
    return Conditions(alone, rest)


def _function(step: FunctionStep, arguments: list[Callable[[Slots, Row, int], object]], registry: Registry) -> Check:
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

    def check(slots: Slots, row: Row, ts: int) -> Row | None:
        added = function(tuple(argument(slots, row, ts) for argument in arguments))
        return None if added is None else row + tuple(added)

    return check


def _all(checks: list[Check]) -> Check | None:
    if len(checks) < 2:
        return checks[0] if checks else None

    def check(slots: Slots, row: Row, ts: int) -> Row | None:
        found: Row | None = row
        for one in checks:
            found = one(slots, found, ts)  # type: ignore[arg-type]  # the loop ends as soon as it is None
            if found is None:
                return None
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
