"""Whether a query may fail on an event: with an exception that ends the delivery of the event (semantics/events.md#failures)."""

from __future__ import annotations

from collections.abc import Collection

from nadi.lang.tree import Type
from nadi.plan.columns.certainty import failing
from nadi.plan.nodes import (
    TABLE,
    Aggregate,
    App,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Const,
    DeleteFromTable,
    Expr,
    FilterStep,
    InsertIntoStream,
    InsertIntoTable,
    JoinInput,
    Logic,
    Negation,
    NullCheck,
    Query,
    SingleInput,
    StateInput,
    Step,
    StreamElement,
    UpdateOrInsertTable,
    UpdateTable,
    WindowStep,
    links,
)
from nadi.plan.streams import producers
from nadi.plan.walk import inside, read


def may_fail(query: Query, app: App, strange: Collection[str] | None = None) -> bool:
    """False only where it is known that no event can make a query fail.

    Of the streams `strange` (those that queries make, where nothing is given) events may have values of other classes than their types are.

    >>> from nadi.functions.registry import default_registry
    >>> from nadi.plan import plan_app
    >>> app = plan_app(
    ...     "define stream S (s string, v int); from S#window.lengthBatch(2) select sum(v) as t insert into A;"
    ...     "from S select str:length(s) as n insert into B;",
    ...     default_registry(),
    ... )
    >>> [may_fail(query, app) for query in app.queries]
    [False, True]
    """
    strange = producers(app.elements) if strange is None else strange
    for slot, key in read(query).items():
        if key in strange or not (key in app.streams or _is_table(query, slot, app)):
            return True
    if not _safe_output(query, app):
        return True
    selection = query.selection
    values = [*selection.values, *selection.group_by, *(expr for expr, _up in selection.order_by)]
    values += [] if selection.having is None else [selection.having]
    tables = tuple(slot for slot in read(query) if _is_table(query, slot, app))
    if not all(safe(e, tables) for e in values) or not all(_safe_aggregate(a, tables) for a in selection.aggregates):
        return True
    match query.input:
        case SingleInput() as source:
            return not _safe_steps(source.steps)
        case JoinInput(left=left, right=right, on=on):
            known = {left.kind, right.kind} <= {"stream", "table"} and (on is None or safe(on, tables))
            return not (known and _safe_steps(left.input.steps) and _safe_steps(right.input.steps))
        case StateInput(root=root):
            return not all(_safe_steps(e.steps) for e in inside(root) if isinstance(e, StreamElement))


def _is_table(query: Query, slot: int, app: App) -> bool:
    """Whether a side of a join is a table in memory."""
    if not isinstance(query.input, JoinInput):
        return False
    side = (query.input.left, query.input.right)[slot]
    return side.kind == "table" and app.tables[side.input.source].storage is None


def _safe_output(query: Query, app: App) -> bool:
    """Streams take all rows, as do tables in memory: what they refuse is noted, and ends no delivery."""
    match query.output:
        case InsertIntoStream(target=target):
            return target in app.streams
        case InsertIntoTable(target=target):
            return app.tables[target].storage is None
        case DeleteFromTable(target=target, on=on):
            return app.tables[target].storage is None and (on is None or safe(on, (TABLE,)))
        case UpdateTable(target=target, on=on, set=given) | UpdateOrInsertTable(target=target, on=on, set=given):
            expressions = [expr for _column, expr in given] + ([] if on is None else [on])
            return app.tables[target].storage is None and all(safe(expr, (TABLE,)) for expr in expressions)
        case _:
            return False


def _safe_steps(steps: tuple[Step, ...]) -> bool:
    for step in steps:
        match step:
            case FilterStep(condition):
                if not safe(condition):
                    return False
            case WindowStep(call):
                if not call.traits.sure or not all(isinstance(argument, Const) for argument in call.args):
                    return False
            case _:
                return False
    return True


def _safe_aggregate(aggregate: Aggregate, tables: Collection[int]) -> bool:
    return aggregate.traits.sure and all(safe(e, tables) and not _reads(e, tables) for e in aggregate.args)


def safe(expr: Expr, tables: Collection[int] = ()) -> bool:
    """Whether an expression has a value for all values of its attributes; those of the slots `tables` may be of any class, as a script's result may be."""
    match expr:
        case Const() | Aggregate():
            return True
        case Attr():
            return expr.type is not Type.OBJECT
        case Arithmetic() | Comparison() | Logic():
            chain = links(expr)
            if not (safe(chain[0].left, tables) and all(safe(link.right, tables) for link in chain)):
                return False
            strict = any(
                isinstance(link, Arithmetic) or getattr(link, "op", "") in ("<", "<=", ">", ">=") for link in chain
            )
            return not (strict and _reads(expr, tables))
        case Negation(operand) | NullCheck(operand):
            return safe(operand, tables)
        case Call():
            return not failing(expr) and not _reads(expr, tables)
        case _:
            return False


def _reads(expr: Expr, slots: Collection[int]) -> bool:
    return bool(slots) and any(isinstance(part, Attr) and part.slot in slots for part in inside(expr))
