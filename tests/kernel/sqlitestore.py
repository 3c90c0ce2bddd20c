"""A database behind the interface of stores: SQLite, with conditions and changes as prepared statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nadi.errors import error
from nadi.functions.stores import Changes, Refused, Row, StoreTable
from nadi.plan.nodes import TABLE, Arithmetic, Attr, Comparison, Const, Expr, Logic, Negation, NullCheck


@dataclass(frozen=True)
class Statement:
    where: str
    set: str


class SqliteStore:
    """One table of a database in memory. Values are parameters ?1, ?2 …"""

    def __init__(self, table: StoreTable) -> None:
        self.table = table
        self.columns = [f'"{name}"' for name in table.schema.names]
        self.log: list[str] = []

    def connect(self) -> None:
        key = ", ".join(self.columns[i] for i in self.table.primary_key)
        unique = f", unique ({key})" if key else ""
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.database.execute(f"create table t ({', '.join(self.columns)}{unique})")

    def compile(self, condition: Expr | None, changes: Changes = ()) -> Statement:
        assigned = ", ".join(f"{self.columns[i]} = {self._text(value)}" for i, value in changes)
        return Statement("true" if condition is None else self._text(condition), assigned)

    def _text(self, expr: Expr) -> str:
        match expr:
            case Const(value):
                return "null" if value is None else repr(value)
            case Attr(slot, position):
                return self.columns[position] if slot == TABLE else f"?{position + 1}"
            case Comparison("!=", left, right):
                return f"not coalesce({self._text(left)} = {self._text(right)}, false)"
            case Comparison(op, left, right):
                return f"coalesce({self._text(left)} {op} {self._text(right)}, false)"
            case Logic(op, left, right) | Arithmetic(op, left, right):
                return f"({self._text(left)} {op} {self._text(right)})"
            case Negation(operand):
                return f"(not coalesce({self._text(operand)}, false))"
            case NullCheck(operand):
                return f"({self._text(operand)} is null)"
            case _:
                raise error("NOT_SUPPORTED", what=f"{expr} in SQLite", alternative="filter the rows in a query")

    def _run(self, text: str, values: Row) -> Any:
        """Values that a statement does not mention are left out: SQLite takes as many as the highest number."""
        self.log.append(text)
        most = max((n for n in range(1, len(values) + 1) if f"?{n}" in text), default=0)
        return self.database.execute(text, values[:most])

    def find(self, compiled: Statement, values: Row) -> Iterable[Row]:
        return list(self._run(f"select * from t where {compiled.where} order by rowid", values))

    def contains(self, compiled: Statement, values: Row) -> bool:
        return bool(self._run(f"select exists (select 1 from t where {compiled.where})", values).fetchone()[0])

    def add(self, rows: Sequence[Row]) -> Refused:
        return [(n, why) for n, row in enumerate(rows) if (why := self._added(row)) is not None]

    def delete(self, compiled: Statement, values: Sequence[Row]) -> None:
        for given in values:
            self._run(f"delete from t where {compiled.where}", given)

    def update(self, compiled: Statement, values: Sequence[Row]) -> Refused:
        refused = []
        for n, given in enumerate(values):
            _found, why = self._updated(compiled, given)
            if why is not None:
                refused.append((n, why))
        return refused

    def update_or_add(self, compiled: Statement, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        refused = []
        for n, (given, row) in enumerate(zip(values, rows, strict=True)):
            found, why = self._updated(compiled, given)
            if not found:
                why = self._added(row)
            if why is not None:
                refused.append((n, why))
        return refused

    def _updated(self, compiled: Statement, values: Row) -> tuple[bool, Exception | None]:
        try:
            return self._run(f"update t set {compiled.set} where {compiled.where}", values).rowcount > 0, None
        except sqlite3.IntegrityError:
            return True, self._taken(values)

    def _added(self, row: Row) -> Any:
        try:
            self._run(f"insert into t values ({', '.join(f'?{i + 1}' for i in range(len(row)))})", row)
        except sqlite3.IntegrityError:
            return self._taken(row)
        return None

    def _taken(self, row: Row) -> Any:
        return error("PRIMARY_KEY_TAKEN", table=self.table.name, key=str(row[0]))
