"""Which functions the columns kernel computes, and which of them in loops: numbers and bools of events, one after the other (columns/loops.md#functions)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nadi.lang.tree import Type
from nadi.plan.nodes import (
    Aggregate,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    Logic,
    Negation,
    NullCheck,
    links,
)

CLOCKS = frozenset({"currentTimeMillis", "eventTimestamp"})
_OF_TEXTS = (
    *(
        "charAt",
        "charFrequency",
        "coalesce",
        "concat",
        "contains",
        "equalsIgnoreCase",
        "fillTemplate",
        "hex",
        "length",
        "locate",
        "lower",
    ),
    *(
        "regexp",
        "repeat",
        "replaceAll",
        "replaceFirst",
        "reverse",
        "split",
        "strcmp",
        "substr",
        "trim",
        "unhex",
        "upper",
    ),
)
_OF_DATES = ("date", "dateAdd", "dateDiff", "dateFormat", "dateSub", "dayOfWeek", "extract", "timezoneConvert")
OF_NOW = frozenset(
    f"time:{name}"
    for name in ("currentDate", "currentTime", "currentTimestamp", "timestampInMilliseconds", "utcTimestamp")
)
"""They are given the clock before their arguments."""
_NUMERIC = frozenset({"ifThenElse", "coalesce", "default", "str:coalesce", "cast", "convert"})
_CLASSES = ("Boolean", "Double", "Float", "Integer", "Long", "String")
_OF_NUMBERS = (
    *(
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "copySign",
        "cos",
        "cosh",
        "e",
        "exp",
        "floor",
        "getExponent",
        "isInfinite",
        "isNan",
        "ln",
    ),
    *(
        "log10",
        "log2",
        "max",
        "min",
        "pi",
        "power",
        "round",
        "signum",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "toDegrees",
        "toRadians",
    ),
)
_LOOPED = (
    CLOCKS
    | frozenset({"maximum", "minimum"})
    | frozenset(f"instanceOf{name}" for name in _CLASSES)
    | frozenset(f"math:{name}" for name in _OF_NUMBERS)
)
_CALLED = (
    OF_NOW
    | frozenset(f"str:{name}" for name in _OF_TEXTS)
    | frozenset(f"time:{name}" for name in _OF_DATES)
    | frozenset(
        f"math:{name}"
        for name in ("bin", "cbrt", "conv", "hex", "log", "oct", "parseDouble", "parseFloat", "parseInt", "parseLong")
    )
)
KNOWN = _LOOPED | _CALLED | _NUMERIC
"""All functions that columns compute."""


def looped(call: Call) -> bool:
    """Whether loops compute a function of these types (`nadi.kernel.columns.calls` writes it)."""
    if call.function in _NUMERIC:
        if call.function == "cast" and call.args[0].type is not call.type:
            return False
        given = (call.type, *(a.type for a in call.args[:1] if call.function in ("cast", "convert")))
        return Type.STRING not in given and Type.OBJECT not in given
    if call.function == "math:log":
        base = call.args[1]
        return isinstance(base, Const) and base.value not in (None, 1)
    return call.function in _LOOPED and call.slot is None


def unlooped(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """An expression for loops: what they cannot compute in it, the outermost parts, is what `change` makes of it."""

    def text(side: Expr) -> Expr:
        return change(side) if side.type is Type.STRING and not isinstance(side, (Attr, Const)) else behind(side)

    def behind(part: Expr) -> Expr:
        match part:
            case Arithmetic() | Comparison() | Logic():
                chain = links(part)
                left = text(chain[0].left)
                for link in chain:
                    left = replace(link, left=left, right=text(link.right))
                return left
            case Negation() | NullCheck():
                return replace(part, operand=text(part.operand))
            case Call() if looped(part):
                return replace(part, args=tuple(map(text, part.args)))
            case Aggregate():
                return part  # its arguments are asked for by themselves
            case Call():
                return change(part)
            case _:
                return part

    return behind(expr)


def clocked(expr: Expr) -> Expr:
    """An expression in which functions of the clock are given it."""

    def given(part: Expr) -> Expr:
        if not isinstance(part, Call):
            return part
        clock = (Call("currentTimeMillis", (), Type.LONG),) if part.function in OF_NOW else ()
        return replace(part, args=(*clock, *map(clocked, part.args)))

    return unlooped(expr, given)


def is_looped(expr: Expr) -> bool:
    """Whether loops compute an expression of numbers and bools, strings being attributes and constants."""
    others: list[Expr] = []

    def note(part: Expr) -> Expr:
        others.append(part)
        return part

    unlooped(expr, note)
    return not others
