"""Incremental aggregations (semantics/aggregations.md)."""

from __future__ import annotations

from nadi.errors import NadiError
from nadi.lang import tree
from nadi.lang.tree import Type
from nadi.plan.annotations import element, first, is_true, time_of
from nadi.plan.context import Context, described
from nadi.plan.definitions import claim
from nadi.plan.durations import DURATIONS, duration_of
from nadi.plan.expressions import Expressions
from nadi.plan.inputs import bind_single
from nadi.plan.nodes import Aggregation, Column, Expr, Schema, Selection, WindowStep
from nadi.plan.scopes import Scope
from nadi.plan.selection import bind_selection
from nadi.plan.stores import storage_of

TIMESTAMP = Column("AGG_TIMESTAMP", Type.LONG)
"""The first column of every row that is read from an aggregation: the start of its bucket."""

_DAY = 86_400_000
_LEAST_RETENTION = {
    "sec": (120_000, "120 sec"),
    "min": (120 * 60_000, "120 min"),
    "hour": (25 * _DAY // 24, "25 hours"),
    "day": (32 * _DAY, "32 days"),
    "month": (13 * 30 * _DAY, "13 months"),
}


def define_aggregation(context: Context, node: tree.AggregationDefinition) -> None:
    """Bind an aggregation and enter it into the context.

    Raises:
        INVALID_QUERY: durations, the time attribute, a window or an aggregator do not fit.
    """
    source, scope = bind_single(context, node.input, f"{node.name}/")
    if any(isinstance(s, WindowStep) for s in source.steps):
        raise context.fail("INVALID_QUERY", node.input.span, reason="an aggregation takes no window")
    selection = _selection(context, node, scope)
    for a in selection.aggregates:
        if not a.traits.incremental:
            known = ((name, context.catalog.aggregator(name)) for name in context.catalog.names("aggregator"))
            hint = "use one of " + ", ".join(name for name, of in known if of is not None and of.traits.incremental)
            raise context.fail("AGGREGATOR_NOT_FOUND", node.selection.span, name=a.function, hint=hint)
    _check_store(context, node)
    durations = _durations(context, node)
    _check_purge(context, node, durations)
    if selection.schema.position(TIMESTAMP.name) is not None:
        where = "an aggregation, which has it as its first column"
        raise context.fail("DUPLICATE_ATTRIBUTE", node.selection.span, name=TIMESTAMP.name, where=where)
    schema = Schema((TIMESTAMP, *selection.schema.columns))
    wanted = f"the aggregation {described(schema)}"
    claim(context, node.name, wanted, node.span)
    if node.name in context.aggregations:
        raise context.fail("DUPLICATE_DEFINITION", node.span, name=node.name, defined=wanted, wanted="this aggregation")
    context.aggregations[node.name] = Aggregation(
        node.name,
        source,
        selection,
        _timestamp(context, node, scope),
        durations,
        schema,
        node.annotations,
    )


def _selection(context: Context, node: tree.AggregationDefinition, scope: Scope) -> Selection:
    """What is selected; a function that does not exist is missed as an aggregator, as in Siddhi."""
    try:
        return bind_selection(context, node.selection, scope, False)
    except NadiError as found:
        if found.condition != "FUNCTION_NOT_FOUND":
            raise
        d = found.diagnostic
        raise context.fail("AGGREGATOR_NOT_FOUND", d.span, name=found.parameters["name"], hint=d.next_step) from found


def _timestamp(context: Context, node: tree.AggregationDefinition, scope: Scope) -> Expr | None:
    if node.aggregate_by is None:
        return None
    bound = Expressions(context, scope, where="'aggregate by'").bind(node.aggregate_by)
    if bound.type not in (Type.LONG, Type.STRING):
        reason = f"'aggregate by' takes a long or a string, '{node.aggregate_by.name}' is {bound.type}"
        raise context.fail("INVALID_QUERY", node.aggregate_by.span, reason=reason)
    return bound


def _durations(context: Context, node: tree.AggregationDefinition) -> tuple[str, ...]:
    for d in node.durations:
        if d not in DURATIONS:
            raise context.fail("SYNTAX", node.span, found=f"'{d}'", expected=", ".join(DURATIONS))
    if not node.is_range:
        return tuple(d for d in DURATIONS if d in node.durations)
    begin, end = DURATIONS.index(node.durations[0]), DURATIONS.index(node.durations[-1])
    if begin > end:
        reason = (
            f"a range of durations goes from the finer to the coarser, not from {DURATIONS[begin]} to {DURATIONS[end]}"
        )
        raise context.fail("INVALID_QUERY", node.span, reason=reason)
    return DURATIONS[begin : end + 1]


def _check_store(context: Context, node: tree.AggregationDefinition) -> None:
    """Buckets are kept in the app's state: what asks for a database would not get it."""
    if storage_of(context, node.annotations) is not None:
        where = first(node.annotations, "store")
        alternative = "leave @store out: the buckets are then a part of the app's state, which survives restarts"
        span = node.span if where is None else where.span
        raise context.fail("NOT_SUPPORTED", span, what="@store on an aggregation", alternative=alternative)


def partitioned(aggregation: Aggregation) -> bool:
    """Whether `@PartitionById` says that several nodes share an aggregation (semantics/text.md#annotations)."""
    given = first(aggregation.annotations, "PartitionById")
    return given is not None and is_true(given, "enable")


def _check_purge(context: Context, node: tree.AggregationDefinition, durations: tuple[str, ...]) -> None:
    """Buckets must be kept until the next coarser ones are complete."""
    purge = first(node.annotations, "purge")
    if purge is None:
        return
    enable, interval = element(purge, "enable"), element(purge, "interval")
    if enable is not None and enable.value.lower() not in ("true", "false"):
        reason = f"enable is true or false, not '{enable.value}'"
        raise context.fail("INVALID_ANNOTATION", enable.span, name=purge.name, reason=reason)
    if interval is not None:
        time_of(context, interval, purge)
    for retention in purge.all("retentionPeriod"):
        for e in retention.elements:
            duration = duration_of(e.key)
            if duration is None or duration not in durations:
                condition = "ANNOTATION_REJECTED" if duration is None else "INVALID_ANNOTATION"
                reason = f"it takes {', '.join(durations)}, which the aggregation keeps, not '{e.key}'"
                raise context.fail(condition, e.span, name=retention.name, reason=reason)
            least = _LEAST_RETENTION.get(duration)
            if least is not None and e.value.strip().lower() != "all" and time_of(context, e, purge) < least[0]:
                reason = f"buckets of a {duration} are kept for {least[1]} at least, not {e.value}"
                raise context.fail("INVALID_ANNOTATION", e.span, name=retention.name, reason=reason)
