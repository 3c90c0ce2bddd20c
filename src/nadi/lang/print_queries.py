"""Printing of queries, partitions and on-demand queries."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.lang import print_expressions as small
from nadi.lang import print_inputs as inputs
from nadi.lang.literals import name_text, string_text, time_text
from nadi.lang.print_expressions import comma_list
from nadi.lang.tree import (
    Delete,
    Events,
    Expression,
    InsertInto,
    OnDemandQuery,
    Output,
    Partition,
    Query,
    RangeKey,
    Rate,
    Return,
    Selection,
    SetAssignment,
    Source,
    Update,
    UpdateOrInsert,
    ValueKey,
)
from nadi.lang.writer import Writer


def query(w: Writer, node: Query) -> None:
    """A query without its `;`."""
    w.open(node.span)
    small.annotation_lines(w, node.annotations)
    w.put("from")
    w.space()
    inputs.query_input(w, node.input, query)
    w.line()
    selection(w, node.selection)
    if node.rate is not None:
        rate(w, node.rate)
        w.line()
    output(w, node.output)
    w.close(node.span)


def selection(w: Writer, node: Selection) -> None:
    """`select …` and its clauses, and a line break; nothing if it is empty."""
    if not (node.items or node.star):
        return
    w.open(node.span)
    w.put("select")
    w.space()
    if node.star:
        w.put("*")
    else:
        comma_list(w, node.items, small.select_item, 7)
    if node.group_by:
        _clause(w, "group by")
        comma_list(w, node.group_by, small.variable, 9)
    if node.having is not None:
        _clause(w, "having")
        small.expression(w, node.having)
    if node.order_by:
        _clause(w, "order by")
        comma_list(w, node.order_by, small.order_by, 9)
    if node.limit is not None:
        _clause(w, "limit")
        small.expression(w, node.limit)
    if node.offset is not None:
        _clause(w, "offset")
        small.expression(w, node.offset)
    w.close(node.span)
    w.line()


def _clause(w: Writer, words: str) -> None:
    w.line()
    w.put(words)
    w.space()


def rate(w: Writer, node: Rate) -> None:
    """`output last every 5 sec`."""
    w.open(node.span)
    w.put("output", *([node.kind] if node.kind else []), "every")
    w.space()
    w.put(f"{node.events} events" if node.every is None else time_text(node.every))
    w.close(node.span)


def output(w: Writer, node: Output) -> None:
    """What is done with the result."""
    w.open(node.span)
    match node:
        case InsertInto(target, events):
            w.put("insert", *_events(events), "into")
            w.space()
            small.source(w, target)
        case Delete(target, events, on):
            w.put("delete")
            w.space()
            _target(w, target, events)
            _on(w, on)
        case Update(target, on, events, assignments):
            w.put("update")
            w.space()
            _target(w, target, events)
            _set(w, assignments)
            _on(w, on)
        case UpdateOrInsert(target, on, events, assignments):
            w.put("update or insert into")
            w.space()
            _target(w, target, events)
            _set(w, assignments)
            _on(w, on)
        case Return(events):
            w.put("return", *_events(events))
    w.close(node.span)


def _events(events: Events | None) -> tuple[str, ...]:
    return () if events is None else (small.events_text(events),)


def _target(w: Writer, target: Source, events: Events | None) -> None:
    small.source(w, target)
    if events is not None:
        w.space()
        w.put("for", small.events_text(events))


def _set(w: Writer, assignments: Sequence[SetAssignment]) -> None:
    if not assignments:
        return
    w.indent += 1
    _clause(w, "set")
    comma_list(w, assignments, small.assignment, 4)
    w.indent -= 1


def _on(w: Writer, condition: Expression | None) -> None:
    if condition is None:
        return
    w.indent += 1
    _clause(w, "on")
    small.expression(w, condition)
    w.indent -= 1


# ---- partitions and on-demand queries ----


def partition(w: Writer, node: Partition) -> None:
    """A partition without its `;`."""
    w.open(node.span)
    small.annotation_lines(w, node.annotations)
    w.put("partition", "with", "(")
    comma_list(w, node.keys, key, 16, closing=True)
    w.put(")")
    w.line()
    w.put("begin")
    w.indent += 1
    for i, inner in enumerate(node.queries):
        w.line(2 if i else 1)
        query(w, inner)
        w.put(";")
    w.indent -= 1
    w.line()
    w.put("end")
    w.close(node.span)


def key(w: Writer, node: ValueKey | RangeKey) -> None:
    """`expr of S`, `cond as 'label' or … of S`."""
    w.open(node.span)
    if isinstance(node, ValueKey):
        small.expression(w, node.expression)
    else:
        for i, (condition, label) in enumerate(node.ranges):
            if i:
                w.space()
                w.put("or")
                w.space()
            small.expression(w, condition)
            w.space()
            w.put("as", string_text(label))
    w.space()
    w.put("of", name_text(node.stream))
    w.close(node.span)


def on_demand(w: Writer, node: OnDemandQuery) -> None:
    """An on-demand query without a `;`."""
    w.open(node.span)
    if node.input is not None:
        w.put("from")
        w.space()
        inputs.single(w, node.input)
        _on(w, node.on)
        w.indent += 1
        inputs.within_per(w, node)
        w.indent -= 1
        w.line()
        selection(w, node.selection)
    else:
        selection(w, node.selection)
        output(w, node.output)
    w.close(node.span)
