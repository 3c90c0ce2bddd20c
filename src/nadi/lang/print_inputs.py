"""Printing of what queries read: streams, joins, patterns, sequences, anonymous streams."""

from __future__ import annotations

from collections.abc import Callable

from nadi.lang import print_expressions as small
from nadi.lang.literals import name_text, time_text
from nadi.lang.tree import (
    AbsentState,
    AnonymousInput,
    CountState,
    EveryState,
    Filter,
    Handler,
    Input,
    JoinInput,
    LogicalState,
    NextState,
    OnDemandQuery,
    Query,
    SingleInput,
    State,
    StateInput,
    StreamFunction,
    StreamState,
    TimeConstant,
    Window,
)
from nadi.lang.writer import Writer


def query_input(w: Writer, node: Input, print_query: Callable[[Writer, Query], None]) -> None:
    """What stands after `from`; continuation lines are indented."""
    w.indent += 1
    match node:
        case SingleInput():
            single(w, node)
        case JoinInput():
            join(w, node)
        case StateInput():
            states(w, node)
        case AnonymousInput():
            anonymous(w, node, print_query)
    w.indent -= 1


def single(w: Writer, node: SingleInput) -> None:
    """`S[filter]#fn()#window.w() as a`."""
    w.open(node.span)
    small.source(w, node.source)
    for inner in node.handlers:
        handler(w, inner)
    if node.alias is not None:
        w.space()
        w.put("as", name_text(node.alias))
    w.close(node.span)


def handler(w: Writer, node: Handler) -> None:
    """`[filter]`, `#fn()`, `#window.w()`."""
    w.open(node.span)
    match node:
        case Filter(condition):
            w.put("[")
            small.expression(w, condition)
            w.put("]")
        case StreamFunction(inner):
            small.call(w, inner, "#")
        case Window(inner):
            small.call(w, inner, "#window.")
    w.close(node.span)


def join(w: Writer, node: JoinInput) -> None:
    """Each side, `on` and `within` on a line of its own."""
    w.open(node.span)
    single(w, node.left)
    if node.unidirectional == "left":
        w.space()
        w.put("unidirectional")
    w.line()
    w.put(node.kind.value)
    w.space()
    single(w, node.right)
    if node.unidirectional == "right":
        w.space()
        w.put("unidirectional")
    if node.on is not None:
        w.line()
        w.put("on")
        w.space()
        small.expression(w, node.on)
    within_per(w, node)
    w.close(node.span)


def within_per(w: Writer, node: JoinInput | OnDemandQuery) -> None:
    """`within … per …`."""
    if not node.within:
        return
    w.line()
    w.put("within")
    w.space()
    for i, bound in enumerate(node.within):
        if i:
            small.comma(w)
        small.expression(w, bound)
    if node.per is not None:
        w.space()
        w.put("per")
        w.space()
        small.expression(w, node.per)


def anonymous(w: Writer, node: AnonymousInput, print_query: Callable[[Writer, Query], None]) -> None:
    """`( from … return )`."""
    w.open(node.span)
    w.put("(")
    w.line()
    print_query(w, node.query)
    w.indent -= 1
    w.line()
    w.put(")")
    w.indent += 1
    for inner in node.handlers:
        handler(w, inner)
    w.close(node.span)


# ---- patterns and sequences ----


def states(w: Writer, node: StateInput) -> None:
    """A pattern or sequence: on one line if it fits, else a line for each element."""
    w.open(node.span)
    bare = isinstance(node.state, StreamState) and node.state.reference is None and node.within is None
    if bare:
        w.put("(")
    broken = not w.flat and _width(node) > small.WIDTH - len(small.line_indent(w))
    state(w, node.state, "->" if node.kind == "pattern" else ",", broken)
    if bare:
        w.put(")")
    if node.within is not None:
        w.line()
        w.put("within")
        w.space()
        time(w, node.within)
    w.close(node.span)


def _width(node: StateInput) -> int:
    flat = Writer(flat=True)
    state(flat, node.state, "->" if node.kind == "pattern" else ",", False)
    return len(flat.text())


def time(w: Writer, node: TimeConstant) -> None:
    """`5 sec`."""
    w.open(node.span)
    w.put(time_text(node))
    w.close(node.span)


def state(w: Writer, node: State, link: str, broken: bool) -> None:
    """One state and what is in it."""
    w.open(node.span)
    match node:
        case StreamState(read, reference):
            if reference is not None:
                w.put(name_text(reference) + "=")
            single(w, read)
        case CountState(inner, minimum, maximum, sign):
            state(w, inner, link, broken)
            w.put(sign or _count_text(minimum, maximum))
        case AbsentState(read, waiting):
            w.put("not")
            w.space()
            single(w, read)
            if waiting is not None:
                w.space()
                w.put("for")
                w.space()
                time(w, waiting)
        case LogicalState(operator, left, right):
            state(w, left, link, broken)
            w.space()
            w.put(operator)
            w.space()
            state(w, right, link, broken)
        case EveryState(inner, parenthesised):
            w.put("every")
            w.space()
            _maybe_parenthesised(w, inner, link, broken, parenthesised or isinstance(inner, NextState))
        case NextState(inner_states):
            _chain(w, inner_states, link, broken)
    w.close(node.span)


def _maybe_parenthesised(w: Writer, node: State, link: str, broken: bool, parentheses: bool) -> None:
    if parentheses:
        w.put("(")
    state(w, node, link, broken)
    if parentheses:
        w.put(")")


def _chain(w: Writer, nodes: tuple[State, ...], link: str, broken: bool) -> None:
    for i, node in enumerate(nodes):
        if i and link == ",":
            small.comma(w, broken=broken)
        elif i:
            if broken:
                w.line()
            w.space()
            w.put(link)
            w.space()
        state(w, node, link, broken)


def _count_text(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"<{minimum}:>"
    return f"<{minimum}>" if minimum == maximum else f"<{minimum}:{maximum}>"
