"""The arithmetic of types: which operand types go together, and what comes out (semantics/expressions.md#types)."""

from __future__ import annotations

from nadi.lang.tree import Type

_WIDTH = {Type.INT: 0, Type.LONG: 1, Type.FLOAT: 2, Type.DOUBLE: 3}


def promoted(left: Type, right: Type) -> Type | None:
    """The type in which two numbers meet: double > float > long > int; None where one is not a number.

    >>> promoted(Type.LONG, Type.FLOAT)
    <Type.FLOAT: 'float'>
    """
    if left not in _WIDTH or right not in _WIDTH:
        return None
    return max(left, right, key=_WIDTH.__getitem__)


def comparable(operator: str, left: Type, right: Type) -> bool:
    """Whether `left operator right` is allowed: numbers always, strings and bools among themselves for == and != only."""
    if left in _WIDTH and right in _WIDTH:
        return True
    return operator in ("==", "!=") and left == right and left in (Type.STRING, Type.BOOL)


def assignable(target: Type, value: Type) -> bool:
    """Whether a value may be stored in a column: equal types, numbers among themselves, objects both ways."""
    return target == value or Type.OBJECT in (target, value) or promoted(target, value) is not None
