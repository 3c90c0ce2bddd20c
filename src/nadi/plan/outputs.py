"""Outputs: what a query's events do to streams, windows and tables (semantics/text.md#outputs)."""

from __future__ import annotations

from functools import partial, reduce

from nadi.errors import NadiError, Span, did_you_mean
from nadi.lang import tree
from nadi.lang.tree import Events, Type
from nadi.plan.context import Context, described
from nadi.plan.expressions import Expressions
from nadi.plan.nodes import (
    TABLE,
    Attr,
    Comparison,
    DeleteFromTable,
    Expr,
    InsertIntoStream,
    InsertIntoTable,
    Logic,
    Output,
    Schema,
    Stream,
    Table,
    UpdateOrInsertTable,
    UpdateTable,
)
from nadi.plan.scopes import Place, Scope
from nadi.plan.types import assignable
from nadi.plan.walk import conjuncts, inside


def bind_output(context: Context, node: tree.Output, schema: Schema) -> Output:
    """What is done with output events of this schema; an insert into an unknown stream defines it.

    Raises:
        DUPLICATE_DEFINITION: the target has other columns.
        TABLE_NOT_DEFINED: an update or delete names no table.
        INVALID_QUERY: the target cannot be written, or `return` stands at the top level.
    """
    if isinstance(node, tree.InsertInto):
        return _insert(context, node, schema)
    if isinstance(node, tree.Return):
        reason = "'return' ends an anonymous stream or an on-demand query; a query needs 'insert into' or the like"
        raise context.fail("INVALID_QUERY", node.span, reason=reason)
    try:
        return _change(context, node, schema)
    except NadiError as found:
        if found.siddhi_class == "SiddhiAppCreationException":
            raise
        d = found.diagnostic  # whatever is wrong with a name in it, it is the output that cannot be made
        raise context.fail("INVALID_OUTPUT", d.span, reason=d.message, hint=d.next_step) from found


def _change(
    context: Context, node: tree.Delete | tree.Update | tree.UpdateOrInsert, schema: Schema
) -> DeleteFromTable | UpdateTable | UpdateOrInsertTable:
    table = table_of(context, node.target)
    if isinstance(node, tree.Delete) and node.on is None:
        reason = f"a query that deletes from '{table.name}' needs 'on'; write 'on true' where all rows are to go"
        raise context.fail("INVALID_QUERY", node.span, reason=reason)
    on = condition(context, node.on, schema, table)
    events = node.events or Events.CURRENT
    if isinstance(node, tree.Delete):
        return DeleteFromTable(table.name, events, on)
    insert = () if isinstance(node, tree.Update) else _row_of(context, schema, table, node.span)
    assigned = assignments(context, node.set, schema, table, node.span)
    if isinstance(node, tree.Update):
        return UpdateTable(table.name, events, assigned, on)
    if means_key(on, table):
        on, assigned = _replacement(schema, table, insert, assigned)
    return UpdateOrInsertTable(table.name, events, assigned, on, insert)


# ---- replacing rows ------------------------------------------------------------------------------------------------


def means_key(on: Expr | None, table: Table) -> bool:
    """Whether a condition says no more than what the primary key of a table in memory is to be."""
    if on is None or table.storage is not None:
        return False
    found = [_fixed_column(part) for part in conjuncts(on)]
    if len(table.primary_key) == 1 and len(found) > 1:
        return False
    return bool(found) and set(found) == set(table.primary_key)


def _fixed_column(part: Expr) -> int | None:
    """The column of the table that a condition wants to be equal to something else."""
    if not isinstance(part, Comparison) or part.op != "==":
        return None
    sides = (part.left, part.right)
    columns = [side for side in sides if isinstance(side, Attr) and side.slot == TABLE]
    of_table = sum(isinstance(one, Attr) and one.slot == TABLE for one in inside(sides))
    return columns[0].position if len(columns) == of_table == 1 else None


def _replacement(
    schema: Schema, table: Table, insert: tuple[int, ...], assigned: tuple[tuple[int, Expr], ...]
) -> tuple[Expr, tuple[tuple[int, Expr], ...]]:
    """The condition and what is set where the whole primary key is asked for: as in Siddhi the output then takes the place of the row that has its key,
    whatever is to be set."""
    given = tuple((i, Attr(0, p, schema.columns[p].type, None, schema.columns[p].name)) for i, p in enumerate(insert))
    parts: list[Expr] = []
    for i in table.primary_key:
        column = table.schema.columns[i]
        common = None if column.type in (Type.STRING, Type.BOOL) else column.type
        parts.append(Comparison("==", Attr(TABLE, i, column.type, None, column.name), given[i][1], common))
    return reduce(partial(Logic, "and"), parts), assigned if set(assigned) == set(given) else given


# ---- inserts -------------------------------------------------------------------------------------------------------


def _insert(context: Context, node: tree.InsertInto, schema: Schema) -> InsertIntoStream | InsertIntoTable:
    target, events = node.target, node.events or Events.CURRENT
    key = context.key(target)
    if key in context.tables:
        _same(context, target, "table", context.tables[key].schema, schema)
        return InsertIntoTable(key, events)
    if key in context.windows:
        _same(context, target, "window", context.windows[key].schema, schema)
    elif key in context.streams:
        _same(context, target, "stream", context.streams[key].schema, schema)
    else:
        _new_stream(context, target, key, schema)
    return InsertIntoStream(key, events)


def _same(context: Context, target: tree.Source, kind: str, defined: Schema, wanted: Schema) -> None:
    if defined != wanted:
        raise context.fail(
            "DUPLICATE_DEFINITION",
            target.span,
            name=str(target),
            defined=f"the {kind} {described(defined)}",
            wanted=f"the output {described(wanted)} of this query",
        )


def _new_stream(context: Context, target: tree.Source, key: str, schema: Schema) -> None:
    if key in context.aggregations:
        reason = f"'{target}' is an aggregation, which is fed by its own definition only"
        raise context.fail("INVALID_QUERY", target.span, reason=reason)
    if target.inner and context.partition is None:
        reason = f"the inner stream '{target}' exists only in a partition"
        raise context.fail("INVALID_QUERY", target.span, reason=reason)
    if target.fault:
        hint = f"give the stream '{target.name}' the annotation @OnError(action='STREAM')"
        raise context.fail("STREAM_NOT_DEFINED", target.span, name=str(target), hint=hint)
    context.streams[key] = Stream(
        key, target.name, schema, False, partition=context.partition if target.inner else None
    )


# ---- tables --------------------------------------------------------------------------------------------------------


def table_of(context: Context, target: tree.Source) -> Table:
    """The table that an update or delete names."""
    table = context.tables.get(context.key(target))
    if table is None:
        hint = did_you_mean(str(target), context.tables)
        raise context.fail("TABLE_NOT_DEFINED", target.span, name=str(target), hint=hint)
    return table


def condition_scope(schema: Schema, table: Table) -> Scope:
    """Bare names mean output columns, `T.x` the table's. Where nothing is selected (an on-demand query), bare names mean the table's too."""
    row = Place(TABLE, (table.name,), table.schema, qualified=len(schema) > 0)
    return Scope(((Place(0, (), schema),), (row,)))


def condition(context: Context, node: tree.Expression | None, schema: Schema, table: Table) -> Expr | None:
    """The condition of an update or delete."""
    if node is None:
        return None
    scope = condition_scope(schema, table)
    return Expressions(context, scope, where="table condition").condition(node, "table condition")


def assignments(
    context: Context, nodes: tuple[tree.SetAssignment, ...], schema: Schema, table: Table, span: Span
) -> tuple[tuple[int, Expr], ...]:
    """What is set: as written, or (nothing written) every output column in the column of its name.

    Raises:
        ATTRIBUTE_NOT_FOUND: the table has no such column.
        INVALID_QUERY: the value does not fit the column.

    Warns:
        SET_OF_OTHER_TABLE: the column is named as one of something else.
    """
    if not nodes:
        return tuple(_assign_all(context, schema, table, span))
    binder = Expressions(context, condition_scope(schema, table), where="set clause")
    assigned: list[tuple[int, Expr]] = []
    for node in nodes:
        variable = node.variable
        if variable.stream not in (None, table.name):
            # Siddhi looks at the name of the attribute only, and apps rely on it
            context.warn(
                "SET_OF_OTHER_TABLE", variable.span, named=variable.stream, column=variable.name, table=table.name
            )
        position = _column(context, variable.name, table, variable.span)
        value = binder.bind(node.expression)
        _fits(context, table, position, value, node.span)
        assigned.append((position, value))
    return tuple(assigned)


def _assign_all(context: Context, schema: Schema, table: Table, span: Span) -> list[tuple[int, Expr]]:
    assigned: list[tuple[int, Expr]] = []
    for i, column in enumerate(schema.columns):
        position = _column(context, column.name, table, span)
        _same_type(context, table, position, column.type, span)
        assigned.append((position, Attr(0, i, column.type, None, column.name)))
    return assigned


def _column(context: Context, name: str, table: Table, span: Span) -> int:
    position = table.schema.position(name)
    if position is None:
        hint = did_you_mean(name, table.schema.names)
        raise context.fail("ATTRIBUTE_NOT_FOUND", span, name=name, of=f"the table '{table.name}'", hint=hint)
    return position


def _fits(context: Context, table: Table, position: int, value: Expr, span: Span) -> None:
    column = table.schema.columns[position]
    if not assignable(column.type, value.type):
        reason = f"a {value.type} cannot be stored in '{table.name}.{column.name}', which is a {column.type}"
        raise context.fail("INVALID_QUERY", span, reason=reason)


def _same_type(context: Context, table: Table, position: int, given: Type, span: Span) -> None:
    """A column that goes into the table as it is has the type of the table's: only `set` converts."""
    column = table.schema.columns[position]
    if given != column.type:
        reason = f"the output '{column.name}' is a {given}, '{table.name}.{column.name}' a {column.type}"
        raise context.fail("INVALID_QUERY", span, reason=reason)


def _row_of(context: Context, schema: Schema, table: Table, span: Span) -> tuple[int, ...]:
    """Where in an output row the table's columns are found, in the table's order."""
    positions: list[int] = []
    for i, column in enumerate(table.schema.columns):
        position = schema.position(column.name)
        if position is None:
            of = f"the output, and '{table.name}' needs it to insert"
            hint = did_you_mean(column.name, schema.names)
            raise context.fail("ATTRIBUTE_NOT_FOUND", span, name=column.name, of=of, hint=hint)
        _same_type(context, table, i, schema.columns[position].type, span)
        positions.append(position)
    return tuple(positions)
