"""A reporter into the five tables of WSO2 Stream Processor: METRIC_GAUGE, METRIC_COUNTER, METRIC_METER, METRIC_HISTOGRAM, METRIC_TIMER.

Tables that are missing are made, with columns that hold fractions. Tables that are there are taken as they are; what a column cannot hold (the scripts of the
reference have DECIMAL(10,0) and NUMERIC(25,20)) is the greatest value that it can. All rows of a poll have one TIMESTAMP. While the database is away, polls
are kept, the last ones, and written when it is back.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    delete,
    insert,
    inspect,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import SchemaItem

from nadi.databases.engines import Address, connect, make_tables, translated
from nadi.metrics.histograms import Timed
from nadi.metrics.meters import Rates
from nadi.metrics.registry import Counter, Snapshot, Value
from nadi.metrics.reporters.fields import fields_of
from nadi.metrics.reservoirs import Distribution

KEPT = 60  # polls that wait for a database, and
ROWS = 200_000  # rows of them in all
DAY = 86_400
LONGEST_NAME, LONGEST_VALUE = 255, 100
RATES = ("MEAN_RATE", "M1_RATE", "M5_RATE", "M15_RATE")
LENGTHS = ("MAX", "MEAN", "MIN", "STDDEV", "P50", "P75", "P95", "P98", "P99", "P999")
KINDS = ("GAUGE", "COUNTER", "METER", "HISTOGRAM", "TIMER")

log = structlog.get_logger("nadi.metrics")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Every `period` seconds rows are deleted that are older than `days`."""

    days: int = 7
    period: float = 86_400.0


def tables_of(dialect: str) -> dict[str, Table]:
    """The tables by kind, with names as the scripts for a database give them: PostgreSQL makes all small that is not quoted."""
    case: Callable[[str], str] = str.lower if dialect == "postgresql" else str.upper
    metadata = MetaData()

    def table(kind: str, *columns: Column[Any]) -> Table:
        # SQLite counts only an INTEGER up by itself
        parts: list[SchemaItem] = [
            Column(case("ID"), BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column(case("SOURCE"), String(LONGEST_NAME), nullable=False),
            Column(case("TIMESTAMP"), BigInteger, nullable=False),
            Column(case("NAME"), String(LONGEST_NAME), nullable=False),
            *columns,
            Index(f"IDX_TIMESTAMP_{kind}", case("TIMESTAMP")),
        ]
        return Table(case(f"METRIC_{kind}"), metadata, *parts)

    def text(name: str, length: int) -> Column[Any]:
        return Column(case(name), String(length), nullable=False)

    def numbers(*names: str) -> list[Column[Any]]:
        return [Column(case(name), Double, nullable=False) for name in names]

    def count() -> Column[Any]:
        return Column(case("COUNT"), BigInteger, nullable=False)

    return {
        "GAUGE": table("GAUGE", text("VALUE", LONGEST_VALUE)),
        "COUNTER": table("COUNTER", count()),
        "METER": table("METER", count(), *numbers(*RATES), text("RATE_UNIT", 50)),
        "HISTOGRAM": table("HISTOGRAM", count(), *numbers(*LENGTHS)),
        "TIMER": table("TIMER", count(), *numbers(*LENGTHS, *RATES), text("RATE_UNIT", 50), text("DURATION_UNIT", 50)),
    }


def rows_of(snapshot: Snapshot, source: str) -> dict[str, list[Row]]:
    """The rows of a poll by kind, with columns in capitals."""
    found: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    common = {"SOURCE": source[:255], "TIMESTAMP": snapshot.at}
    for name, value in snapshot.values:
        kind, columns = _row(value)
        found[kind].append({**common, "NAME": name.full[:LONGEST_NAME], **columns})
    return found


def _row(value: Value | Counter) -> tuple[str, Row]:
    if isinstance(value, float | int | str):
        return "GAUGE", {"VALUE": shown(value)[:LONGEST_VALUE]}
    kinds = {Timed: "TIMER", Rates: "METER", Distribution: "HISTOGRAM", Counter: "COUNTER"}
    return kinds[type(value)], {name.upper(): field for name, field in fields_of(value).items()}


def shown(value: float | str) -> str:
    """A gauge as text: whole numbers without a point.

    >>> shown(3.0), shown(0.25), shown("up")
    ('3', '0.25', 'up')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class TablesReporter:
    """Writes into one database. `source` names the node, `clock` is in seconds since the epoch. Used by one thread. It connects with
    the first poll."""

    def __init__(
        self, address: Address, source: str, cleanup: Cleanup | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._address, self._source, self._cleanup, self._clock = address, source, cleanup, clock
        self._engine: Engine | None = None
        self._tables: dict[str, Table] = {}
        self._limits: dict[str, dict[str, float]] = {}
        self._waiting: deque[dict[str, list[Row]]] = deque()
        self._dropped = 0
        self._cleaned = 0.0

    def report(self, snapshot: Snapshot) -> None:
        """Write a poll, after those that wait. Errors: CONNECTION_UNAVAILABLE, REFUSED; DATABASE_UNKNOWN."""
        self._waiting.append(rows_of(snapshot, self._source))
        self._keep_few()
        try:
            engine = self._opened()
            while self._waiting:
                self._write(engine, self._waiting[0])
                self._waiting.popleft()
            self._clean(engine)
        except DBAPIError as reason:
            raise translated(reason, f"the metrics of {self._address.shown}") from reason
        if self._dropped:
            log.warning("polls of metrics were not kept while the database was away", polls=self._dropped)
            self._dropped = 0

    def _keep_few(self) -> None:
        while len(self._waiting) > 1 and (len(self._waiting) > KEPT or sum(map(_size, self._waiting)) > ROWS):
            self._waiting.popleft()
            self._dropped += 1

    def _opened(self) -> Engine:
        if self._engine is None:
            engine = connect(self._address)
            tables = tables_of(engine.dialect.name)
            try:
                make_tables(engine, *tables.values())
                limits = {kind: dict(_limits(engine, table)) for kind, table in tables.items()}
            except BaseException:
                engine.dispose()
                raise
            self._tables, self._limits, self._engine = tables, limits, engine
        return self._engine

    def _write(self, engine: Engine, poll: Mapping[str, list[Row]]) -> None:
        with engine.begin() as connection:
            for kind, rows in poll.items():
                if rows:
                    table, limits = self._tables[kind], self._limits[kind]
                    case = str.lower if engine.dialect.name == "postgresql" else str.upper
                    fit = [{case(name): _fit(value, limits.get(name)) for name, value in row.items()} for row in rows]
                    connection.execute(insert(table), fit)

    def _clean(self, engine: Engine) -> None:
        now = self._clock()
        if self._cleanup is None or now - self._cleaned < self._cleanup.period:
            return
        oldest = int((now - self._cleanup.days * DAY) * 1000)
        for table in self._tables.values():
            stamp = next(column for column in table.columns if column.name.upper() == "TIMESTAMP")
            with engine.begin() as connection:
                connection.execute(delete(table).where(stamp < oldest))
        self._cleaned = now

    def close(self) -> None:
        """Let go of the connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


def _size(poll: Mapping[str, list[Row]]) -> int:
    return sum(map(len, poll.values()))


def _limits(engine: Engine, table: Table) -> Iterator[tuple[str, float]]:
    """The greatest value that a column of so many digits holds, by its name in capitals."""
    for column in inspect(engine).get_columns(table.name):
        kind = column["type"]
        if isinstance(kind, Numeric) and kind.precision is not None and not isinstance(kind, Double):
            scale = kind.scale or 0
            yield column["name"].upper(), 10.0 ** (kind.precision - scale) - max(1.0, 10.0**-scale)


def _fit(value: object, limit: float | None) -> object:
    """A value as a column takes it: finite, and no greater than it holds."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return 0.0
    return value if limit is None else max(-limit, min(limit, value))
