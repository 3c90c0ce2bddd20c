"""Printing of expressions and of the small nodes that everything else is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nadi.lang.expressions import PRECEDENCE
from nadi.lang.literals import constant_text, function_text, name_text, string_text, time_text
from nadi.lang.tree import (
    Annotation,
    Attribute,
    Binary,
    Constant,
    Element,
    Events,
    Expression,
    FunctionCall,
    In,
    IsNull,
    IsNullStream,
    Not,
    OrderBy,
    SelectItem,
    SetAssignment,
    Source,
    TimeConstant,
    Variable,
)
from nadi.lang.writer import Writer

Item = TypeVar("Item")

WIDTH = 100
"""What would be longer than this on one line is put on several."""

_HIGHEST = 9
_NOT = 8


def expression(w: Writer, node: Expression) -> None:
    """An expression."""
    w.open(node.span)
    match node:
        case Constant():
            w.put(constant_text(node))
        case TimeConstant():
            w.put(time_text(node))
        case Variable():
            w.put(variable_text(node))
        case FunctionCall():
            call(w, node)
        case Not(operand):
            w.put("not")
            w.space()
            _operand(w, operand, _NOT)
        case Binary():
            _chain(w, node)
        case In(condition, table):
            _operand(w, condition, PRECEDENCE["in"])
            w.space()
            w.put("in", name_text(table))
        case IsNull(operand):
            _operand(w, operand, _HIGHEST)
            w.space()
            w.put("is", "null")
        case IsNullStream():
            w.put(_stream_text(node.stream, node.index, node.inner, node.fault), "is", "null")
    w.close(node.span)


def _chain(w: Writer, node: Binary) -> None:
    """Operators that follow each other without parentheses; who calls opens and closes the last one."""
    chain = [node]
    while isinstance(left := chain[-1].left, Binary) and PRECEDENCE[left.op] >= PRECEDENCE[chain[-1].op]:
        w.open(left.span)
        chain.append(left)
    _operand(w, chain[-1].left, PRECEDENCE[chain[-1].op])
    for link in reversed(chain):
        w.space()
        w.put(link.op)
        w.space()
        _operand(w, link.right, PRECEDENCE[link.op] + 1)
        if link is not node:
            w.close(link.span)


def _operand(w: Writer, node: Expression, minimum: int) -> None:
    """An operand, between parentheses if it binds less tightly than `minimum`."""
    match node:
        case Binary():
            power = PRECEDENCE[node.op]
        case In():
            power = PRECEDENCE["in"]
        case Not():
            power = _NOT
        case _:
            power = _HIGHEST
    if power >= minimum:
        expression(w, node)
        return
    w.put("(")
    expression(w, node)
    w.put(")")


def _stream_text(name: str, index: int | None, inner: bool, fault: bool) -> str:
    mark = "#" if inner else "!" if fault else ""
    if index is None:
        place = ""
    elif index >= 0:
        place = f"[{index}]"
    else:
        place = "[last]" if index == -1 else f"[last - {-1 - index}]"
    return mark + name_text(name) + place


def variable_text(node: Variable) -> str:
    """A reference to an attribute."""
    if node.stream is None:
        return name_text(node.name)
    return f"{_stream_text(node.stream, node.index, node.inner, node.fault)}.{name_text(node.name)}"


def variable(w: Writer, node: Variable) -> None:
    """A reference, as a node of its own."""
    w.open(node.span)
    w.put(variable_text(node))
    w.close(node.span)


def call(w: Writer, node: FunctionCall, before: str = "") -> None:
    """A call; `before` is what its name sticks to."""
    w.open(node.span)
    name = f"{function_text(node.namespace)}:{function_text(node.name)}" if node.namespace else function_text(node.name)
    w.put(f"{before}{name}(")
    if node.star:
        w.put("*")
    for i, argument in enumerate(node.args):
        if i:
            comma(w)
        expression(w, argument)
    w.put(")")
    w.close(node.span)


def comma(w: Writer, *, broken: bool = False) -> None:
    """A comma and the blank or line break after it."""
    w.put(",")
    if broken:
        w.line()
    else:
        w.space()


def source(w: Writer, node: Source) -> None:
    """`S`, `#inner`, `!fault`."""
    w.open(node.span)
    w.put(("#" if node.inner else "!" if node.fault else "") + name_text(node.name))
    w.close(node.span)


def events_text(events: Events) -> str:
    """`current events` and so on."""
    return f"{events.value} events"


# ---- lists and their items ----


def comma_list(
    w: Writer, nodes: Sequence[Item], write: Callable[[Writer, Item], None], before: int, *, closing: bool = False
) -> None:
    """Items with commas: on one line, or on a line each if that is longer than the width. `before`: what stands on the line."""
    flat = Writer(flat=True)
    for node in nodes:
        write(flat, node)
        comma(flat)
    broken = not w.flat and len(flat.text()) + before + len(line_indent(w)) > WIDTH
    w.indent += broken
    if broken:
        w.line()
    for i, node in enumerate(nodes):
        if i:
            comma(w, broken=broken)
        write(w, node)
    w.indent -= broken
    if broken and closing:
        w.line()


def attribute(w: Writer, node: Attribute) -> None:
    """`name type`."""
    w.open(node.span)
    w.put(name_text(node.name), str(node.type))
    w.close(node.span)


def select_item(w: Writer, node: SelectItem) -> None:
    """`expr as name`."""
    w.open(node.span)
    expression(w, node.expression)
    if node.alias is not None:
        w.space()
        w.put("as", name_text(node.alias))
    w.close(node.span)


def order_by(w: Writer, node: OrderBy) -> None:
    """`ref desc`."""
    w.open(node.span)
    variable(w, node.variable)
    if node.order:
        w.space()
        w.put(node.order)
    w.close(node.span)


def assignment(w: Writer, node: SetAssignment) -> None:
    """`T.a = expr`."""
    w.open(node.span)
    variable(w, node.variable)
    w.space()
    w.put("=")
    w.space()
    expression(w, node.expression)
    w.close(node.span)


# ---- annotations ----


def annotation_lines(w: Writer, nodes: Sequence[Annotation]) -> None:
    """Annotations, a line each."""
    for node in nodes:
        annotation(w, node)
        w.line()


def annotation(w: Writer, node: Annotation) -> None:
    """`@name(…)`, on several lines if it is long."""
    w.open(node.span)
    w.put("@" + _annotation_name(node.name))
    if node.elements or node.nested:
        w.put("(")
        broken = not w.flat and _annotation_width(node) + len(line_indent(w)) > WIDTH
        _arguments(w, node, broken)
        w.put(")")
    w.close(node.span)


def line_indent(w: Writer) -> str:
    """The blanks before the current line."""
    return "    " * w.indent


def _arguments(w: Writer, node: Annotation, broken: bool) -> None:
    w.indent += broken
    if broken:
        w.line()
    for i, plain in enumerate(node.elements):
        if i:
            comma(w, broken=broken)
        element(w, plain)
    for i, nested in enumerate(node.nested, len(node.elements)):
        if i:
            comma(w, broken=broken)
        annotation(w, nested)
    w.indent -= broken
    if broken:
        w.line()


def element(w: Writer, node: Element) -> None:
    """`key='value'`."""
    w.open(node.span)
    w.put((f"{_key_text(node.key)}=" if node.key else "") + string_text(node.value))
    w.close(node.span)


def _annotation_name(name: str) -> str:
    return "app:" + name_text(name[4:]) if name.startswith("app:") else name_text(name)


def _key_text(key: str) -> str:
    """`a.b-c:d`; a key that is no such thing is a string."""
    parts = [key]
    for separator in ".-:":
        parts = [piece for part in parts for piece in part.split(separator)]
    plain = all(part.isascii() and part.isidentifier() for part in parts)
    return key if plain else string_text(key)


def _annotation_width(node: Annotation) -> int:
    flat = Writer(flat=True)
    annotation(flat, node)
    return len(flat.text())
