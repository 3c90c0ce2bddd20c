"""Walking over plan nodes: everything inside a node, and copies with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from nadi.plan.nodes import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Expr,
    InTable,
    JoinInput,
    Logic,
    Negation,
    NullCheck,
    Query,
    SingleInput,
    StateInput,
    StreamElement,
    links,
)


def inside(node: object) -> Iterator[object]:
    """A node and all nodes in it, outermost first."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if type(here) in _LEAVES:
            continue
        if isinstance(here, tuple):
            waiting.extend(reversed(here))
        elif (names := _fields(type(here))) is not None:
            yield here
            waiting += [getattr(here, name) for name in names]


_LEAVES = frozenset((str, int, float, bool, type(None)))
"""What most fields hold."""
_FIELDS: dict[type, tuple[str, ...] | None] = {}


def _fields(kind: type) -> tuple[str, ...] | None:
    """The names of a node's fields, last first; None of what is no node."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f.name for f in reversed(fields(kind))) if is_dataclass(kind) else None
    return _FIELDS[kind]


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The conditions that `and` joins, in order; the condition itself where there is no `and`."""
    waiting = [condition]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Logic) and here.op == "and":
            waiting += (here.right, here.left)
        else:
            yield here


def replaced(expr: Expr, change: Callable[[Expr], Expr], whole: type[Expr] | tuple[()] = ()) -> Expr:
    """A copy of an expression whose leaves are what `change` makes of them; nodes of the class `whole` are leaves, too."""
    if isinstance(expr, whole):
        return change(expr)
    match expr:
        case Arithmetic() | Comparison() | Logic():
            chain = links(expr)
            made = replaced(chain[0].left, change, whole)
            for link in chain:
                made = replace(link, left=made, right=replaced(link.right, change, whole))
            return made
        case Negation() | NullCheck():
            return replace(expr, operand=replaced(expr.operand, change, whole))
        case Call() | Aggregate():
            return replace(expr, args=tuple(replaced(a, change, whole) for a in expr.args))
        case InTable():
            return replace(expr, condition=replaced(expr.condition, change, whole))
        case _:
            return change(expr)


Found = TypeVar("Found")


def _remembered(find: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """Find what there is in a node once: nodes do not change, and each kernel of an app asks again. By identity: to compare nodes takes as long as to walk
    over them. What is remembered is held, so that no other node can have its place in memory.
    """
    known: dict[int, tuple[object, Found]] = {}

    def ask(node: Any) -> Found:
        entry = known.get(id(node))
        if entry is None or entry[0] is not node:
            if len(known) >= _REMEMBERED:
                known.clear()
            entry = known[id(node)] = (node, find(node))
        return entry[1]

    return ask


_REMEMBERED = 1024


@_remembered
def _read(query: Query) -> tuple[tuple[int, str], ...]:
    match query.input:
        case SingleInput() as source:
            return ((0, source.source),)
        case JoinInput() as join:
            return ((0, join.left.input.source), (1, join.right.input.source))
        case StateInput() as state:
            return tuple({e.slot: e.source for e in inside(state.root) if isinstance(e, StreamElement)}.items())


def read(query: Query) -> dict[int, str]:
    """What a query reads, by slot: keys of streams and windows, names of tables and aggregations."""
    return dict(_read(query))


@_remembered
def _searched(node: object) -> frozenset[str]:
    return frozenset(e.table for e in inside(node) if isinstance(e, InTable))


def searched(node: object) -> set[str]:
    """The tables and windows that conditions inside a node look into."""
    return set(_searched(node))
