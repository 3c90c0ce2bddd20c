"""Joins of two streams, windows, tables or aggregations (semantics/joins.md)."""

from __future__ import annotations

from nadi.errors import did_you_mean
from nadi.lang import tree
from nadi.lang.tree import JoinKind, Type
from nadi.plan.context import Context
from nadi.plan.durations import check_within, per_of
from nadi.plan.expressions import Expressions
from nadi.plan.inputs import Steps, no_window_reason
from nadi.plan.nodes import Const, Expr, JoinInput, JoinSide, Schema, SingleInput
from nadi.plan.scopes import Place, Scope

STATIC = ("table", "aggregation")


def bind_join(context: Context, node: tree.JoinInput, path: str) -> tuple[JoinInput, Scope]:
    """Both sides, the condition, and the scope of slots 0 (left) and 1 (right).

    Raises:
        INVALID_QUERY: no side can trigger, or `within … per` does not go with the sides.
    """
    left = _side(context, node, node.left, 0, f"{path}left.")
    right = _side(context, node, node.right, 1, f"{path}right.")
    _check_sides(context, node, left, right)
    places = (_place(node.left, left, 0), _place(node.right, right, 1))
    scope = Scope((places,))
    on = None
    if node.on is not None:
        on = Expressions(context, scope, where="join condition").condition(node.on, "join condition")
    within, per = _range(context, node, scope, left, right)
    return JoinInput(path + "join", left, right, node.kind, on, within, per), scope


def _place(node: tree.SingleInput, side: JoinSide, slot: int) -> Place:
    return Place(slot, (node.alias or str(node.source),), side.input.schema)


def _side(context: Context, join: tree.JoinInput, node: tree.SingleInput, slot: int, path: str) -> JoinSide:
    key = context.key(node.source)
    kind, schema = _kind_of(context, node, key)
    reason = no_window_reason(context, node.source)
    if kind in STATIC:
        reason = f"'{node.source}' is a {kind} and takes no window"
    names = (node.alias, str(node.source)) if node.alias else (str(node.source),)
    steps = Steps(context, Place(0, names, schema), path, reason)
    bound = steps.bind(node.handlers)
    made = SingleInput(key, bound, steps.place.schema, node.alias or "")
    chosen = join.unidirectional in (None, "left" if slot == 0 else "right")
    outer = join.kind is JoinKind.FULL or join.kind is (JoinKind.LEFT if slot == 0 else JoinKind.RIGHT)
    return JoinSide(kind, made, chosen and kind not in STATIC, outer)


def _kind_of(context: Context, node: tree.SingleInput, key: str) -> tuple[str, Schema]:
    if key in context.tables:
        return "table", context.tables[key].schema
    if key in context.aggregations:
        return "aggregation", context.aggregations[key].schema
    known = [*context.readable(), *context.tables, *context.aggregations]
    if key not in context.streams and key not in context.windows:
        hint = did_you_mean(str(node.source), known)
        raise context.fail("STREAM_NOT_DEFINED", node.source.span, name=str(node.source), hint=hint)
    return ("window" if key in context.windows else "stream"), context.schema_of(node.source)


def _check_sides(context: Context, node: tree.JoinInput, left: JoinSide, right: JoinSide) -> None:
    if left.kind in STATIC and right.kind in STATIC:
        reason = f"a join of two static sides ('{node.left.source}', '{node.right.source}') never triggers"
        raise context.fail("INVALID_QUERY", node.span, reason=reason)
    if not left.triggers and not right.triggers:
        passive = node.left if node.unidirectional == "left" else node.right
        reason = f"'unidirectional' makes '{passive.source}' the only side that triggers, and a table never does"
        raise context.fail("INVALID_QUERY", passive.span, reason=reason)


# ---- aggregations --------------------------------------------------------------------------------------------------


def _range(
    context: Context, node: tree.JoinInput, scope: Scope, left: JoinSide, right: JoinSide
) -> tuple[tuple[Expr, ...], Expr | None]:
    """`within` and `per`: both for aggregations, neither for anything else."""
    side = next((s for s in (left, right) if s.kind == "aggregation"), None)
    if side is None:
        if node.within or node.per is not None:
            raise context.fail("INVALID_QUERY", node.span, reason="'within … per' goes with joins of aggregations only")
        return (), None
    aggregation = context.aggregations[side.input.source]
    if not node.within or node.per is None:
        reason = f"a join with the aggregation '{aggregation.name}' needs 'within … per …'"
        raise context.fail("INVALID_QUERY", node.span, reason=reason)
    binder = Expressions(context, scope, where="within clause")
    within = tuple(binder.bind(w) for w in node.within)
    check_within(context, within, node.within[0].span)
    per = binder.bind(node.per)
    if isinstance(per, Const):
        per = per_of(context, per, aggregation.durations, node.per.span)
    if per.type is not Type.STRING:
        reason = f"'per' takes a text such as 'hours', this is {per.type}"
        raise context.fail("INVALID_QUERY", node.per.span, reason=reason)
    return within, per
