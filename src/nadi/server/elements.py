"""The design view of an app: what flows from where to where, an object for each edge, with the stretches of the text that say so.

The syntax tree has the places in the text, and the plan the streams that no definition has. In stretches `'` is `"`, as the dashboards of the reference put
them between single quotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from nadi.errors import Span
from nadi.lang import parse_collecting
from nadi.lang.tree import (
    AggregationDefinition,
    Annotation,
    AnonymousInput,
    Definition,
    FunctionCall,
    FunctionDefinition,
    Partition,
    Query,
    RangeKey,
    Return,
    SiddhiApp,
    SingleInput,
    StreamDefinition,
    TableDefinition,
    TriggerDefinition,
    WindowDefinition,
)
from nadi.plan.nodes import App

QUERY_NAME = "query"
_TYPES: tuple[tuple[type[Any], str], ...] = (
    (StreamDefinition, "Stream"),
    (TableDefinition, "Table"),
    (WindowDefinition, "Window"),
    (TriggerDefinition, "Trigger"),
    (AggregationDefinition, "Aggregation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge, with the fields of the contract; None where one says nothing of it."""

    inputStreamId: str  # noqa: N815 - these are the contract's names
    inputStreamType: str  # noqa: N815
    inputStreamSiddhiApp: str | None  # noqa: N815
    outputStreamId: str  # noqa: N815
    outputStreamType: str  # noqa: N815
    outputStreamSiddhiApp: str | None  # noqa: N815
    query: str | None = None
    queryName: str | None = None  # noqa: N815
    partitionType: str | None = None  # noqa: N815
    partitionTypeQuery: str | None = None  # noqa: N815
    partitionQuery: str | None = None  # noqa: N815
    function: str | None = None
    functionQuery: str | None = None  # noqa: N815


def edges_of(text: str, app: App | None) -> list[Edge]:
    """The edges of a text: sources, queries in the order of the text, aggregations, sinks. `app` is its plan, None where the text has none: then of a stream
    without a definition only the name is known."""
    tree, _errors = parse_collecting(text)
    return list(_View(text, tree, app).edges())


class _View:
    """The work of `edges_of`."""

    def __init__(self, text: str, tree: SiddhiApp, app: App | None) -> None:
        self._text = text
        self._tree = tree
        self._app = app
        self._defined = {_name(d): d for d in tree.definitions if not isinstance(d, FunctionDefinition)}
        self._functions = {d.name: d for d in tree.definitions if isinstance(d, FunctionDefinition)}

    def edges(self) -> Iterator[Edge]:
        """All of them."""
        yield from self._connectors("source")
        for element in self._tree.elements:
            if isinstance(element, Partition):
                for query in element.queries:
                    yield from self._of_query(query, element)
            else:
                yield from self._of_query(element, None)
        for name, one in self._defined.items():
            if isinstance(one, AggregationDefinition):
                yield Edge(**self._input(str(one.input.source)), **self._output(name))
        yield from self._connectors("sink")

    def _connectors(self, kind: str) -> Iterator[Edge]:
        for name, definition in self._defined.items():
            for annotation in definition.annotations:
                if annotation.name.lower() != kind:
                    continue
                own = annotation.get("type") or annotation.get("ref") or kind
                shown = self._slice(annotation.span)
                if kind == "source":
                    ends = _ends("input", own, "Source", shown) | self._output(name)
                else:
                    ends = self._input(name) | _ends("output", own, "Sink", shown)
                yield Edge(**ends)

    def _of_query(self, query: Query, partition: Partition | None) -> Iterator[Edge]:
        if isinstance(query.output, Return):
            return
        about: dict[str, Any] = {"queryName": _info(query.annotations), **self._function(query)}
        if partition is None:
            about["query"] = self._slice(query.span)
        else:
            keys = partition.keys
            ranges = any(isinstance(key, RangeKey) for key in keys)
            about |= {
                "query": self._slice(partition.span),
                "partitionQuery": self._slice(query.span),
                "partitionType": "Range Partition" if ranges else "Value Partition",
                "partitionTypeQuery": self._slice(keys[0].span.to(keys[-1].span)) if keys else None,
            }
        target = self._output(str(query.output.target))
        for name in dict.fromkeys(_read(query)):
            yield Edge(**self._input(name), **target, **about)

    def _function(self, query: Query) -> dict[str, Any]:
        """The first script function that a query calls."""
        for node in _within(query):
            if isinstance(node, FunctionCall) and (found := self._functions.get(node.name)) is not None:
                return {"function": found.name, "functionQuery": self._slice(found.span)}
        return {}

    def _input(self, name: str) -> dict[str, Any]:
        return _ends("input", name, *self._about(name))

    def _output(self, name: str) -> dict[str, Any]:
        return _ends("output", name, *self._about(name))

    def _about(self, name: str) -> tuple[str, str | None]:
        """The type of what has a name, and the text that defines it."""
        found = self._defined.get(name)
        if found is None:
            return "Stream", self._implied(name)
        return next(shown for kind, shown in _TYPES if isinstance(found, kind)), self._slice(found.span)

    def _implied(self, name: str) -> str | None:
        """The definition that a stream would have: queries that write to it have made it."""
        stream = None if self._app is None else self._app.streams.get(name)
        if stream is None:
            return None
        return f"define stream {name} ({', '.join(f'{c.name} {c.type}' for c in stream.schema.columns)})"

    def _slice(self, span: Span) -> str:
        return self._text[span.start : span.end].replace("'", '"')


def _ends(side: str, name: str, kind: str, shown: str | None) -> dict[str, Any]:
    return {f"{side}StreamId": name, f"{side}StreamType": kind, f"{side}StreamSiddhiApp": shown}


def _name(definition: Definition) -> str:
    if isinstance(definition, StreamDefinition | TableDefinition | WindowDefinition):
        return str(definition.source)
    return definition.name


def _info(annotations: tuple[Annotation, ...]) -> str:
    named = next((a.get("name") for a in annotations if a.name.lower() == "info"), None)
    return named or QUERY_NAME


def _read(query: Query) -> Iterator[str]:
    """What a query reads, in the order of its text; of one within another, that one's."""
    if isinstance(query.input, AnonymousInput):
        yield from _read(query.input.query)
        return
    for node in _within(query.input):
        if isinstance(node, SingleInput):
            yield str(node.source)


def _within(node: object) -> Iterator[object]:
    """A node of the tree, and all below it."""
    if isinstance(node, tuple):
        for one in node:
            yield from _within(one)
    elif is_dataclass(node) and not isinstance(node, type | Span):
        yield node
        for field in fields(node):
            yield from _within(getattr(node, field.name))


def as_json(edge: Edge) -> Mapping[str, Any]:
    """An edge as the contract has it.

    >>> as_json(edges_of("define stream S (a int); from S select a insert into T;", None)[0])["outputStreamId"]
    'T'
    """
    return {field.name: getattr(edge, field.name) for field in fields(edge)}
