"""Definitions: streams, fault streams, tables, named windows, triggers and functions (semantics/text.md#definitions)."""

from __future__ import annotations

from collections.abc import Iterable

from nadi.errors import NadiError, Span, did_you_mean
from nadi.lang import tree
from nadi.lang.tree import Annotation, Events, Type
from nadi.plan.annotations import check_positive, found
from nadi.plan.context import TRIGGER_SCHEMA, Context, described
from nadi.plan.cron import next_fire
from nadi.plan.nodes import Column, NamedWindow, Schema, Script, Stream, Table, Trigger
from nadi.plan.scopes import one_row
from nadi.plan.scripts import check_script
from nadi.plan.stores import storage_of
from nadi.plan.windows import bind_window

_ERROR_COLUMN = Column("_error", Type.OBJECT)


def schema_of(
    context: Context, attributes: Iterable[tree.Attribute], where: str, twice: str = "DUPLICATE_ATTRIBUTE"
) -> Schema:
    """The schema of a definition.

    Raises:
        DUPLICATE_ATTRIBUTE: a name is used twice; in a stream ATTRIBUTE_DEFINED_TWICE (`nadi.lang.repeated`).
    """
    columns: dict[str, Column] = {}
    for a in attributes:
        if a.name in columns:
            raise context.fail(twice, a.span, name=a.name, where=where)
        columns[a.name] = Column(a.name, a.type)
    return Schema(tuple(columns.values()))


def define(context: Context, definition: tree.Definition) -> None:
    """Enter a definition into the context (aggregations are bound by `aggregations`).

    Raises:
        DUPLICATE_DEFINITION: the name is defined as something else.
    """
    match definition:
        case tree.StreamDefinition():
            _define_stream(context, definition)
        case tree.TableDefinition():
            _define_table(context, definition)
        case tree.WindowDefinition():
            _define_window(context, definition)
        case tree.TriggerDefinition():
            _define_trigger(context, definition)
        case tree.FunctionDefinition():
            _define_function(context, definition)


def claim(context: Context, name: str, wanted: str, span: Span) -> None:
    """A name may be defined once, or again as exactly the same.

    Raises:
        DUPLICATE_DEFINITION: it is defined as something else.
    """
    defined = context.taken(name)
    if defined and defined != wanted:
        raise context.fail("DUPLICATE_DEFINITION", span, name=name, defined=defined, wanted=wanted)


# ---- streams -------------------------------------------------------------------------------------------------------


def _define_stream(context: Context, definition: tree.StreamDefinition) -> None:
    source = definition.source
    _no_inner(context, source, "stream")
    where = f"the definition of '{source}'"
    schema = schema_of(context, definition.attributes, where, twice="ATTRIBUTE_DEFINED_TWICE")
    if not (source.name in context.triggers and schema == TRIGGER_SCHEMA):
        claim(context, source.name, f"the stream {described(schema)}", definition.span)
    # also one with a wrong annotation: that there is no such stream would be a second error
    context.streams[source.name] = Stream(source.name, source.name, schema, True, definition.annotations)
    for a in found(definition.annotations, "async"):
        for key in ("buffer.size", "workers", "batch.size.max"):
            check_positive(context, a, key)
    _check_connectors(context, definition.annotations)
    if _has_fault_stream(context, definition.annotations):
        key = f"!{source.name}"
        if _ERROR_COLUMN.name in schema.names:
            where = f"the fault stream '{key}', which has it for the reason"
            raise context.fail("DUPLICATE_ATTRIBUTE", definition.span, name=_ERROR_COLUMN.name, where=where)
        fault = Schema((*schema.columns, _ERROR_COLUMN))
        context.streams[key] = Stream(key, source.name, fault, False)


def _check_connectors(context: Context, annotations: tuple[Annotation, ...]) -> None:
    """Sources, sinks and their mappers have a type; whether there is such a one is known where they are made."""
    for connector in (*found(annotations, "source"), *found(annotations, "sink")):
        for a, example in ((connector, "inMemory"), *((m, "json") for m in connector.all("map"))):
            if not a.get("type"):
                reason = f"it needs a type, as in type='{example}'"
                raise context.fail("INVALID_ANNOTATION", a.span, name=a.name, reason=reason)


def _no_inner(context: Context, source: tree.Source, kind: str) -> None:
    if source.inner or source.fault:
        reason = f"a {kind} cannot be defined as '{source}': inner and fault streams come from queries and @OnError"
        raise context.fail("INVALID_QUERY", source.span, reason=reason)


def _has_fault_stream(context: Context, annotations: tuple[Annotation, ...]) -> bool:
    for a in found(annotations, "OnError"):
        action = (a.get("action") or "").upper()
        if not action:
            reason = "it needs an action: LOG, STREAM or STORE, as in action = 'STREAM'"
            raise context.fail("INVALID_ANNOTATION", a.span, name=a.name, reason=reason)
        if action not in ("LOG", "STREAM", "STORE"):
            reason = f"action is LOG, STREAM or STORE, not '{action}'"
            raise context.fail("INVALID_ANNOTATION", a.span, name=a.name, reason=reason)
        if action == "STREAM":
            return True
    return False


# ---- tables --------------------------------------------------------------------------------------------------------


def _define_table(context: Context, definition: tree.TableDefinition) -> None:
    name = definition.source.name
    _no_inner(context, definition.source, "table")
    schema = schema_of(context, definition.attributes, f"the definition of '{name}'")
    claim(context, name, f"the table {described(schema)}", definition.span)
    # also one with a wrong annotation, as with streams
    context.tables[name] = Table(name, schema, (), (), definition.annotations)
    storage = storage_of(context, definition.annotations)
    if storage is None:
        for rejected in found(definition.annotations, "indexBy"):
            reason = "it is not supported any more, use @primaryKey or @index"
            raise context.fail("INVALID_ANNOTATION", rejected.span, name=rejected.name, reason=reason)
    key = _primary_key(context, definition, schema)
    indexes = (_indexes if storage is None else _indexes_of_store)(context, definition, schema)
    context.tables[name] = Table(name, schema, key, indexes, definition.annotations, storage)


def _primary_key(context: Context, definition: tree.TableDefinition, schema: Schema) -> tuple[int, ...]:
    keys = found(definition.annotations, "primaryKey")
    if not keys:
        return ()
    if len(keys) > 1:
        raise context.fail(
            "DUPLICATE_ANNOTATION", keys[1].span, what="@primaryKey, which takes all attributes of the key,"
        )
    if not keys[0].elements:
        raise context.fail("ANNOTATION_REJECTED", keys[0].span, name=keys[0].name, reason="it names no attribute")
    return _positions(context, keys[0], definition.source.name, schema)


def _indexes_of_store(context: Context, definition: tree.TableDefinition, schema: Schema) -> tuple[int, ...]:
    """The attributes with an index of their own, once each. What else a store makes of `@index` is its own business: rules for rows in memory do not count. A
    cache does without the other indexes."""
    indexes = [_positions(context, a, definition.source.name, schema) for a in found(definition.annotations, "index")]
    return tuple(dict.fromkeys(positions[0] for positions in indexes if len(positions) == 1))


def _indexes(context: Context, definition: tree.TableDefinition, schema: Schema) -> tuple[int, ...]:
    positions: list[int] = []
    for a in found(definition.annotations, "index"):
        if len(a.elements) != 1:
            reason = f"one attribute per annotation, not {len(a.elements)}: write @index several times"
            raise context.fail("ANNOTATION_REJECTED", a.span, name=a.name, reason=reason)
        (position,) = _positions(context, a, definition.source.name, schema)
        if position in positions:
            reason = f"'{schema.names[position]}' has an index already"
            raise context.fail("ANNOTATION_REJECTED", a.span, name=a.name, reason=reason)
        positions.append(position)
    return tuple(positions)


def _positions(context: Context, annotation: Annotation, table: str, schema: Schema) -> tuple[int, ...]:
    positions = []
    for e in annotation.elements:
        position = schema.position(e.value.strip())
        if position is None:
            hint = did_you_mean(e.value, schema.names)
            raise context.fail("ATTRIBUTE_NOT_FOUND", e.span, name=e.value, of=f"'{table}'", hint=hint)
        positions.append(position)
    return tuple(positions)


# ---- windows, triggers, functions ----------------------------------------------------------------------------------


def _define_window(context: Context, definition: tree.WindowDefinition) -> None:
    name = definition.source.name
    _no_inner(context, definition.source, "window")
    schema = schema_of(context, definition.attributes, f"the definition of '{name}'")
    claim(context, name, f"the window {described(schema)}", definition.span)
    window = bind_window(context, one_row(schema, name), definition.window, f"{name}/window")
    output = definition.output or Events.ALL
    context.windows[name] = NamedWindow(name, schema, window, output, definition.annotations)


def _define_trigger(context: Context, definition: tree.TriggerDefinition) -> None:
    name = definition.name
    defined = context.streams.get(name)
    if defined is None or defined.schema != TRIGGER_SCHEMA:
        claim(context, name, f"the trigger {described(TRIGGER_SCHEMA)}", definition.span)
    if definition.every is not None and definition.every.milliseconds < 1:
        raise context.fail("INVALID_QUERY", definition.every.span, reason="a trigger needs a time above 0")
    if definition.every is not None:
        made = Trigger(name, every=definition.every.milliseconds)
    elif (definition.at or "").strip().lower() == "start":
        made = Trigger(name, start=True)
    else:
        made = Trigger(name, cron=_cron(context, definition))
    if name in context.triggers:
        defined_as = f"the trigger {context.triggers[name]}"
        raise context.fail(
            "DUPLICATE_DEFINITION", definition.span, name=name, defined=defined_as, wanted="this trigger"
        )
    context.triggers[name] = made
    if defined is None:
        context.streams[name] = Stream(name, name, TRIGGER_SCHEMA, True, definition.annotations)


def _cron(context: Context, definition: tree.TriggerDefinition) -> str:
    text = definition.at or ""
    try:
        next_fire(text, 0)
    except NadiError as problem:
        raise context.fail(problem.condition, definition.span, **problem.parameters) from problem
    return text


def _define_function(context: Context, definition: tree.FunctionDefinition) -> None:
    made = Script(definition.name, definition.language, definition.type, definition.body)
    if context.scripts.get(definition.name, made) != made:
        raise context.fail(
            "DUPLICATE_DEFINITION",
            definition.span,
            name=definition.name,
            defined="another function",
            wanted="this function",
        )
    context.scripts[definition.name] = made  # also a wrong one: that there is no such function would be a second error
    check_script(context, definition)
