"""Attributes with one name in one definition or selection. Siddhi refuses them when it reads a text, before it looks at what the names mean."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.errors import NadiError, Span, error
from nadi.lang.tree import (
    AggregationDefinition,
    AnonymousInput,
    OnDemandQuery,
    Partition,
    Query,
    Selection,
    SiddhiApp,
    StreamDefinition,
    TableDefinition,
    Variable,
    WindowDefinition,
)


def repeated_attribute(node: object, text: str, file: str = "") -> NadiError | None:
    """The error for the first attribute of an app, or of a statement, that has the name of one before it; None where there is none.

    As in Siddhi, the definition of a stream is then no SiddhiQL (ATTRIBUTE_DEFINED_TWICE), and all else is DUPLICATE_ATTRIBUTE.

    >>> from nadi.lang.apps import parse_collecting
    >>> text = "define stream S (a int, b int, a long);"
    >>> print(repeated_attribute(parse_collecting(text)[0], text).diagnostic.message)
    the attribute 'a' is named twice in the definition of 'S'
    """
    found = min(_repeated(node), key=lambda each: each[0], default=None)
    if found is None:
        return None
    span, condition, name, where = found
    return error(condition, span, text, file, name=name, where=where)


def _repeated(node: object) -> Iterator[tuple[Span, str, str, str]]:
    """(place, condition, name, where) of each attribute whose name is taken."""
    match node:
        case SiddhiApp():
            for part in (*node.definitions, *node.elements):
                yield from _repeated(part)
        case StreamDefinition() | TableDefinition() | WindowDefinition():
            named = [(a.name, a.span) for a in node.attributes]
            condition = "ATTRIBUTE_DEFINED_TWICE" if isinstance(node, StreamDefinition) else "DUPLICATE_ATTRIBUTE"
            yield from _taken(named, f"the definition of '{node.source}'", condition)
        case AggregationDefinition() | OnDemandQuery():
            yield from _repeated(node.selection)
        case Query():
            if isinstance(node.input, AnonymousInput):
                yield from _repeated(node.input.query)
            yield from _repeated(node.selection)
        case Partition():
            for query in node.queries:
                yield from _repeated(query)
        case Selection():
            outputs = [(item.alias or _name(item.expression), item.span) for item in node.items]
            yield from _taken([(name, span) for name, span in outputs if name], "the selection")


def _name(expression: object) -> str:
    return expression.name if isinstance(expression, Variable) else ""


def _taken(
    named: list[tuple[str, Span]], where: str, condition: str = "DUPLICATE_ATTRIBUTE"
) -> Iterator[tuple[Span, str, str, str]]:
    names: set[str] = set()
    for name, span in named:
        if name in names:
            yield span, condition, name, where
        names.add(name)
