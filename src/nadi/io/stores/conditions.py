"""From conditions of the language to SQL. What SQL would answer in another way is left to Python: the clause then finds more rows than the condition.

| condition | clause |
|---|---|
| `T.a == value`, `<`, … | as it is: where one side is null no row is found, as in the language |
| `T.a != value` | true where one side is null |
| `not` | of what is null it is true, so null counts as false in it |
| `T.a is null`, `and`, `or`, a condition that the kernel has computed | as they are |
| all else: arithmetic and functions over the row, two columns, types that the database would not compare as Java does | left to Python |

Each value is a parameter. MySQL compares texts without regard to case and accents, so that there `==` finds more and `!=` is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Table,
    and_,
    bindparam,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    true,
)

from nadi.functions.arithmetic import number_as
from nadi.functions.stores import Row
from nadi.io.stores.tables import TYPES
from nadi.io.stores.values import unfit
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Attr, Comparison, Const, Expr, Logic, Negation, NullCheck

Clause = ColumnElement[bool]

_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)
_EXACT_AS = {
    Type.INT: (Type.INT, Type.LONG, Type.DOUBLE),
    Type.LONG: (Type.LONG,),
    Type.FLOAT: (Type.FLOAT, Type.DOUBLE),
    Type.DOUBLE: (Type.DOUBLE,),
}
"""As which types a column may be compared without losing anything: an int is rounded where Java compares it as float."""

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_COMPARED: Mapping[str, Callable[[Any, Any], Clause]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a statement: the value at a position of the row of values, as a type."""

    name: str
    position: int
    type: Type


@dataclass(frozen=True, slots=True)
class Where:
    """The clause of a condition; `exact`: it finds no more rows than the condition. `parameters` are those in it."""

    clause: Clause
    exact: bool
    parameters: tuple[Parameter, ...]
    dialect: str

    def bound(self, values: Row) -> dict[str, Any] | None:
        """The parameters for a row of values; None where the database cannot compare with one of them."""
        found: dict[str, Any] = {}
        for parameter in self.parameters:
            value = values[parameter.position]
            if value is not None and parameter.type in _NUMBERS:
                value = number_as(value, parameter.type)
            # the languages differ about NaN, whether or not the database has it
            if value != value or unfit(value, parameter.type, self.dialect):
                return None
            found[parameter.name] = value
        return found


def where(condition: Expr | None, table: Table, dialect: str) -> Where:
    """The clause of a condition over a row of values (slot 0) and a row of the table."""
    writer = _Writer(table, dialect)
    clause, exact = (true(), True) if condition is None else writer.of(condition)
    return Where(clause, exact, tuple(writer.parameters), dialect)


_EVERYTHING: tuple[Clause, bool] = (true(), False)


@dataclass(slots=True)
class _Writer:
    table: Table
    dialect: str
    parameters: list[Parameter] = field(default_factory=list)

    def of(self, expr: Expr) -> tuple[Clause, bool]:
        """A clause that finds at least what the condition does, and whether it finds nothing else."""
        match expr:
            case Logic():
                return self._chain(expr)
            case Negation(operand):
                clause, exact = self.of(operand)
                return (not_(_sure(clause)), True) if exact else _EVERYTHING
            case NullCheck(Attr(slot, position)) if slot == TABLE:
                return self._column(position).is_(None), True
            case Comparison():
                return self._comparison(expr)
            case Attr(slot, position, Type.BOOL) if slot == TABLE:
                return self._column(position) == literal(True, Boolean()), True
            case Attr(0, _position, Type.BOOL):
                return self._value(expr, Type.BOOL) == literal(True, Boolean()), True
            case Const(value, Type.BOOL):
                return (true() if value else false()), True
            case _:
                return _EVERYTHING

    def _chain(self, expr: Logic) -> tuple[Clause, bool]:
        """Operators in a row lean to the left, and may be thousands."""
        chain = [expr]
        while isinstance(left := chain[-1].left, Logic):
            chain.append(left)
        found = self.of(chain[-1].left)
        for link in reversed(chain):
            right = self.of(link.right)
            join = and_ if link.op == "and" else or_
            found = join(found[0], right[0]), found[1] and right[1]
        return found

    def _column(self, position: int) -> ColumnElement[Any]:
        column: ColumnElement[Any] = list(self.table.columns)[position]
        return column

    def _value(self, expr: Attr, kind: Type) -> ColumnElement[Any]:
        name = f"nadi_value_{len(self.parameters)}"
        self.parameters.append(Parameter(name, expr.position, kind))
        return bindparam(name, type_=TYPES[kind])

    def _comparison(self, expr: Comparison) -> tuple[Clause, bool]:
        op, column, value = expr.op, expr.left, expr.right
        if not (isinstance(column, Attr) and column.slot == TABLE):
            op, column, value = _FLIPPED[op], value, column
        if not (isinstance(column, Attr) and column.slot == TABLE):
            return _EVERYTHING
        if not isinstance(value, Const) and not (isinstance(value, Attr) and value.slot == 0):
            return _EVERYTHING
        kind = _compared_as(column, value, expr.common)
        if kind is None:
            return _EVERYTHING
        right = self._operand(value, kind)
        return _EVERYTHING if right is None else self._compared(op, column, right, kind)

    def _operand(self, value: Const | Attr, kind: Type) -> ColumnElement[Any] | None:
        if isinstance(value, Attr):
            return self._value(value, kind)
        given: Any = value.value
        if given is not None and kind in _NUMBERS:
            given = number_as(given, kind)
        if given is None or given != given or unfit(given, kind, self.dialect):
            return None
        return literal(given, TYPES[kind])

    def _compared(self, op: str, column: Attr, right: ColumnElement[Any], kind: Type) -> tuple[Clause, bool]:
        left = self._column(column.position)
        loose = self.dialect == "mysql" and kind is Type.STRING
        if op == "!=":
            return _EVERYTHING if loose else (func.coalesce(left != right, literal(True, Boolean())), True)
        clause = _COMPARED[op](left, right)
        if op in (">", ">=") and self.dialect == "postgresql" and column.type in (Type.FLOAT, Type.DOUBLE):
            clause = and_(clause, left != literal_column("'NaN'::float8"))  # there it is greater than all numbers
        return clause, not loose


def _compared_as(column: Attr, value: Const | Attr, common: Type | None) -> Type | None:
    """The type in which the database compares a column as the language does; None where it does not."""
    if column.type in (Type.STRING, Type.BOOL):
        return column.type if value.type is column.type else None
    if column.type not in _NUMBERS or value.type not in _NUMBERS:
        return None
    kind = column.type if common is None else common
    return kind if kind in _EXACT_AS[column.type] else None


def _sure(clause: Clause) -> Clause:
    """A clause in which null counts as false."""
    return func.coalesce(clause, literal(False, Boolean()))
