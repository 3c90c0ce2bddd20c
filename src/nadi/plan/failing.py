"""Whether a query may fail on an event: with an exception that ends the delivery of the event (language text §16)."""

from __future__ import annotations

from collections.abc import Collection

from nadi.lang.tree import Type
from nadi.plan.nodes import (
    Aggregate,
    App,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    FilterStep,
    InsertIntoStream,
    JoinInput,
    Logic,
    Negation,
    NullCheck,
    Query,
    SingleInput,
    StateInput,
    Step,
    StreamElement,
    WindowStep,
    links,
)
from nadi.plan.streams import producers
from nadi.plan.walk import inside, read

_FUNCTIONS = frozenset({"ifThenElse", "coalesce", "default", "currentTimeMillis", "eventTimestamp", "UUID"})
_WINDOWS = frozenset({"time", "length", "timeLength", "timeBatch", "lengthBatch", "batch", "delay"})
_AGGREGATORS = frozenset({"sum", "avg", "count", "min", "max", "minForever", "maxForever", "stdDev", "distinctCount"})


def may_fail(query: Query, app: App, made: Collection[str] | None = None) -> bool:
    """False only where it is known that no event of the right types can make a query fail; `made` are the streams that queries make, if they are at hand.

    >>> from nadi.functions.registry import default_registry
    >>> from nadi.plan import plan_app
    >>> app = plan_app(
    ...     "define stream S (s string, v int); from S#window.lengthBatch(2) select sum(v) as t insert into A;"
    ...     "from S select convert(s, 'int') as n insert into B;",
    ...     default_registry(),
    ... )
    >>> [may_fail(query, app) for query in app.queries]
    [False, True]
    """
    made = producers(app.elements) if made is None else made
    if any(source in made or source not in app.streams for source in read(query).values()):
        return True  # what a query makes may have values of other classes than its stream says
    if not isinstance(query.output, InsertIntoStream) or query.output.target not in app.streams:
        return True
    selection = query.selection
    values = [*selection.values, *selection.group_by, *(expr for expr, _up in selection.order_by)]
    values += [] if selection.having is None else [selection.having]
    if not all(map(safe, values)) or not all(map(_safe_aggregate, selection.aggregates)):
        return True
    match query.input:
        case SingleInput() as source:
            return not _safe_steps(source.steps)
        case JoinInput(left=left, right=right, on=on):
            return not (
                {left.kind, right.kind} == {"stream"}
                and (on is None or safe(on))
                and _safe_steps(left.input.steps)
                and _safe_steps(right.input.steps)
            )
        case StateInput(root=root):
            return not all(_safe_steps(e.steps) for e in inside(root) if isinstance(e, StreamElement))


def _safe_steps(steps: tuple[Step, ...]) -> bool:
    for step in steps:
        match step:
            case FilterStep(condition):
                if not safe(condition):
                    return False
            case WindowStep(call):
                if call.name not in _WINDOWS or not all(isinstance(argument, Const) for argument in call.args):
                    return False
            case _:
                return False
    return True


def _safe_aggregate(aggregate: Aggregate) -> bool:
    return aggregate.function in _AGGREGATORS and all(map(safe, aggregate.args))


def safe(expr: Expr) -> bool:
    """Whether an expression has a value for all values of its attributes."""
    match expr:
        case Const() | Aggregate():
            return True
        case Attr():
            return expr.type is not Type.OBJECT
        case Arithmetic() | Comparison() | Logic():
            chain = links(expr)
            return safe(chain[0].left) and all(safe(link.right) for link in chain)
        case Negation(operand) | NullCheck(operand):
            return safe(operand)
        case Call():
            return expr.function in _FUNCTIONS and expr.slot is None and all(map(safe, expr.args))
        case _:
            return False
