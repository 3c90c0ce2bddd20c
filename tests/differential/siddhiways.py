"""How Siddhi 5.1 finds and deletes the rows that fulfil a condition, in a table with a primary key or an index: by which parts of the condition it looks into
maps, and what it forgets on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from nadi.plan.nodes import TABLE, Attr, Comparison, Expr, Logic, Negation, NullCheck
from nadi.plan.walk import inside
from tests.differential.siddhiheld import DELETES, Held, Maps, Values, failed

Holds = Callable[[Values, tuple[Any, ...]], object]
"""Whether a condition holds for values and a row."""
Compile = Callable[[Expr], Holds]
FEW = 10
"""So many rows are gone through before the other side of an `and` is asked."""


class Scope(Enum):
    """What a part of a condition is good for."""

    VALUE = auto()
    ATTRIBUTE = auto()
    MAPPED = auto()
    KEY_PART = auto()
    KEY = auto()
    ROWS = auto()


class Cost(Enum):
    ONE = 1
    MANY = 2
    ALL = 3


class Way(Protocol):
    @property
    def cost(self) -> Cost: ...

    @property
    def ordered(self) -> bool:
        """Whether rows come in the order of the primary key's map, and not in that of a hash set."""

    def rows(self, values: Values) -> list[Held] | None:
        """The rows, as a part of a larger condition is asked for them; None where all rows are to be looked at."""

    def found(self, values: Values) -> list[Held]: ...

    def contains(self, values: Values) -> bool: ...

    def delete(self, values: Values) -> None: ...


@dataclass
class Scan:
    """All rows are looked at."""

    maps: Maps
    holds: Holds
    cost: Cost = Cost.ALL

    @property
    def ordered(self) -> bool:
        return bool(self.maps.key)

    def among(self, rows: Iterable[Held], values: Values) -> list[Held]:
        return [row for row in rows if self.holds(values, tuple(row.row)) is True]

    def rows(self, values: Values) -> list[Held] | None:
        return None

    def found(self, values: Values) -> list[Held]:
        return self.among(self.maps.all(), values)

    def contains(self, values: Values) -> bool:
        return bool(self.found(values))

    def delete(self, values: Values) -> None:
        self.maps.remove(self.found(values))


@dataclass
class Every:
    """A condition without the row: all rows or none."""

    maps: Maps
    holds: Holds
    cost: Cost = Cost.MANY

    @property
    def ordered(self) -> bool:
        return bool(self.maps.key)

    def rows(self, values: Values) -> list[Held] | None:
        return self.found(values)

    def found(self, values: Values) -> list[Held]:
        return self.maps.all() if self.contains(values) else []

    def contains(self, values: Values) -> bool:
        return self.holds(values, ()) is True

    def delete(self, values: Values) -> None:
        if self.contains(values):
            self.maps.clear()


@dataclass
class Compared:
    """A column that has a map, compared with a value."""

    maps: Maps
    column: int
    op: str
    value: Holds
    scan: Scan

    @property
    def cost(self) -> Cost:
        return {"==": Cost.ONE, "!=": Cost.ALL}.get(self.op, Cost.MANY)

    @property
    def ordered(self) -> bool:
        return self.scan.ordered and (self.op == "!=" or self.column == self.maps.single)

    def rows(self, values: Values) -> list[Held] | None:
        return None if self.op == "!=" else self.maps.find(self.column, self.op, self.value(values, ()))

    def found(self, values: Values) -> list[Held]:
        rows = self.rows(values)
        return self.scan.found(values) if rows is None else rows

    def contains(self, values: Values) -> bool:
        return self.maps.contains(self.column, self.op, self.value(values, ()))

    def delete(self, values: Values) -> None:
        self.maps.remove_where(self.column, self.op, self.value(values, ()))


@dataclass
class Keyed:
    """All attributes of a primary key of several."""

    maps: Maps
    values: tuple[Holds, ...]
    cost: Cost = Cost.ONE
    ordered: bool = True

    def _key(self, values: Values) -> Values:
        return tuple(value(values, ()) for value in self.values)

    def rows(self, values: Values) -> list[Held] | None:
        return self.found(values)

    def found(self, values: Values) -> list[Held]:
        return self.maps.by_key(self._key(values))

    def contains(self, values: Values) -> bool:
        return bool(self.found(values))

    def delete(self, values: Values) -> None:
        self.maps.remove_key(self._key(values))


@dataclass
class Guarded:
    """A condition without the row, and one with it."""

    holds: Holds
    inner: Way
    all: bool

    @property
    def cost(self) -> Cost:
        return Cost.ALL if self.all else self.inner.cost

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    def rows(self, values: Values) -> list[Held] | None:
        if self.holds(values, ()) is not True:
            return []
        return None if self.all else self.inner.rows(values)

    def found(self, values: Values) -> list[Held]:
        return self.inner.found(values) if self.holds(values, ()) is True else []

    def contains(self, values: Values) -> bool:
        return self.holds(values, ()) is True and self.inner.contains(values)

    def delete(self, values: Values) -> None:
        if self.holds(values, ()) is True:
            self.inner.delete(values)


@dataclass
class Both:
    """`and` of two conditions that maps know something of: the cheaper one is asked first."""

    low: Way
    high: Way
    scan: Scan
    ordered: bool = False

    @property
    def cost(self) -> Cost:
        return self.low.cost

    def rows(self, values: Values) -> list[Held] | None:
        low = self.low.rows(values)
        if not low:
            return low
        if len(low) <= FEW:
            return self.scan.among(low, values)
        high = self.high.rows(values)
        return high if not high else [row for row in low if row in high]

    def found(self, values: Values) -> list[Held]:
        rows = self.rows(values)
        return self.scan.found(values) if rows is None else rows

    def contains(self, values: Values) -> bool:
        return bool(self.found(values))

    def delete(self, values: Values) -> None:
        rows = self.rows(values)
        if rows is None:
            self.scan.delete(values)
        else:
            self.scan.maps.remove(rows)


@dataclass
class Narrowed:
    """`and` of a condition that a map knows something of and one that none does: what is found so is never deleted. A part without a `scan` of its own
    has the larger condition look at all rows."""

    inner: Way
    scan: Scan
    asked: bool
    ordered: bool = False

    @property
    def cost(self) -> Cost:
        return self.inner.cost if self.asked else Cost.ALL

    def _narrowed(self, values: Values) -> list[Held] | None:
        rows = self.inner.rows(values)
        return rows if not rows else self.scan.among(rows, values)

    def rows(self, values: Values) -> list[Held] | None:
        rows = self.inner.rows(values)
        if not rows:
            return rows
        return self.scan.among(rows, values) if self.asked else None

    def found(self, values: Values) -> list[Held]:
        rows = self._narrowed(values)
        return self.scan.found(values) if rows is None else rows

    def contains(self, values: Values) -> bool:
        return bool(self.found(values))

    def delete(self, values: Values) -> None:
        rows = self._narrowed(values)
        if rows is None:
            self.scan.delete(values)
        elif rows:
            self.scan.maps.noted.add(DELETES)


@dataclass
class Either:
    left: Way
    right: Way
    scan: Scan
    ordered: bool = False

    @property
    def cost(self) -> Cost:
        return max(self.left.cost, self.right.cost, key=lambda cost: cost.value)

    def rows(self, values: Values) -> list[Held] | None:
        left = self.left.rows(values)
        if left is None or (right := self.right.rows(values)) is None:
            return None
        return left + [row for row in right if all(row.equal() != other.equal() for other in left)]

    def found(self, values: Values) -> list[Held]:
        rows = self.rows(values)
        return self.scan.found(values) if rows is None else rows

    def contains(self, values: Values) -> bool:
        return bool(self.left.rows(values) or self.right.rows(values)) or self.scan.contains(values)

    def delete(self, values: Values) -> None:
        if self.rows(values) is None:
            self.scan.delete(values)
        else:
            self.left.delete(values)
            self.right.delete(values)


@dataclass
class Others:
    """`not`."""

    inner: Way
    scan: Scan

    @property
    def cost(self) -> Cost:
        return Cost.ALL if self.inner.cost is Cost.ALL else Cost.MANY

    @property
    def ordered(self) -> bool:
        return self.scan.ordered

    def rows(self, values: Values) -> list[Held] | None:
        without = self.inner.rows(values)
        if without is None:
            return None
        gone = {row.equal() for row in without}
        return [row for row in self.scan.maps.all() if row.equal() not in gone]

    def found(self, values: Values) -> list[Held]:
        rows = self.rows(values)
        return self.scan.found(values) if rows is None else rows

    def contains(self, values: Values) -> bool:
        without = self.inner.rows(values)
        return self.scan.contains(values) if without is None else len(without) != len(self.scan.maps.all())

    def delete(self, values: Values) -> None:
        without = self.inner.rows(values)
        if without is None:
            self.scan.delete(values)
        elif not without:
            self.scan.maps.clear()
        else:
            self.scan.maps.remove(self.rows(values) or [])


# ---- which way a condition takes


@dataclass
class Ways:
    """Finds the way of a condition."""

    maps: Maps
    compile: Compile

    def of(self, condition: Expr | None) -> Way:
        if condition is None:
            return Every(self.maps, lambda _values, _row: True)
        if self.scope(condition) is Scope.KEY_PART:
            return self._scan(condition)
        return self._way(condition, first=True)

    def replaces(self, condition: Expr | None) -> bool:
        """Whether `update or insert` puts rows where their primary key is, and looks at nothing else."""
        if isinstance(condition, Comparison) and condition.op == "==" and self.scope(condition) is Scope.MAPPED:
            return self._sides(condition)[0].position == self.maps.single
        return condition is not None and self.scope(condition) is Scope.KEY

    def _scan(self, condition: Expr) -> Scan:
        return Scan(self.maps, self.compile(condition))

    def scope(self, expr: Expr) -> Scope:
        if not any(isinstance(part, Attr) and part.slot == TABLE for part in inside(expr)):
            return Scope.VALUE
        match expr:
            case Attr():
                if self.maps.has_map(expr.position):
                    return Scope.ATTRIBUTE
                return Scope.KEY_PART if expr.position in self.maps.key else Scope.ROWS
            case Logic():
                return self._joined(expr.op, expr, self.scope(expr.left), self.scope(expr.right))
            case Negation():
                return Scope.ROWS if self.scope(expr.operand) in (Scope.KEY_PART, Scope.ROWS) else Scope.MAPPED
            case NullCheck():
                return Scope.MAPPED if self.scope(expr.operand) is Scope.ATTRIBUTE else Scope.ROWS
            case Comparison():
                scopes = {self.scope(expr.left), self.scope(expr.right)}
                if scopes == {Scope.ATTRIBUTE, Scope.VALUE}:
                    return Scope.MAPPED
                return Scope.KEY_PART if scopes == {Scope.KEY_PART, Scope.VALUE} else Scope.ROWS
        return Scope.ROWS

    def _joined(self, op: str, expr: Logic, left: Scope, right: Scope) -> Scope:
        """The scope of `and` and `or`."""
        sides = {left, right}
        if op == "or":
            return Scope.ROWS if sides & {Scope.KEY_PART, Scope.ROWS} else Scope.MAPPED
        if sides <= {Scope.KEY_PART, Scope.KEY}:
            return Scope.KEY if self._fixed(expr) == set(self.maps.key) else Scope.KEY_PART
        return Scope.ROWS if sides <= {Scope.KEY_PART, Scope.ROWS, Scope.VALUE} else Scope.MAPPED

    def _fixed(self, expr: Expr) -> set[int]:
        """The attributes of the key that a conjunction asks for."""
        if isinstance(expr, Logic):
            return self._fixed(expr.left) | self._fixed(expr.right)
        assert isinstance(expr, Comparison)
        return {self._sides(expr)[0].position} if expr.op == "==" else set()

    def _sides(self, expr: Comparison) -> tuple[Attr, str, Expr]:
        """The attribute, what it is compared by and with what."""
        turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
        if self.scope(expr.left) is not Scope.VALUE:
            assert isinstance(expr.left, Attr)
            return expr.left, expr.op, expr.right
        assert isinstance(expr.right, Attr)
        return expr.right, turned.get(expr.op, expr.op), expr.left

    def _way(self, expr: Expr, first: bool) -> Way:
        scope, scan = self.scope(expr), self._scan(expr)
        if scope is Scope.VALUE:
            return Every(self.maps, self.compile(expr))
        if scope in (Scope.ROWS, Scope.KEY_PART):
            return scan
        if scope is Scope.KEY:
            return Keyed(self.maps, self._parts(expr))
        match expr:
            case Comparison():
                attribute, op, value = self._sides(expr)
                return Compared(self.maps, attribute.position, op, self.compile(value), scan)
            case Negation():
                return Others(self._way(expr.operand, first), scan)
            case Logic(op="or"):
                return Either(self._way(expr.left, first), self._way(expr.right, first), scan)
            case Logic():
                return self._and(expr, scan, first)
        raise NotImplementedError(f"{expr} as a condition")

    def _and(self, expr: Logic, scan: Scan, first: bool) -> Way:
        left, right = self.scope(expr.left), self.scope(expr.right)
        if Scope.VALUE in (left, right):
            value, other, scope = (
                (expr.left, expr.right, right) if left is Scope.VALUE else (expr.right, expr.left, left)
            )
            hidden = left is Scope.VALUE and scope in (Scope.ROWS, Scope.KEY_PART)
            return Guarded(self.compile(value), self._way(other, first), hidden)
        if {left, right} & {Scope.ROWS, Scope.KEY_PART}:
            inner = self._way(expr.left if right in (Scope.ROWS, Scope.KEY_PART) else expr.right, first)
            return Narrowed(inner, scan, first or inner.cost is Cost.ONE)
        ways = [self._way(expr.left, False), self._way(expr.right, False)]
        if right is Scope.ATTRIBUTE:
            ways.reverse()
        low, high = sorted(ways, key=lambda way: way.cost.value)
        return Both(low, high, scan)

    def _parts(self, expr: Expr) -> tuple[Holds, ...]:
        """What the attributes of the key are compared with; of several for one attribute the last counts."""
        found: dict[int, Holds] = {}
        waiting = [expr]
        while waiting:
            here = waiting.pop(0)
            if isinstance(here, Logic):
                waiting[:0] = [here.left, here.right]
                continue
            assert isinstance(here, Comparison)
            attribute, op, value = self._sides(here)
            if op != "==":
                raise failed("a key that is not asked by equality alone")
            found[attribute.position] = self.compile(value)
        return tuple(found[column] for column in self.maps.key)
