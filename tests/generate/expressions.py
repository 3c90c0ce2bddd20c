"""Typed expressions over a scope: arithmetic, comparisons, functions, nulls."""

from __future__ import annotations

from tests.generate.choices import Maker, Scope

NUMBERS = ("int", "long", "float", "double")
_LITERALS = {"int": "{}", "long": "{}L", "float": "{}.5f", "double": "{}.25"}


def expression(m: Maker, scope: Scope, kind: str, depth: int = 2) -> str:
    """An expression of a type."""
    if depth == 0 or m.maybe():
        return leaf(m, scope, kind)
    if kind == "bool":
        return condition(m, scope, depth - 1)
    if kind == "string":
        return _text(m, scope, depth - 1)
    return _number(m, scope, kind, depth - 1)


def leaf(m: Maker, scope: Scope, kind: str) -> str:
    found = [text for text, of in scope if of == kind]
    if found and not m.rarely():
        return m.of(found)
    if kind == "string":
        return m.one("'a'", "'b'", "'x y'")
    if kind == "bool":
        return m.one("true", "false")
    return _LITERALS[kind].format(m.number(0, 4))


def _number(m: Maker, scope: Scope, kind: str, depth: int) -> str:
    def inner() -> str:
        return expression(m, scope, kind, depth)

    match m.number(0, 6):
        case 0 | 1:
            return f"({inner()} {m.one('+', '-', '*', '/', '%')} {inner()})"
        case 2:
            return f"ifThenElse({condition(m, scope, depth)}, {inner()}, {inner()})"
        case 3:
            return f"{m.one('coalesce', 'maximum', 'minimum')}({inner()}, {inner()})"
        case 4:
            return f"convert({expression(m, scope, m.of(NUMBERS), depth)}, '{kind}')"
        case 5 if kind == "long":
            return m.one("eventTimestamp()", "currentTimeMillis()")
        case 5 if kind == "int":
            return f"str:length({expression(m, scope, 'string', depth)})"
        case _:
            return f"default({leaf(m, scope, kind)}, {_LITERALS[kind].format(1)})"


def _text(m: Maker, scope: Scope, depth: int) -> str:
    def inner() -> str:
        return expression(m, scope, "string", depth)

    match m.number(0, 4):
        case 0:
            return f"str:concat({inner()}, {inner()})"
        case 1:
            return f"{m.one('str:upper', 'str:reverse', 'str:trim')}({inner()})"
        case 2:
            return f"convert({expression(m, scope, m.of(NUMBERS), depth)}, 'string')"
        case 3:
            return f"ifThenElse({condition(m, scope, depth)}, {inner()}, {inner()})"
        case _:
            return "UUID()"  # pinned: the same on every replay


def condition(m: Maker, scope: Scope, depth: int = 1) -> str:
    """A bool expression."""
    kind = m.of(NUMBERS)
    inner = max(depth - 1, 0)
    match m.number(0, 9 if depth else 5):
        case 0 | 1 | 2:
            comparison = m.one(">", ">=", "!=", "<", "<=", "==")  # the first ones let more through
            return f"{leaf(m, scope, kind)} {comparison} {_LITERALS[m.of(NUMBERS)].format(m.number(0, 3))}"
        case 3:
            return f"{leaf(m, scope, 'string')} {m.one('==', '!=')} {m.one(*'abc').join(chr(39) * 2)}"
        case 4:
            null = f"{m.of([text for text, _kind in scope])} is null"
            return null if m.rarely() else f"not ({null})"
        case 5:
            return leaf(m, scope, "bool")
        case 6:
            return f"not ({condition(m, scope, inner)})"
        case 7:
            return f"{expression(m, scope, kind, inner)} {m.one('<', '>=')} {expression(m, scope, kind, inner)}"
        case 8 if m.tables:
            table = m.of(m.tables)
            return f"({table}.k == {leaf(m, scope, 'string')} in {table})"
        case _:
            return f"({condition(m, scope, inner)} {m.one('and', 'or')} {condition(m, scope, inner)})"
