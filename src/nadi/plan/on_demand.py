"""On-demand queries on tables, named windows and aggregations (semantics/tables.md#on-demand-queries)."""

from __future__ import annotations

from nadi.errors import NadiError, Span, did_you_mean
from nadi.lang import tree
from nadi.plan.catalog import Catalog
from nadi.plan.context import Context
from nadi.plan.durations import check_within, per_of
from nadi.plan.expressions import Expressions
from nadi.plan.nodes import (
    TABLE,
    Aggregation,
    App,
    Const,
    DeleteFromTable,
    Expr,
    InsertIntoTable,
    OnDemand,
    Schema,
    Selection,
    UpdateTable,
)
from nadi.plan.outputs import bind_output
from nadi.plan.scopes import Place, Scope, one_row
from nadi.plan.selection import bind_selection


def bind_on_demand(query: tree.OnDemandQuery, app: App, catalog: Catalog, *, text: str = "") -> OnDemand:
    """A checked on-demand query over the stores of an app.

    Raises:
        OnDemandQueryCreationException: whatever is wrong with it (INVALID_ON_DEMAND_QUERY; the cause is chained).
        StoreQueryCreationException: in an app by the rules of 4.x (INVALID_STORE_QUERY).
    """
    context = Context(
        catalog,
        text,
        compat=app.compat,
        streams=dict(app.streams),
        tables=app.tables,
        windows=app.windows,
        triggers=app.triggers,
        scripts=app.scripts,
        aggregations=app.aggregations,
    )
    try:
        if query.input is not None:
            return _find(context, query, query.input)
        return _change(context, query)
    except NadiError as found:
        d = found.diagnostic
        raise context.fail(condition_of(app), d.span, reason=d.message, hint=d.next_step) from found


def condition_of(app: App) -> str:
    """The condition of an on-demand query that this app cannot answer: its exception has another name by the rules of 4.x."""
    return "INVALID_STORE_QUERY" if app.compat == 4 else "INVALID_ON_DEMAND_QUERY"


# ---- finds ---------------------------------------------------------------------------------------------------------


def _find(context: Context, query: tree.OnDemandQuery, source: tree.SingleInput) -> OnDemand:
    name = str(source.source)
    kind, schema = _store(context, name, source.source.span)
    names = (source.alias, name) if source.alias else (name,)
    on = None
    if query.on is not None:
        scope = one_row(schema, *names, slot=TABLE)
        on = Expressions(context, scope, where="condition").condition(query.on, "condition")
    selection = bind_selection(context, query.selection, one_row(schema, *names), True)
    if name in context.aggregations:
        within, per = _range(context, query, context.aggregations[name])
    elif query.within or query.per is not None:
        raise context.fail(
            "INVALID_QUERY", query.span, reason=f"'within … per' is for aggregations, '{name}' is a {kind}"
        )
    else:
        within, per = (), None
    return OnDemand("find", selection, name, kind, on, within, per)


def _store(context: Context, name: str, span: Span) -> tuple[str, Schema]:
    if name in context.tables:
        return "table", context.tables[name].schema
    if name in context.windows:
        return "window", context.windows[name].schema
    if name in context.aggregations:
        return "aggregation", context.aggregations[name].schema
    hint = did_you_mean(name, [*context.tables, *context.windows, *context.aggregations])
    raise context.fail("TABLE_NOT_DEFINED", span, name=name, hint=hint)


def _range(context: Context, query: tree.OnDemandQuery, aggregation: Aggregation) -> tuple[tuple[Expr, ...], Expr]:
    if not query.within or query.per is None:
        reason = f"the aggregation '{aggregation.name}' is read with 'within … per …'"
        raise context.fail("INVALID_QUERY", query.span, reason=reason)
    binder = Expressions(context, Scope(((),)), where="within clause")
    within = tuple(binder.bind(w) for w in query.within)
    check_within(context, within, query.within[0].span)
    per = binder.bind(query.per)
    if not isinstance(per, Const):
        raise context.fail("INVALID_QUERY", query.per.span, reason="'per' must be a constant here")
    return within, per_of(context, per, aggregation.durations, query.per.span)


# ---- changes -------------------------------------------------------------------------------------------------------


def _change(context: Context, query: tree.OnDemandQuery) -> OnDemand:
    selection = _constants(context, query.selection)
    if isinstance(query.output, tree.Return):
        raise context.fail(
            "INVALID_QUERY", query.span, reason="there is nothing to select from: write 'from' and a store"
        )
    if isinstance(query.output, tree.InsertInto) and str(query.output.target) not in context.tables:
        target = query.output.target
        hint = did_you_mean(str(target), context.tables)
        raise context.fail("TABLE_NOT_DEFINED", target.span, name=str(target), hint=hint)
    output = bind_output(context, query.output, selection.schema)
    match output:
        case InsertIntoTable():
            kind = "insert"
        case DeleteFromTable():
            kind = "delete"
        case UpdateTable():
            kind = "update"
        case _:
            kind = "upsert"
    return OnDemand(kind, selection, output=output)


def _constants(context: Context, node: tree.Selection) -> Selection:
    """The one row that a change selects; its values see no other row."""
    if node.star or not node.items:
        return Selection((), Schema(()))
    return bind_selection(context, node, Scope(((Place(0, (), Schema(())),),)), False)
