"""Selections: columns, group by, having, order by, limit and offset (semantics/selection.md)."""

from __future__ import annotations

from dataclasses import replace

from nadi.errors import Span
from nadi.lang import tree
from nadi.lang.tree import Type
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions
from nadi.plan.nodes import OUTPUT, Aggregate, Column, Const, Expr, Schema, Selection
from nadi.plan.scopes import Place, Scope, resolve


def bind_selection(context: Context, node: tree.Selection, scope: Scope, several: bool) -> Selection:
    """The selection over an input.

    `several` is set for joins, patterns and on-demand queries, whose having and order by may fall back to attributes of the input.

    Raises:
        DUPLICATE_ATTRIBUTE: two output columns have one name.
        INVALID_QUERY: limit or offset is not a constant number from 0.
    """
    aggregates: list[Aggregate] = []
    if node.star or not node.items:
        columns, values = _everything(context, scope, node.span)
    else:
        columns, values = _items(context, node, scope, aggregates)
    schema = Schema(tuple(columns))
    group_by = tuple(resolve(context, replace(scope, lists=False), v) for v in node.group_by)
    # over a single stream, `S.a` after the select means the output column `a`
    names = () if several else scope.layers[0][0].names
    output = Scope(((Place(OUTPUT, names, schema),),))
    after = Scope((*output.layers, *scope.layers), False, scope.indexed) if several else output
    having = None
    if node.having is not None:
        names_in = tuple(column.name for place in scope.layers[0] for column in place.schema.columns)
        binder = Expressions(context, after, aggregates, tuple(values), "having clause", names_in)
        having = binder.condition(node.having, "having clause")
    return Selection(
        tuple(values),
        schema,
        tuple(aggregates),
        group_by,
        having,
        tuple((resolve(context, after, o.variable), o.order != "desc") for o in node.order_by),
        _constant(context, node.limit, "limit"),
        _constant(context, node.offset, "offset"),
    )


def _everything(context: Context, scope: Scope, span: Span) -> tuple[list[Column], list[Expr]]:
    columns: dict[str, Column] = {}
    values: list[Expr] = []
    for place in scope.layers[0]:
        for name in place.schema.names:
            if name in columns:
                where = "'select *' over " + " and ".join(f"'{p.name}'" for p in scope.layers[0])
                raise context.fail("DUPLICATE_ATTRIBUTE", span, name=name, where=where)
            value = resolve(context, replace(scope, layers=((place,),)), tree.Variable(name, span=span))
            columns[name] = Column(name, value.type)
            values.append(value)
    return list(columns.values()), values


def _items(
    context: Context, node: tree.Selection, scope: Scope, aggregates: list[Aggregate]
) -> tuple[list[Column], list[Expr]]:
    columns: dict[str, Column] = {}
    values: list[Expr] = []
    binder = Expressions(context, scope, aggregates, where="selection")
    for item in node.items:
        value = binder.bind(item.expression)
        name = item.alias
        if name is None:
            if not isinstance(item.expression, tree.Variable):
                reason = "an expression in a selection needs a name: write 'as' and a name after it"
                raise context.fail("INVALID_QUERY", item.span, reason=reason)
            name = item.expression.name
        if name in columns:
            raise context.fail("DUPLICATE_ATTRIBUTE", item.span, name=name, where="the selection")
        columns[name] = Column(name, value.type)
        values.append(value)
    return list(columns.values()), values


def _constant(context: Context, node: tree.Expression | None, what: str) -> int | None:
    if node is None:
        return None
    value = Expressions(context, Scope(((),)), where=f"{what} clause").bind(node)
    if (
        isinstance(value, Const)
        and value.type in (Type.INT, Type.LONG)
        and isinstance(value.value, int)
        and value.value >= 0
    ):
        return value.value
    raise context.fail("INVALID_QUERY", node.span, reason=f"{what} must be a constant number from 0")
