"""Printing of definitions."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.lang import print_expressions as small
from nadi.lang import print_inputs as inputs
from nadi.lang import print_queries as queries
from nadi.lang.literals import name_text, string_text
from nadi.lang.print_expressions import comma_list
from nadi.lang.tree import (
    AggregationDefinition,
    Attribute,
    Definition,
    FunctionDefinition,
    Source,
    StreamDefinition,
    TableDefinition,
    TriggerDefinition,
    WindowDefinition,
)
from nadi.lang.writer import Writer


def definition(w: Writer, node: Definition) -> None:
    """A definition without its `;`."""
    w.open(node.span)
    small.annotation_lines(w, node.annotations)
    w.put("define")
    w.space()
    match node:
        case StreamDefinition(defined, attributes):
            w.put("stream")
            _head(w, defined, attributes)
        case TableDefinition(defined, attributes):
            w.put("table")
            _head(w, defined, attributes)
        case WindowDefinition(defined, attributes, window, output):
            w.put("window")
            _head(w, defined, attributes)
            w.space()
            small.call(w, window)
            if output is not None:
                w.space()
                w.put("output", small.events_text(output))
        case TriggerDefinition():
            _trigger(w, node)
        case FunctionDefinition(name, language, kind, body):
            w.put("function", f"{name_text(name)}[{name_text(language)}]", "return", str(kind), f"{{{body}}}")
        case AggregationDefinition():
            _aggregation(w, node)
    w.close(node.span)


def _head(w: Writer, defined: Source, attributes: Sequence[Attribute]) -> None:
    w.space()
    small.source(w, defined)
    w.space()
    w.put("(")
    comma_list(w, attributes, small.attribute, 20 + len(str(defined)), closing=True)
    w.put(")")


def _trigger(w: Writer, node: TriggerDefinition) -> None:
    w.put("trigger", name_text(node.name), "at")
    w.space()
    if node.every is not None:
        w.put("every")
        w.space()
        inputs.time(w, node.every)
    else:
        w.put(string_text(node.at or ""))


def _aggregation(w: Writer, node: AggregationDefinition) -> None:
    w.put("aggregation", name_text(node.name))
    w.line()
    w.put("from")
    w.space()
    inputs.single(w, node.input)
    w.line()
    queries.selection(w, node.selection)
    w.line()
    w.put("aggregate")
    w.space()
    if node.aggregate_by is not None:
        w.put("by")
        w.space()
        small.variable(w, node.aggregate_by)
        w.space()
    w.put("every", (" ... " if node.is_range else ", ").join(node.durations))
