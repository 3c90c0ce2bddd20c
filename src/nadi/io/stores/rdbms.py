"""`@store(type='rdbms', jdbc.url='jdbc:postgresql://host/db')`: the rows of a table are those of a table in a relational database.

What SQL answers as the language does goes to the database (`nadi.io.stores.conditions`), with each value as a parameter. The rest of a condition, and what
an update computes from the row itself, is done in Python: rows are read, those that are to be changed with a lock on them, and looked at one by one.

`nadi.io.stores.transactions` says what belongs together, and how a batch that is taken again does not write twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    LargeBinary,
    Select,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import passes, translated
from nadi.errors import NadiError, error
from nadi.functions import default_registry
from nadi.functions.arithmetic import told
from nadi.functions.stores import Changes, Refused, Row, StoreKind, StoreTable
from nadi.io.stores.conditions import Clause, Where, where
from nadi.io.stores.options import target_of
from nadi.io.stores.surroundings import Access
from nadi.io.stores.tables import Known, prepare, table_of
from nadi.io.stores.transactions import Session
from nadi.io.stores.values import as_language, check_row, fitting
from nadi.kernel.rows.compile import compile_condition
from nadi.kernel.rows.flow import Flow
from nadi.plan.nodes import TABLE, Attr, Call, Expr
from nadi.plan.walk import inside

Evaluated = Callable[[Row, Row], Any]


@dataclass(slots=True)
class Compiled:
    """A condition and changes: as they came, and as functions of (values, row). `clauses` has the SQL of the condition by dialect.

    `alike`: the changes are the same for each row.
    """

    condition: Expr | None
    on: Evaluated | None
    set: tuple[tuple[int, Evaluated], ...]
    alike: bool
    clauses: dict[str, Where] = field(default_factory=dict)

    def holds(self, values: Row, row: Row) -> bool:
        return self.on is None or self.on(values, row) is True

    def changed(self, values: Row, row: Row) -> Row:
        """The row after the changes; all of them see it as it was."""
        made = list(row)
        for column, value in self.set:
            made[column] = value(values, row)
        return tuple(made)


@dataclass(frozen=True, slots=True)
class _Made:
    """What is known of the database, once it was reached."""

    dialect: str
    table: Table
    known: Known


class RdbmsStore:
    """Implements `nadi.functions.stores.Store`."""

    def __init__(self, given: StoreTable) -> None:
        self._given = given
        self._target = target_of(given)
        self._access = Access(self._target)
        self._flow = Flow(lambda _key: 0)
        self._columns = given.schema.columns
        self._made: _Made | None = None

    def connect(self) -> None:
        """Make the table where there is none. Errors: CONNECTION_UNAVAILABLE, REFUSED; those of what apps may reach."""
        session, dialect, who = self._access.session()
        table = table_of(self._given, self._target, dialect)
        known: list[Known] = []

        session.prepare(who, lambda connection: known.append(prepare(connection, table, self._target, who)))
        self._made = _Made(dialect, table, known[0])

    def compile(self, condition: Expr | None, changes: Changes = ()) -> Compiled:
        for part in inside((condition, *(value for _column, value in changes))):
            if isinstance(part, Call):
                self._check_call(part)
        return Compiled(
            condition,
            None if condition is None else compile_condition(condition, self._flow, {}),
            tuple((column, compile_condition(value, self._flow, {})) for column, value in changes),
            not any(isinstance(part, Attr) and part.slot == TABLE for _column, v in changes for part in inside(v))
            and not any(column in self._given.primary_key for column, _value in changes),
        )

    def _check_call(self, call: Call) -> None:
        """What a function needs of the app is not here. Errors: NOT_SUPPORTED."""
        entry = default_registry().function(call.function)
        if entry is None or entry.needs:
            what = f"{call.function}() of an attribute of '{self._given.name}' in a condition on a store"
            raise error("NOT_SUPPORTED", what=what, alternative="compute it in a query behind the join")

    @property
    def written_before(self) -> bool:
        """Whether the cut at hand is taken again, and its writes are there."""
        return self._access.session()[0].repeats

    # ---- reading

    def find(self, compiled: Compiled, values: Row) -> Iterable[Row]:
        session, made, who = self._reach()
        return session.read(who, lambda connection: self._matching(connection, made, compiled, values))

    def contains(self, compiled: Compiled, values: Row) -> bool:
        session, made, who = self._reach()
        asked = self._where(made, compiled)
        bound = asked.bound(values)
        if bound is None or not asked.exact:
            return bool(self.find(compiled, values))
        one = select(func.count()).select_from(select(made.table.c[0]).where(asked.clause).limit(1).subquery())
        return bool(session.read(who, lambda connection: connection.execute(one, bound).scalar_one()))

    def _reach(self) -> tuple[Session, _Made, str]:
        if self._made is None:
            self.connect()
        assert self._made is not None
        session, _dialect, who = self._access.session()
        return session, self._made, who

    @staticmethod
    def _where(made: _Made, compiled: Compiled) -> Where:
        found = compiled.clauses.get(made.dialect)
        if found is None:
            found = compiled.clauses[made.dialect] = where(compiled.condition, made.table, made.dialect)
        return found

    def _matching(
        self, connection: Connection, made: _Made, compiled: Compiled, values: Row, lock: bool = False
    ) -> list[Row]:
        """The rows for which the condition holds; with a `lock` nobody else changes them before the transaction ends."""
        asked = self._where(made, compiled)
        bound = asked.bound(values)
        query: Select[Any] = select(made.table)
        if bound is not None:
            query = query.where(asked.clause)
        found = connection.execute(query.with_for_update() if lock else query, bound or {})
        rows = [self._read(row) for row in found]
        if bound is not None and asked.exact:
            return rows
        return [row for row in rows if compiled.holds(values, row)]

    def _read(self, row: Sequence[Any]) -> Row:
        name = self._given.name
        return tuple(as_language(name, column, value) for column, value in zip(self._columns, row, strict=True))

    # ---- writing

    def add(self, rows: Sequence[Row]) -> Refused:
        session, made, who = self._reach()
        return session.write(who, lambda connection: self._add(connection, made, who, rows), careful=False)

    def delete(self, compiled: Compiled, values: Sequence[Row]) -> None:
        session, made, who = self._reach()

        def do(connection: Connection) -> Refused:
            for given in values:
                self._delete(connection, made, who, compiled, given)
            return ()

        session.write(who, do)

    def update(self, compiled: Compiled, values: Sequence[Row]) -> Refused:
        session, made, who = self._reach()

        def do(connection: Connection) -> Refused:
            told_of = ((n, self._update(connection, made, who, compiled, given)[1]) for n, given in enumerate(values))
            return [(n, why) for n, why in told_of if why is not None]

        return session.write(who, do, self._looks_at_rows(made, compiled, values))

    def update_or_add(self, compiled: Compiled, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        session, made, who = self._reach()

        def do(connection: Connection) -> Refused:
            pairs = enumerate(zip(values, rows, strict=True))
            told_of = ((n, self._update_or_add(connection, made, who, compiled, *pair)) for n, pair in pairs)
            return [(n, why) for n, why in told_of if why is not None]

        return session.write(who, do, self._looks_at_rows(made, compiled, values))

    def _looks_at_rows(self, made: _Made, compiled: Compiled, values: Sequence[Row]) -> bool:
        """Whether an update is more than one statement for each row of values."""
        asked = self._where(made, compiled)
        alike = bool(compiled.set) and compiled.alike and asked.exact
        return not alike or any(asked.bound(given) is None for given in values)

    def _update_or_add(
        self, connection: Connection, made: _Made, who: str, compiled: Compiled, values: Row, row: Row
    ) -> NadiError | None:
        found, why = self._update(connection, made, who, compiled, values)
        if found:
            return why
        refused = self._add(connection, made, who, [row])
        if refused and refused[0][1].condition == "PRIMARY_KEY_TAKEN":
            # somebody else may have added it in between
            found, why = self._update(connection, made, who, compiled, values)
            if found:
                return why
        return refused[0][1] if refused else None

    # ---- one statement after the other

    def _add(self, connection: Connection, made: _Made, who: str, rows: Sequence[Row]) -> Refused:
        refused: list[tuple[int, NadiError]] = []
        given: list[tuple[int, Row]] = []
        for n, row in enumerate(rows):
            row = self._fitting(row)
            why = self._check(made, row)
            if why is None:
                given.append((n, row))
            else:
                refused.append((n, why))
        together = partial(_insert, connection, made, [row for _n, row in given])
        if len(given) > 1 and self._tried(connection, made, who, together) is None:
            return refused
        for n, row in given:
            why = self._tried(connection, made, who, partial(_insert, connection, made, [row]), row)
            if why is not None:
                refused.append((n, why))
        return sorted(refused, key=lambda each: each[0])

    def _delete(self, connection: Connection, made: _Made, who: str, compiled: Compiled, values: Row) -> None:
        asked = self._where(made, compiled)
        bound = asked.bound(values)
        if bound is not None and asked.exact:
            connection.execute(delete(made.table).where(asked.clause), bound)
            return
        self._remove(connection, made, who, self._matching(connection, made, compiled, values, lock=True))

    def _update(
        self, connection: Connection, made: _Made, who: str, compiled: Compiled, values: Row
    ) -> tuple[bool, NadiError | None]:
        """Whether there are rows to change, and why that was refused."""
        asked = self._where(made, compiled)
        bound = asked.bound(values)
        if not compiled.alike or bound is None or not asked.exact:
            return self._update_each(connection, made, who, compiled, values)
        assigned = {column: self._fitted(column, value(values, ())) for column, value in compiled.set}
        why = self._check_some(made, assigned)
        if why is not None or not assigned:
            found_any = select(made.table.c[0]).where(asked.clause).limit(1)
            return connection.execute(found_any, bound).first() is not None, why
        statement, parameters = _assignment(made.table, assigned)
        found = [0]

        def change() -> None:
            found[0] = connection.execute(statement.where(asked.clause), {**bound, **parameters}).rowcount

        why = self._tried(connection, made, who, change)
        return why is not None or found[0] > 0, why

    def _update_each(
        self, connection: Connection, made: _Made, who: str, compiled: Compiled, values: Row
    ) -> tuple[bool, NadiError | None]:
        """Row by row: all are changed, or none."""
        rows = self._matching(connection, made, compiled, values, lock=True)
        changed = [self._fitting(compiled.changed(values, row)) for row in rows]
        why = next((why for row in changed if (why := self._check(made, row)) is not None), None)
        why = why or self._check_keys(connection, made, rows, changed)
        if why is not None or not rows:
            return bool(rows), why

        def change() -> None:
            key = self._given.primary_key
            if key and all(_part(a, key) == _part(b, key) for a, b in zip(rows, changed, strict=True)):
                for before, after in zip(rows, changed, strict=True):
                    _change(connection, made, key, before, after)
                return
            self._remove(connection, made, who, rows)
            _insert(connection, made, changed)

        return True, self._tried(connection, made, who, change)

    def _check_keys(
        self, connection: Connection, made: _Made, rows: Sequence[Row], changed: Sequence[Row]
    ) -> NadiError | None:
        """Whether a row would take the primary key of another one."""
        key, taken = self._given.primary_key, set()
        for before, after in zip(rows, changed, strict=True):
            mine = _part(after, key)
            if key and (mine in taken or mine != _part(before, key)):
                if mine in taken or self._is_taken(connection, made, after):
                    return self._taken(after)
                taken.add(mine)
        return None

    def _remove(self, connection: Connection, made: _Made, who: str, rows: Sequence[Row]) -> None:
        """Rows that were read are removed. Without a primary key they are found by all their values: with equal rows the same is done."""
        by = self._given.primary_key or tuple(range(len(self._columns)))
        counts: dict[Row, int] = {}
        for row in rows:
            counts[_part(row, by)] = counts.get(_part(row, by), 0) + 1
        for values, count in counts.items():
            parameters = {f"nadi_key_{i}": value for i, value in zip(by, values, strict=True)}
            gone = connection.execute(delete(made.table).where(_same(made, by)), parameters).rowcount
            if gone != count:
                reason = f"{gone} rows are like one that was read {count} times: give the table a @primaryKey"
                raise error("REFUSED", connector=who, reason=reason)

    # ---- what is refused

    def _fitting(self, row: Row) -> Row:
        return tuple(fitting(value, column.type) for value, column in zip(row, self._columns, strict=True))

    def _fitted(self, column: int, value: Any) -> Any:
        return fitting(value, self._columns[column].type)

    def _check(self, made: _Made, row: Row) -> NadiError | None:
        known = made.known
        return check_row(self._given.name, self._columns, row, known.lengths, known.required, made.dialect)

    def _check_some(self, made: _Made, assigned: Mapping[int, Any]) -> NadiError | None:
        columns, row = [self._columns[i] for i in assigned], tuple(assigned.values())
        return check_row(self._given.name, columns, row, made.known.lengths, made.known.required, made.dialect)

    def _tried(
        self, connection: Connection, made: _Made, who: str, do: Callable[[], None], row: Row | None = None
    ) -> NadiError | None:
        """Do something, all or nothing; why the database did not take it. Errors: the driver's that may pass."""
        try:
            with connection.begin_nested():
                do()
        except DBAPIError as reason:
            if passes(reason):
                raise
            if isinstance(reason, IntegrityError) and row is not None and self._is_taken(connection, made, row):
                return self._taken(row)
            return translated(reason, who)
        return None

    def _is_taken(self, connection: Connection, made: _Made, row: Row) -> bool:
        key = self._given.primary_key
        if not key:
            return False
        parameters = {f"nadi_key_{i}": row[i] for i in key}
        asked = and_(*(made.table.columns[self._columns[i].name] == _parameter(made, i) for i in key))
        return connection.execute(select(made.table.c[0]).where(asked).limit(1), parameters).first() is not None

    def _taken(self, row: Row) -> NadiError:
        shown = ", ".join(told(row[i]) for i in self._given.primary_key)
        return error("PRIMARY_KEY_TAKEN", table=self._given.name, key=shown)


def _part(row: Row, columns: Sequence[int]) -> Row:
    return tuple(row[i] for i in columns)


def _insert(connection: Connection, made: _Made, rows: Sequence[Row]) -> None:
    names = [column.name for column in made.table.columns]
    connection.execute(insert(made.table), [dict(zip(names, row, strict=True)) for row in rows])


def _change(connection: Connection, made: _Made, key: Sequence[int], before: Row, after: Row) -> None:
    """Give a row its other values."""
    assigned = {
        n: value for n, (old, value) in enumerate(zip(before, after, strict=True)) if n not in key and old is not value
    }
    if assigned:
        statement, parameters = _assignment(made.table, assigned)
        asked = and_(*(list(made.table.columns)[i] == _parameter(made, i) for i in key))
        connection.execute(statement.where(asked), {**parameters, **{f"nadi_key_{i}": before[i] for i in key}})


def _assignment(table: Table, assigned: Mapping[int, Any]) -> tuple[Any, dict[str, Any]]:
    columns = list(table.columns)
    values = {columns[i]: bindparam(f"nadi_set_{i}", type_=columns[i].type) for i in assigned}
    return update(table).values(values), {f"nadi_set_{i}": value for i, value in assigned.items()}


def _parameter(made: _Made, column: int) -> Any:
    return bindparam(f"nadi_key_{column}", type_=list(made.table.columns)[column].type)


def _same(made: _Made, by: Sequence[int]) -> Clause:
    """Whether some columns are those of a row that was read; null is like null. MySQL compares texts byte by byte only if it is told so."""
    parts = []
    for i in by:
        column = list(made.table.columns)[i]
        value: Any = _parameter(made, i)
        if made.dialect == "mysql" and not column.primary_key and column.type.python_type is str:
            parts.append(cast(column, LargeBinary).is_not_distinct_from(cast(value, LargeBinary)))
        else:
            parts.append(column.is_not_distinct_from(value))
    return and_(*parts)


KIND = StoreKind(
    "rdbms", RdbmsStore, "Rows in a table of PostgreSQL, MySQL, MariaDB or SQLite. Options: see language/stores.md."
)
