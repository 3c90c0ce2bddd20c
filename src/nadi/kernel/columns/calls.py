"""Functions as lines of a loop (semantics/expressions.md#functions): one entry per function, exactly what `nadi.functions` gives.

An entry gets the writer and the call, whose type and arguments `nadi.plan.columns.functionsupport` lets through. Sines, logarithms and the like are those of
the C library, as on rows; NaN is always the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nadi.kernel.columns.terms import Term
from nadi.lang.tree import Type
from nadi.plan.nodes import Call, Const, Expr

if TYPE_CHECKING:
    from nadi.kernel.columns.code import Writer

_WHOLE = (Type.INT, Type.LONG)
_CLASSES = {
    Type.INT: "Integer",
    Type.LONG: "Long",
    Type.DOUBLE: "Double",
    Type.BOOL: "Boolean",
    Type.STRING: "String",
}
_NARROWED = {Type.INT: "float_to_int({})", Type.LONG: "float_to_long({})", Type.FLOAT: "to_float({})"}

# ---- choices ---------------------------------------------------------------------------------------------------------


def _chosen(writer: Writer, condition: str, one: Term, other: Term) -> Term:
    value = writer.name(f"{one.text} if {condition} else {other.text}")
    if not (one.null or other.null):
        return Term(value)
    return Term(value, writer.name(f"{one.null or 'False'} if {condition} else {other.null or 'False'}"))


def _if(writer: Writer, call: Call) -> Term:
    condition = writer.truth(call.args[0])
    return _chosen(writer, condition, writer.term(call.args[1]), writer.term(call.args[2]))


def _coalesce(writer: Writer, call: Call) -> Term:
    terms = [writer.term(a) for a in call.args]
    made = terms[-1]
    for term in reversed(terms[:-1]):
        made = _chosen(writer, f"not {term.null}", term, made) if term.null else term
    return made


# ---- clocks ----------------------------------------------------------------------------------------------------------


def _now(writer: Writer, call: Call) -> Term:
    return Term("int(now[i])")


def _timestamp(writer: Writer, call: Call) -> Term:
    return Term("int(ts[i])")


# ---- types -----------------------------------------------------------------------------------------------------------


def _cast(writer: Writer, call: Call) -> Term:
    return writer.term(call.args[0])


def _convert(writer: Writer, call: Call) -> Term:
    value, kind = writer.term(call.args[0]), call.args[0].type
    if call.type is Type.BOOL:
        return Term(writer.truth_of(Term(value.text if kind is Type.BOOL else f"({value.text} == 1)", value.null)))
    text = value.text
    if kind is Type.BOOL:
        text = f"({'1' if call.type in _WHOLE else '1.0'} if {text} else {'0' if call.type in _WHOLE else '0.0'})"
    elif kind in _WHOLE:
        text = f"wrap_int({text})" if call.type is Type.INT else writer.promoted(text, kind, call.type)
    elif call.type is not Type.DOUBLE:
        text = _NARROWED[call.type].format(text)
    return Term(writer.name(text), value.null)


def _instance(writer: Writer, call: Call) -> Term:
    """A float that is NaN counts as a double: it is told by its digits."""
    value, kind = writer.term(call.args[0]), call.args[0].type
    name = call.function.removeprefix("instanceOf")
    if kind is Type.FLOAT and name in ("Float", "Double"):
        text = f"{value.text} {'==' if name == 'Float' else '!='} {value.text}"
        return Term(writer.truth_of(Term(f"({text})", value.null)))
    return Term(writer.name(f"not {value.null or 'False'}") if _CLASSES.get(kind) == name else "False")


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _double(writer: Writer, expr: Expr) -> Term:
    """An argument as a double."""
    term = writer.term(expr)
    if expr.type is Type.FLOAT:  # Numba would go on in 32 bits
        return Term(f"to_double({term.text})", term.null)
    return Term(writer.promoted(term.text, expr.type, Type.DOUBLE), term.null)


def _of(text: str) -> Callable[[Writer, Call], Term]:
    """A function of doubles: {0} the first argument; null where one is null."""

    def write(writer: Writer, call: Call) -> Term:
        given = [_double(writer, argument) for argument in call.args]
        null = writer.either([term.null for term in given if term.null])
        return Term(writer.name(text.format(*(writer.name(term.text) for term in given))), null)

    return write


def _atan(writer: Writer, call: Call) -> Term:
    return (_of("atan({0})") if len(call.args) == 1 else _of("atan2({0}, {1})"))(writer, call)


def _round(writer: Writer, call: Call) -> Term:
    return _of(_NARROWED[call.type].format("rounded({0})"))(writer, call)


def _extreme(op: str, start: str) -> Callable[[Writer, Call], Term]:
    """Of all arguments that are not null, from where Siddhi starts; in doubles, which is where Siddhi compares."""

    def write(writer: Writer, call: Call) -> Term:
        if len(call.args) == 1:
            return writer.term(call.args[0])
        found = writer.name(start)
        for argument in call.args:
            term = _double(writer, argument)
            wins = f"(not {term.null}) and {term.text} {op} {found}" if term.null else f"{term.text} {op} {found}"
            found = writer.name(f"{term.text} if {wins} else {found}")
        return Term(writer.name(_NARROWED.get(call.type, "{}").format(found)))

    return write


def _log(writer: Writer, call: Call) -> Term:
    return _of("defined(log({0}) / log({1}))")(writer, call)


def _power(writer: Writer, call: Call) -> Term:
    """A constant exponent is hidden from the compiler, which would multiply instead of asking the library."""
    base, exponent = call.args
    hidden = writer.number(float(exponent.value)) if isinstance(exponent, Const) and exponent.value is not None else ""
    one, other = _double(writer, base), Term(hidden) if hidden else _double(writer, exponent)
    null = writer.either([term.null for term in (one, other) if term.null])
    return Term(writer.name(f"power({one.text}, {other.text})"), null)


_PI = "3.141592653589793"

CALLS: dict[str, Callable[[Writer, Call], Term]] = {
    "ifThenElse": _if,
    "coalesce": _coalesce,
    "default": _coalesce,
    "str:coalesce": _coalesce,
    "cast": _cast,
    "convert": _convert,
    "currentTimeMillis": _now,
    "eventTimestamp": _timestamp,
    "maximum": _extreme(">", "5e-324"),
    "minimum": _extreme("<", "1.7976931348623157e308"),
    **{f"instanceOf{name}": _instance for name in ("Boolean", "Double", "Float", "Integer", "Long", "String")},
    "math:abs": _of("abs({0})"),
    "math:atan": _atan,
    "math:ceil": _of("ceil({0})"),
    "math:copySign": _of("copysign({0}, {1})"),
    "math:e": lambda writer, call: Term("2.718281828459045"),
    "math:floor": _of("floor({0})"),
    "math:getExponent": _of("exponent({0})"),
    "math:isInfinite": _of("({0} == inf or {0} == -inf)"),
    "math:isNan": _of("({0} != {0})"),
    "math:ln": _of("defined(log({0}))"),
    "math:log": _log,
    "math:log2": _of("defined(log({0}) / 0.6931471805599453)"),
    "math:max": _of("greater({0}, {1})"),
    "math:min": _of("lesser({0}, {1})"),
    "math:pi": lambda writer, call: Term(_PI),
    "math:power": _power,
    "math:round": _round,
    "math:signum": _of("((1 if {0} > 0.0 else 0) - (1 if {0} < 0.0 else 0))"),
    "math:toDegrees": _of(f"({{0}} * 180.0 / {_PI})"),
    "math:toRadians": _of(f"({{0}} / 180.0 * {_PI})"),
    **{
        f"math:{name}": _of(f"defined({name}({{0}}))")
        for name in ["acos", "asin", "cos", "cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan", "tanh"]
    },
}
