"""Expressions as columns compute them: numbers, texts and conditions over the common attributes, with functions, nulls and values at the edge."""

from __future__ import annotations

from tests.generate.choices import Maker, scope

NUMBERS = ("int", "long", "float", "double")
_LITERALS = {"int": "{}", "long": "{}L", "float": "{}.5f", "double": "{}.25", "bool": "true"}
_BIG = {"int": "2147483647", "long": "9223372036854775807L"}


def number(m: Maker, kind: str, depth: int = 2, clocks: bool = True) -> str:
    """An expression of a numeric type."""
    found = [name for name, of in scope() if of == kind]
    if depth == 0 or m.maybe():
        return m.of(found) if not m.rarely() else _LITERALS[kind].format(m.number(0, 4))

    def inner() -> str:
        return number(m, kind, depth - 1, clocks)

    match m.number(0, 8):
        case 0 | 1:
            return f"({inner()} {m.one('+', '-', '*', '/', '%')} {inner()})"
        case 2:
            return f"ifThenElse({truth(m, depth - 1)}, {inner()}, {inner()})"
        case 6:
            return f"convert({m.one(number(m, m.of(NUMBERS), depth - 1, clocks), 'b', text(m, depth - 1))}, '{kind}')"
        case 7:
            return f"{m.one('maximum', 'minimum')}({inner()}, {inner()})"
        case 8:
            return _function(m, kind, depth, clocks)
        case 3:
            return f"coalesce({inner()}, {inner()})"
        case 4 if kind == "long" and clocks:
            return m.one("eventTimestamp()", "currentTimeMillis()")
        case 4 if kind in _BIG:
            return f"({inner()} {m.one('+', '*', '/', '%')} {_BIG[kind]})"
        case _:
            return f"default({m.of(found)}, {_LITERALS[kind].format(1)})"


def _function(m: Maker, kind: str, depth: int, clocks: bool) -> str:
    """A function of numbers or texts that gives a type, as far as there is one."""
    one, other = (number(m, m.of(NUMBERS), depth - 1, clocks) for _ in range(2))
    if kind == "double":
        trigonometric = ("acos", "asin", "atan", "cos", "cosh", "sin", "sinh", "tan", "tanh", "toDegrees", "toRadians")
        names = (*trigonometric, "abs", "cbrt", "ceil", "exp", "floor", "ln", "log10", "log2", "sqrt")
        name = m.of(names)
        given = number(m, "double", depth - 1, clocks) if name in ("acos", "asin", "ceil", "floor") else one
        two = m.one("atan", "copySign", "max", "min", "power")
        return m.one(
            f"math:{name}({given})", f"math:{two}({one}, {other})", f"math:log({one}, 3)", f"math:power({one}, 2)"
        )
    if kind == "int":
        words = (
            f"str:length({some(m, depth - 1)})",
            f"str:strcmp({some(m, depth - 1)}, 'b')",
            f"str:locate('a', {some(m, depth - 1)})",
        )
        return m.one(f"math:signum({one})", f"math:getExponent({one})", "math:round(f)", *words)
    if kind == "long":
        return m.one(
            f"math:round({number(m, 'double', depth - 1, clocks)})", f"str:charFrequency({some(m, depth - 1)}, 'a')"
        )
    return number(m, kind, 0, clocks)


def text(m: Maker, depth: int = 1) -> str:
    """An expression that gives a string, or null."""
    if not depth:
        return m.one("k", "k", "'a b'")

    def inner() -> str:
        return text(m, depth - 1)

    match m.number(0, 5):
        case 0 | 1:
            return f"str:concat({inner()}, {m.one(inner(), number(m, m.of(NUMBERS), depth - 1, clocks=False), 'b')})"
        case 2:
            return f"convert({m.one(number(m, m.of(NUMBERS), depth, clocks=False), 'b')}, 'string')"
        case 3:
            return f"ifThenElse({truth(m, depth - 1)}, {inner()}, {some(m, depth - 1)})"
        case 4:
            return f"{m.one('coalesce', 'str:coalesce')}({inner()}, {inner()})"
        case _:
            return some(m, depth)


def some(m: Maker, depth: int = 1) -> str:
    """An expression that gives a string, never null."""
    given = (
        f"str:concat({text(m, depth - 1)}, 'bA ')"
        if depth
        else m.one("default(k, ' nO')", "ifThenElse(k is null, 'x', k)")
    )
    name = m.one("upper", "lower", "trim", "reverse", "hex")
    return m.one(
        given,
        f"str:{name}({given})",
        f"str:replaceAll({given}, '[ab]+', 'xY')",
        f"str:substr({given}, '[a-b]')",
        f"ifThenElse(k is null or v > 2, 'none', {m.one('k', 'str:upper(k)')})"
        if m.rarely()
        else "ifThenElse(k is null, 'none', str:upper(k))",
    )


def _told(m: Maker, depth: int) -> str:
    """A condition on texts or types."""
    attribute = m.one("k", "v", "l", "f", "d", "b")
    return m.one(
        f"{text(m, depth)} {m.one('==', '!=')} {m.one(text(m, depth), chr(39) + 'A' + chr(39))}",
        f"str:contains({text(m, depth)}, 'a')",
        f"str:equalsIgnoreCase({some(m, depth)}, {text(m, depth)})",
        f"str:regexp({some(m, depth)}, 'a.*')",
        f"instanceOf{m.one('Boolean', 'Double', 'Float', 'Integer', 'Long', 'String')}({attribute})",
        f"convert({m.one('b', 'v', 'd', 'k')}, 'bool')",
        f"math:{m.one('isNan', 'isInfinite')}({number(m, 'double', depth, clocks=False)})",
        f"{text(m, depth or 1)} is null",
    )


def truth(m: Maker, depth: int = 1) -> str:
    """A condition."""
    match m.number(0, 7):
        case 7:
            return _told(m, depth)
        case 0 | 1 | 2:
            one, other = m.of(NUMBERS), m.of(NUMBERS)
            return f"{number(m, one, depth)} {m.one('<', '<=', '>', '>=', '==', '!=')} {number(m, other, depth)}"
        case 3:
            return f"k {m.one('==', '!=')} {m.one(chr(39) + 'a' + chr(39), 'k')}"
        case 4:
            return f"{m.one('k', 'v', 'b')} is null"
        case 5 if depth:
            return f"({truth(m, depth - 1)} {m.one('and', 'or')} {truth(m, depth - 1)})"
        case _:
            return m.one("b", "not b", "v > 1")
