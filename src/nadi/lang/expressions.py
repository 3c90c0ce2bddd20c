"""Expressions, references, function calls and time constants (semantics/text.md#words)."""

from __future__ import annotations

import struct

from nadi.lang.cursor import Cursor
from nadi.lang.tokens import UNIT_MILLISECONDS, UNITS
from nadi.lang.tree import (
    Binary,
    Constant,
    Expression,
    FunctionCall,
    In,
    IsNull,
    IsNullStream,
    Not,
    TimeConstant,
    Type,
    Variable,
)

PRECEDENCE = {
    "or": 1,
    "and": 2,
    "in": 3,
    "==": 4,
    "!=": 4,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}
"""The binary operators by how tightly they bind; all are left-associative. `not` binds tighter than any of them."""

_NUMBERS = {"int": Type.INT, "long": Type.LONG, "float": Type.FLOAT, "double": Type.DOUBLE}
_UNIT_ORDER = list(UNIT_MILLISECONDS)
_EXPRESSION = "an expression"


def expression(c: Cursor, minimum: int = 1) -> Expression:
    """An expression whose operators bind at least as tightly as `minimum`."""
    start = c.position
    left = _operand(c)
    height = highest = c.height  # of all so far, and of the highest operand in the chain
    chained, before = 0, 0  # operators of one precedence in a row, and which precedence that is
    while (power := PRECEDENCE.get(c.word, 0)) >= minimum:
        operator = c.advance().word
        if operator == "in":
            left = In(left, c.name("the name of a table"), span=c.span(start))
            height = highest = height + 1  # the chain so far is one operand of what follows
        else:
            right = expression(c, power + 1)
            left = Binary(operator, left, right, span=c.span(start))
            highest = max(highest, c.height)
            height = highest + 1
        chained, before = (chained + 1 if power == before else 1), power
        c.chained(chained)
        c.grown(height)
    if c.word == "=":
        raise c.error("MISSPELT_KEYWORD", c.token.span, found="'='", expected="an operator", keyword="==")
    return left


def _operand(c: Cursor) -> Expression:
    token, start = c.token, c.position
    c.height = 1
    if token.is_name:
        if c.word == "not" and not _reads_as_name(c):
            c.advance()
            c.enter()
            operand = _operand(c)
            c.leave()
            c.grown(c.height + 1)
            return Not(operand, span=c.span(start))
        if c.word in ("true", "false") and not _reads_as_name(c):
            return Constant(c.advance().word == "true", Type.BOOL, span=c.span(start))
        return _reference_or_call(c)
    if token.kind in _NUMBERS:
        if token.kind == "int" and c.peek().word in UNITS:
            return time_constant(c)
        return _number(c)
    if token.kind == "string":
        return Constant(c.advance().value, Type.STRING, span=c.span(start))
    match c.word:
        case "(":
            return _parenthesised(c)
        case "+" | "-":
            return _number(c)
        case "#" | "!":
            return _reference_or_call(c)
    raise c.failure(_EXPRESSION)


def _reads_as_name(c: Cursor) -> bool:
    """Whether `not`, `true` or `false` here is a name all the same: what follows can only follow a name."""
    follower = c.peek()
    if follower.word in (".", ":", "["):
        return True
    if c.word == "not":
        starts_operand = follower.is_name or follower.kind in (*_NUMBERS, "string") or follower.word in tuple("(#!+-")
        return not starts_operand or (follower.word in ("is", "as") and c.peek(2).word not in (".", "(", ":"))
    return follower.word == "("


def _parenthesised(c: Cursor) -> Expression:
    c.expect("(")
    c.enter()
    inner = expression(c)
    c.leave()
    if c.word == ",":
        c.fail("an operator", "')'")
    c.expect(")")
    return inner


_MOST_DIGITS = 1_000


def _number(c: Cursor) -> Constant:
    """A number with or without a sign."""
    start = c.position
    sign = c.advance().word if c.word in ("+", "-") else ""
    token = c.token
    if token.kind not in _NUMBERS:
        c.fail("a number")
    c.advance()
    kind, span = _NUMBERS[token.kind], c.span(start)
    if kind is Type.DOUBLE:
        return Constant(float(("-" if sign == "-" else "") + token.text.rstrip("dD")), kind, span=span)
    if kind is Type.FLOAT:
        return Constant(float32(float(("-" if sign == "-" else "") + token.text.rstrip("fF"))), kind, span=span)
    digits, bits = token.text.rstrip("lL"), 31 if kind is Type.INT else 63
    if len(digits) > _MOST_DIGITS:  # Python makes no number of thousands of them
        shown = f"{digits[:20]}…"
        raise c.error("NUMBER_TOO_LARGE", span, number=shown, type=kind, hint="write a double, such as 1e300")
    number = int(digits) * (-1 if sign == "-" else 1)
    if not -(1 << bits) <= number < 1 << bits:
        raise c.error("NUMBER_TOO_LARGE", span, number=token.text, type=kind, hint=_larger(kind, number))
    return Constant(number, kind, span=span)


def _larger(kind: Type, number: int) -> str:
    if kind is Type.INT and -(1 << 63) <= number < 1 << 63:
        return f"write {number}L for a long"
    return f"write {number}.0 for a double"


def float32(value: float) -> float:
    """The nearest float of 32 bits."""
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(rounded)


def time_constant(c: Cursor) -> TimeConstant:
    """`1 hour 30 min`: units descending, each at most once."""
    start, units, total = c.position, [], 0
    smallest = -1
    while c.token.kind == "int" and (unit := UNITS.get(c.peek().word)) is not None:
        order = _UNIT_ORDER.index(unit)
        if order <= smallest:
            c.try_for(f"a unit smaller than '{_UNIT_ORDER[smallest]}'")
            c.fail()
        smallest, amount = order, int(c.advance().text)
        c.advance()
        units.append((amount, unit))
        total += amount * UNIT_MILLISECONDS[unit]
    if not units:
        if c.token.kind == "int":
            c.advance()
            c.fail("a unit of time, such as 'sec'")
        c.fail("a time, such as 5 sec")
    if total >= 1 << 63:
        raise c.error("NUMBER_TOO_LARGE", c.span(start), number="the time", type=Type.LONG, hint="write a shorter time")
    c.height = 1
    return TimeConstant(total, tuple(units), span=c.span(start))


# ---- references and calls ----


def _reference_or_call(c: Cursor) -> Expression:
    start = c.position
    found: Expression
    if c.token.is_name and (c.peek().word == "(" or (c.peek().word == ":" and c.peek(3).word == "(")):
        found = function_call(c)
    else:
        reference = _reference(c)
        if isinstance(reference, IsNullStream):
            return reference
        found = reference
    if c.word == "is":
        c.advance()
        c.expect("null")
        c.grown(c.height + 1)
        return IsNull(found, span=c.span(start))
    return found


def _reference(c: Cursor) -> Variable | IsNullStream:
    """A variable; or, where no attribute follows a stream, `… is null`."""
    start = c.position
    mark = c.accept_any("#", "!")
    name = c.name("a name")
    index = _index(c)
    if c.word == ".":
        c.advance()
        attribute = c.name("the name of an attribute")
        return Variable(attribute, name, index, mark == "#", mark == "!", span=c.span(start))
    if not mark and index is None:
        return Variable(name, span=c.span(start))
    c.try_for("'.'")
    c.expect("is", "is null")
    c.expect("null")
    return IsNullStream(name, index, mark == "#", mark == "!", span=c.span(start))


def _index(c: Cursor) -> int | None:
    """`[n]`, `[last]` (-1), `[last - k]` (-1-k), or nothing."""
    if c.word != "[":
        return None
    c.advance()
    if c.accept("last"):
        back = _whole_number(c) if c.accept("-") else 0
        index = -1 - back
    else:
        index = _whole_number(c)
    c.expect("]")
    return index


def _whole_number(c: Cursor) -> int:
    if c.token.kind != "int":
        c.fail("a whole number")
    return int(c.advance().text)


def variable(c: Cursor, what: str = "the name of an attribute") -> Variable:
    """A reference to an attribute, where nothing else may stand."""
    if not c.token.is_name and c.word not in ("#", "!"):
        c.fail(what)
    found = _reference(c)
    if isinstance(found, IsNullStream):
        raise c.error("SYNTAX", found.span, found="a stream reference", expected=what)
    return found


def function_call(c: Cursor) -> FunctionCall:
    """`[ns:]name(args)`, `name(*)`, `name()`."""
    start = c.position
    namespace, name = "", c.name("the name of a function")
    if c.accept(":"):
        namespace, name = name, c.name("the name of a function")
    c.expect("(")
    args: list[Expression] = []
    star, height = False, 0
    if c.word == "*":
        c.advance()
        star = True
    elif c.word != ")":
        c.enter()
        while True:
            args.append(expression(c))
            height = max(height, c.height)
            if not c.accept(","):
                break
        c.leave()
    c.expect(")")
    c.grown(height + 1)
    return FunctionCall(name, tuple(args), namespace, star, span=c.span(start))
