"""What is known of an expression before any event is seen: that it is never null, that computing it cannot fail (semantics/expressions.md#null).

Most functions of text fail on null. So what stands behind a filter or a condition that rules null out can do more:

    from S[not (k is null)] select str:upper(k) as u
    ifThenElse(k is null, '', str:upper(k))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    Operator,
    links,
)
from nadi.plan.render import written

Known = frozenset[Expr]
"""Expressions that are not null where another one is computed."""

NOTHING: Known = frozenset()

_CLOCKS = frozenset({"currentTimeMillis", "eventTimestamp"})
_CHOICES = frozenset({"coalesce", "default", "str:coalesce"})
_CLASSES = frozenset(f"instanceOf{name}" for name in ("Boolean", "Double", "Float", "Integer", "Long", "String"))

_NULL_IF_NULL = frozenset(
    f"math:{name}"
    for name in (
        *(
            "abs",
            "acos",
            "asin",
            "atan",
            "bin",
            "cbrt",
            "ceil",
            "copySign",
            "cos",
            "cosh",
            "e",
            "exp",
            "floor",
            "getExponent",
            "hex",
        ),
        *(
            "isInfinite",
            "isNan",
            "ln",
            "log10",
            "log2",
            "max",
            "min",
            "oct",
            "pi",
            "power",
            "round",
            "signum",
            "sin",
            "sinh",
            "sqrt",
        ),
        *("tan", "tanh", "toDegrees", "toRadians"),
    )
)
_NEVER_NULL = frozenset({"maximum", "minimum", "str:concat", "UUID"}) | _CLASSES | _CLOCKS
_NEVER_FAIL = frozenset({"convert", "ifThenElse"}) | _NEVER_NULL | _CHOICES | _NULL_IF_NULL
_DATES_OF_NOW = frozenset(
    f"time:{name}"
    for name in ("currentDate", "currentTime", "currentTimestamp", "timestampInMilliseconds", "utcTimestamp")
)
_FAIL_ON_NULL = frozenset({"str:hex", "str:length", "str:lower", "str:reverse", "str:strcmp", "str:trim", "str:upper"})


# ---- never null ------------------------------------------------------------------------------------------------------


def never_null(expr: Expr, known: Known = NOTHING) -> bool:
    """Whether an expression has a value for certain."""
    if expr in known:
        return True
    match expr:
        case Const(value=value):
            return value is not None
        case Comparison() | Logic() | Negation() | NullCheck():
            return True
        case Arithmetic():
            chain = links(expr)
            divides = any(link.op in "/%" and not _is_not_zero(link.right) for link in chain)
            return not divides and all(never_null(e, known) for e in (chain[0].left, *(link.right for link in chain)))
        case Call(slot=None):
            return _call_never_null(expr, known)
        case _:
            return False


def _is_not_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and bool(expr.value)


def _call_never_null(call: Call, known: Known) -> bool:
    name, args = call.function, call.args
    if name in ("maximum", "minimum") and len(args) == 1:
        return never_null(args[0], known)
    if call.type is Type.BOOL or name in _NEVER_NULL or (name in _DATES_OF_NOW and not args):
        return True
    if name in _CHOICES:
        return any(never_null(argument, known) for argument in args)
    if name == "ifThenElse":
        condition, then, otherwise = args
        return never_null(then, known | facts(condition)) and never_null(otherwise, known | facts(condition, False))
    if name == "convert":
        parses = args[0].type is Type.STRING and call.type is not Type.STRING
        return not parses and never_null(args[0], known)
    if name in _NULL_IF_NULL or name in ("math:log", "time:dateDiff"):
        return all(never_null(argument, known) for argument in args)
    return name in _FAIL_ON_NULL or name in _CAREFUL


def facts(condition: Expr, holds: bool = True) -> Known:
    """What is not null where a condition holds, or where it does not (null counts as that)."""
    match condition:
        case Negation(operand):
            return facts(operand, not holds)
        case NullCheck(operand):
            return NOTHING if holds else frozenset({operand})
        case Attr():
            return frozenset({condition}) if holds else NOTHING
        case Comparison() | Logic():
            *_, (_link, found, other) = _sides(condition)
            return found if holds else other
        case _:
            return NOTHING


def _sides(expr: Operator) -> Iterator[tuple[Operator | None, Known, Known]]:
    """Each link of a chain with the facts where its left side holds and where it does not; at the end those of the whole."""
    chain = links(expr)
    holds, fails = facts(chain[0].left), facts(chain[0].left, False)
    for link in chain:
        yield link, holds, fails
        if isinstance(link, Logic):
            right, not_right = facts(link.right), facts(link.right, False)
            if link.op == "and":
                holds, fails = holds | right, fails & not_right
            else:
                holds, fails = holds & right, fails | not_right
        else:
            compares = isinstance(link, Comparison) and link.op != "!="
            holds, fails = frozenset({link.left, link.right}) if compares else NOTHING, NOTHING
    yield None, holds, fails


# ---- never fails -----------------------------------------------------------------------------------------------------


def failing(expr: Expr, known: Known = NOTHING) -> str:
    """Why an expression may fail, as a sentence; "" where it cannot."""
    match expr:
        case Const() | Aggregate():
            return ""
        case Attr():
            return f"{written(expr)} is an object" if expr.type is Type.OBJECT else ""
        case Arithmetic() | Comparison() | Logic():
            return _of_chain(expr, known)
        case Negation(operand) | NullCheck(operand):
            return failing(operand, known)
        case Call(slot=None):
            return _of_call(expr, known)
        case _:
            return f"{written(expr)} looks beyond the event"


def _of_chain(expr: Operator, known: Known) -> str:
    """The right side of `and` is computed where the left one holds, that of `or` where it does not."""
    reason = failing(links(expr)[0].left, known)
    for link, holds, fails in _sides(expr):
        if reason or link is None:
            break
        seen = (known | (holds if link.op == "and" else fails)) if isinstance(link, Logic) else known
        reason = failing(link.right, seen)
    return reason


def _of_call(call: Call, known: Known) -> str:
    name, args = call.function, call.args
    if name == "ifThenElse":
        condition, then, otherwise = args
        of_then = failing(then, known | facts(condition))
        return failing(condition, known) or of_then or failing(otherwise, known | facts(condition, False))
    for argument in args:
        if argument.type is Type.OBJECT:
            return f"{written(argument)} is an object"
        if reason := failing(argument, known):
            return reason
    if name in _NEVER_FAIL:
        return ""
    if name in _DATES_OF_NOW and not args:
        return ""
    if name == "cast":
        return "" if args[0].type is call.type else f"{written(call)} declares another type"
    if name in _FAIL_ON_NULL:
        return _of_nulls(call, args, known)
    careful = _CAREFUL.get(name)
    return f"{name}() may fail" if careful is None else careful(call, known)


def _of_nulls(call: Call, args: tuple[Expr, ...], known: Known) -> str:
    null = next((argument for argument in args if not never_null(argument, known)), None)
    return "" if null is None else f"{call.function}() fails where {written(null)} is null"


def _first(call: Call, known: Known) -> str:
    return _of_nulls(call, call.args[:1], known)


def _second(call: Call, known: Known) -> str:
    return _of_nulls(call, call.args[1:2], known)


def _locating(call: Call, known: Known) -> str:
    return _of_nulls(call, call.args, known) if len(call.args) == 2 else f"{call.function}() may fail"


def _with_pattern(call: Call, known: Known) -> str:
    """Constant patterns are looked at when the app is made; a replacement may name a group that is not there."""
    patterns = call.args[1:]
    fixed = all(isinstance(p, Const) and isinstance(p.value, str) for p in patterns)
    named = any(mark in str(p.value) for p in patterns[1:] if isinstance(p, Const) for mark in "$\\")
    return _of_nulls(call, call.args, known) if fixed and not named else f"{call.function}() may fail"


def _cutting(call: Call, known: Known) -> str:
    match call.args[1:]:
        case (Const(value=str() | 0),):
            return _of_nulls(call, call.args, known)
        case _:
            return f"{call.function}() may fail"


def _counting(call: Call, known: Known) -> str:
    char = call.args[1]
    one = isinstance(char, Const) and isinstance(char.value, str) and len(char.value) == 1 and char.value <= "\uffff"
    return _of_nulls(call, call.args, known) if one else f"{call.function}() may fail"


def _between(call: Call, known: Known) -> str:
    whole = all(argument.type is Type.LONG for argument in call.args)
    return "" if whole else f"{call.function}() may fail"


def _to_base(call: Call, known: Known) -> str:
    base = call.args[1]
    return "" if isinstance(base, Const) and base.value not in (None, 1) else f"{call.function}() may fail"


_CAREFUL: dict[str, Callable[[Call, Known], str]] = {
    "math:log": _to_base,
    "str:charFrequency": _counting,
    "str:contains": _second,
    "str:equalsIgnoreCase": _first,
    "str:locate": _locating,
    "str:regexp": _with_pattern,
    "str:replaceAll": _with_pattern,
    "str:replaceFirst": _with_pattern,
    "str:substr": _cutting,
    "time:dateDiff": _between,
}
"""Functions that cannot fail on some arguments. None of them gives null then, but math:log and time:dateDiff of null."""
