"""Binding: a syntax tree and a catalog become a plan, or diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nadi.errors import Diagnostic, NadiError
from nadi.lang import parse, parse_collecting, tree
from nadi.plan.aggregations import define_aggregation
from nadi.plan.annotations import check_app, compatibility, on_spark, playback, repeated_annotations
from nadi.plan.appnames import UNNAMED, app_name
from nadi.plan.catalog import Catalog
from nadi.plan.context import Context
from nadi.plan.definitions import define
from nadi.plan.names import Names, repeated_names
from nadi.plan.nodes import App, Partition, Query
from nadi.plan.queries import Queries, bind_partition, bind_query
from nadi.plan.sharding import shard

_ORDER = (
    tree.FunctionDefinition,
    tree.StreamDefinition,
    tree.TriggerDefinition,
    tree.TableDefinition,
    tree.WindowDefinition,
    tree.AggregationDefinition,
)
"""Definitions may refer to those of the kinds before them, wherever they stand."""


def bind(app: tree.SiddhiApp, catalog: Catalog, *, text: str = "", file: str = "") -> App:
    """The plan of an app.

    Args:
        app: its syntax tree.
        catalog: the functions, aggregators, stream functions and windows that exist.
        text: the text of the tree, for error messages.
        file: its name, for error messages.

    Raises:
        NadiError: the first semantic error, of the class that Siddhi raises for it, with its place.
    """
    return _bind(app, Context(catalog, text, file), None)


def bind_collecting(
    app: tree.SiddhiApp, catalog: Catalog, *, text: str = "", file: str = ""
) -> tuple[App | None, tuple[Diagnostic, ...]]:
    """The plan, or None and every error that can be told apart: at most one per statement, in the order of the text.

    What only fails because something before it failed is not reported.
    """
    made, found = bind_as_far(app, catalog, text=text, file=file)
    return (None if found else made), found


def bind_as_far(
    app: tree.SiddhiApp, catalog: Catalog, *, text: str = "", file: str = ""
) -> tuple[App, tuple[Diagnostic, ...]]:
    """As `bind_collecting`, with as much of the plan as could be bound: where there are errors it cannot run, but has what is right of its definitions."""
    failed: list[NadiError] = []
    made = _bind(app, Context(catalog, text, file), failed)
    return made, tuple(sorted((e.diagnostic for e in failed), key=lambda d: d.span))


def plan_app(text: str, catalog: Catalog, *, file: str = "", connections: Mapping[str, str] | None = None) -> App:
    """Parse and bind. `connections` are values for `${name}` in strings; the app's text does not have them (`nadi.lang.settled`).

    Raises:
        SiddhiParserException: the text is not SiddhiQL.
        NadiError: it is, and makes no app.
    """
    return bind(parse(text, file=file, connections=connections), catalog, text=text, file=file)


def diagnose(
    text: str, file: str, catalog: Catalog, connections: Mapping[str, str] | None = None
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a text: what cannot be read and, of what can, what makes no sense. `connections` as for `plan_app`."""
    app, unread = parse_collecting(text, file=file, connections=connections)
    _made, wrong = bind_collecting(app, catalog, text=text, file=file)
    if unread:
        # what is missing because it could not be read is no second error
        wrong = tuple(d for d in wrong if d.condition not in ("STREAM_NOT_DEFINED", "TABLE_NOT_DEFINED"))
    return tuple(sorted((*unread, *wrong), key=lambda d: d.span))


def _bind(app: tree.SiddhiApp, context: Context, failed: list[NadiError] | None) -> App:
    name, clock, pinned, buckets = UNNAMED, None, "", 0
    try:
        name = app_name(context, app.annotations)
    except NadiError as found:
        _note(found, failed)
    try:
        context.compat = compatibility(context, app.annotations)
        check_app(context, app.annotations)
        clock = playback(context, app.annotations)
        pinned, buckets = on_spark(context, app.annotations)
    except NadiError as found:
        _note(found, failed)
    for repeated in (*repeated_annotations(context, app), *repeated_names(context, app.elements)):
        _note(repeated, failed)
    _define_all(context, app.definitions, failed)
    elements = _elements(context, app.elements, failed)
    made = App(
        name=name,
        streams=context.streams,
        tables=context.tables,
        windows=context.windows,
        triggers=context.triggers,
        scripts=context.scripts,
        aggregations=context.aggregations,
        elements=elements,
        playback=clock,
        compat=context.compat,
        pool=pinned,
        buckets=buckets,
        annotations=app.annotations,
        text=context.text,
        warnings=tuple(sorted(context.warnings, key=lambda d: d.span)),
    )
    return made if failed else replace(made, sharding=shard(made))


def _note(found: NadiError, failed: list[NadiError] | None) -> None:
    if failed is None:
        raise found
    failed.append(found)


def _define_all(context: Context, definitions: tuple[tree.Definition, ...], failed: list[NadiError] | None) -> None:
    for kind in _ORDER:
        for definition in definitions:
            if not isinstance(definition, kind):
                continue
            try:
                if isinstance(definition, tree.AggregationDefinition):
                    define_aggregation(context, definition)
                else:
                    define(context, definition)
            except NadiError as found:
                if failed is None or not context.follows(found):
                    _note(found, failed)
                _forget(context, definition)


def _forget(context: Context, definition: tree.Definition) -> None:
    """What reads a definition that could not be bound is not reported again."""
    if isinstance(definition, tree.FunctionDefinition):
        return  # nothing reads one
    name = definition.source.name if hasattr(definition, "source") else definition.name
    if not context.taken(name):
        context.unknown.add(name)
    if not context.taken(f"!{name}"):
        context.unknown.add(f"!{name}")


def _elements(
    context: Context, nodes: tuple[tree.ExecutionElement, ...], failed: list[NadiError] | None
) -> tuple[Query | Partition, ...]:
    # a query may be called like a table or window; its state may not
    taken = {*context.tables, *context.windows, *context.triggers, *context.aggregations}
    queries = Queries(context, Names(taken=taken))
    elements: list[Query | Partition] = []
    for node in nodes:
        if isinstance(node, tree.Query):
            elements.extend(bind_query(queries, node, failed))
        elif (partition := bind_partition(queries, node, failed)) is not None:
            elements.append(partition)
    return tuple(elements)
