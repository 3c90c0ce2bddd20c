"""Plan expressions as text, for people."""

from __future__ import annotations

from nadi.plan.nodes import (
    Aggregate,
    Arithmetic,
    Attr,
    AttrList,
    Call,
    Comparison,
    Const,
    Expr,
    InTable,
    Logic,
    Negation,
    NullCheck,
    Operator,
    SlotNullCheck,
    links,
)


def written(expr: Expr) -> str:
    """An expression in the language, attributes by their bare names.

    >>> from nadi.lang.tree import Type
    >>> written(Arithmetic("+", Attr(0, 0, Type.INT, None, "a"), Const(1, Type.INT), Type.INT))
    'a + 1'
    """
    match expr:
        case Const(value):
            return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value).lower()
        case Attr(slot, position, _, index, name):
            shown = name or f"${position}"
            mark = "" if index is None else f"[{index}]" if index >= 0 else _from_last(index)
            return f"e{slot + 1}{mark}.{shown}" if mark else shown
        case AttrList(slot, _, _, name):
            return f"e{slot + 1}.{name}"
        case Call(function, args) | Aggregate(function, args):
            return f"{function}({', '.join(written(a) for a in args)})"
        case Arithmetic() | Comparison() | Logic():
            return _chain(expr)
        case Negation(operand):
            return f"not {_part(operand)}"
        case NullCheck(operand):
            return f"{_part(operand)} is null"
        case SlotNullCheck(slot):
            return f"e{slot + 1} is null"
        case InTable(table, condition):
            return f"({written(condition)}) in {table}"


def _chain(expr: Operator) -> str:
    """Operators with each left side but the first in parentheses, unless the same operator of arithmetic or logic goes on."""
    chain = links(expr)
    starts: list[str] = []
    ends = [_part(chain[0].left)]
    for before, link in zip([None, *chain], chain):
        if before is not None and (before.op != link.op or isinstance(link, Comparison)):
            starts.append("(")
            ends.append(")")
        ends.append(f" {link.op} {_part(link.right)}")
    return "".join((*starts, *ends))


def _from_last(index: int) -> str:
    return "[last]" if index == -1 else f"[last - {-1 - index}]"


def _part(expr: Expr) -> str:
    text = written(expr)
    return f"({text})" if isinstance(expr, (Arithmetic, Comparison, Logic)) else text
