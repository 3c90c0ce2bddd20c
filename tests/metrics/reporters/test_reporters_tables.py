"""The five tables on real databases, made here or by the scripts of others; a database that is away."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import Engine, MetaData, inspect, select, text

from nadi.errors import NadiError
from nadi.metrics.names import MetricName
from nadi.metrics.registry import Registry, Snapshot
from nadi.metrics.reporters import tables
from nadi.metrics.reporters.tables import Cleanup, TablesReporter, tables_of
from nadi.metrics.reservoirs import DecayingReservoir

COMMON = "SOURCE VARCHAR(255) NOT NULL, TIMESTAMP BIGINT NOT NULL, NAME VARCHAR(255) NOT NULL"
LENGTHS = ("MAX", "MEAN", "MIN", "STDDEV", "P50", "P75", "P95", "P98", "P99", "P999")
RATES = ("MEAN_RATE", "M1_RATE", "M5_RATE", "M15_RATE")


def script(number: str) -> list[str]:
    """Statements as a team has run them by hand, for PostgreSQL: sequences in quotes, tables and columns without."""

    def table(kind: str, *columns: str) -> list[str]:
        key = f"ID BIGINT DEFAULT NEXTVAL('\"METRIC_{kind}_seq\"') PRIMARY KEY"
        return [
            f'CREATE SEQUENCE "METRIC_{kind}_seq"',
            f"CREATE TABLE IF NOT EXISTS METRIC_{kind} ({', '.join((key, COMMON, *columns))})",
            f'CREATE INDEX "IDX_TIMESTAMP_{kind}" ON METRIC_{kind} (TIMESTAMP)',
        ]

    def numbers(names: tuple[str, ...]) -> list[str]:
        return [f"{name} {number} NOT NULL" for name in names]

    rate, count = "RATE_UNIT VARCHAR(50) NOT NULL", "COUNT BIGINT NOT NULL"
    return [
        *table("GAUGE", "VALUE VARCHAR(100) NOT NULL"),
        *table("COUNTER", count),
        *table("METER", count, *numbers(RATES), rate),
        *table("HISTOGRAM", count, *numbers(LENGTHS)),
        *table("TIMER", count, *numbers(LENGTHS), *numbers(RATES), rate, "DURATION_UNIT VARCHAR(50) NOT NULL"),
    ]


def snapshot(at: int = 1_700_000_000_000, rate: int = 15) -> Snapshot:
    registry = Registry(lambda now: DecayingReservoir(now, seed=1))
    app = "Orders"
    registry.gauge(MetricName(app, "Tables", "Last", "", "memory"), 800)
    registry.count(MetricName(app, "App", "x", "", "count"), 4)
    registry.mark(MetricName(app, "Sources", "In", "http", "throughput"), rate, 0.0)
    registry.note(MetricName(app, "App", "sizes", "", "size"), [(5.0, 2)], 0.0)
    registry.time(MetricName(app, "Queries", "q" * 300, "", "latency"), [(0.25, 10), (0.75, 10)], 0.0)
    return registry.snapshot(at, 10.0, lambda _name: True, [("jvm.os.system.load.average", 0.5)])


def rows(engine: Engine, kind: str) -> list[dict[str, Any]]:
    table = tables_of(engine.dialect.name)[kind]
    with engine.connect() as connection:
        found = [dict(row) for row in connection.execute(select(table)).mappings()]
    return [{name.upper(): value for name, value in row.items()} for row in found]


def test_a_poll_is_written_with_its_fractions_and_one_time(database: EmptyDatabase):
    reporter = TablesReporter(database.address, "node-1", None)
    reporter.report(snapshot())
    reporter.report(snapshot(1_700_000_060_000))
    reporter.close()
    by_kind = {kind: rows(database.engine, kind) for kind in tables.KINDS}
    assert {kind: len(found) for kind, found in by_kind.items()} == {
        "GAUGE": 4,
        "COUNTER": 2,
        "METER": 2,
        "HISTOGRAM": 2,
        "TIMER": 2,
    }
    for found in by_kind.values():
        assert {row["SOURCE"] for row in found} == {"node-1"}
        assert {row["TIMESTAMP"] for row in found} == {1_700_000_000_000, 1_700_000_060_000}
        assert len({row["ID"] for row in found}) == len(found)
    assert {row["VALUE"] for row in by_kind["GAUGE"]} == {"800", "0.5"}
    meter, timer = by_kind["METER"][0], by_kind["TIMER"][0]
    assert meter["NAME"] == "org.wso2.siddhi.SiddhiApps.Orders.Siddhi.Sources.In.http.throughput"
    assert (meter["COUNT"], float(meter["MEAN_RATE"]), meter["RATE_UNIT"]) == (15, 1.5, "events/second")
    assert (timer["COUNT"], float(timer["MEAN"]), float(timer["MAX"])) == pytest.approx((20, 0.5, 0.75))
    assert (timer["RATE_UNIT"], timer["DURATION_UNIT"]) == ("calls/second", "milliseconds")
    assert len(timer["NAME"]) == 255


@pytest.mark.parametrize(
    ("number", "mean_rate", "mean"),
    [("DECIMAL(10,0)", Decimal(2), Decimal(1)), ("NUMERIC(25,20)", Decimal("1.5"), Decimal("0.5"))],
)
def test_tables_that_a_script_has_made_are_taken_as_they_are(
    database: EmptyDatabase, number: str, mean_rate: Decimal, mean: Decimal
):
    if database.engine.dialect.name != "postgresql":
        pytest.skip("the script is for PostgreSQL")
    with database.engine.begin() as connection:
        for statement in script(number):
            connection.execute(text(statement))
    try:
        reporter = TablesReporter(database.address, "node-1", None)
        reporter.report(snapshot())
        reporter.report(snapshot(rate=10**12))  # more a second than the columns hold
        reporter.close()
        assert inspect(database.engine).get_table_names() != []
        first, second = rows(database.engine, "METER")
        assert first["MEAN_RATE"] == mean_rate
        assert second["COUNT"] == 10**12
        assert second["MEAN_RATE"] == (Decimal(10**10 - 1) if "10" in number else Decimal(99_999))
        assert rows(database.engine, "TIMER")[0]["MEAN"] in (mean, Decimal(0))  # 0.5 may be rounded down
    finally:
        made = MetaData()
        made.reflect(database.engine)
        made.drop_all(database.engine)
        with database.engine.begin() as connection:
            for statement in script(number):
                if found := re.match(r'CREATE SEQUENCE ("\w+")', statement):
                    connection.execute(text(f"DROP SEQUENCE {found[1]}"))


def test_rows_that_are_too_old_are_deleted_every_so_often(database: EmptyDatabase):
    now = [1_700_000_000.0]
    reporter = TablesReporter(database.address, "node-1", Cleanup(days=3, period=3_600), lambda: now[0])
    reporter.report(snapshot(1_700_000_000_000 - 4 * 86_400_000))
    assert rows(database.engine, "METER") == []
    reporter.report(snapshot(1_700_000_000_000 - 4 * 86_400_000))
    assert len(rows(database.engine, "METER")) == 1  # the next cleaning is in an hour
    now[0] += 3_600
    reporter.report(snapshot(1_700_003_600_000))
    assert [row["TIMESTAMP"] for row in rows(database.engine, "METER")] == [1_700_003_600_000]
    reporter.close()


def test_polls_wait_for_a_database_that_is_away_and_no_more_than_some_of_them(
    database: EmptyDatabase, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tables, "KEPT", 3)
    reporter = TablesReporter(database.address, "node-1", None)
    reporter.report(snapshot(1))
    with database.away():
        for at in range(2, 8):
            with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):
                reporter.report(snapshot(at))
    reporter.report(snapshot(8))
    reporter.close()
    assert [row["TIMESTAMP"] for row in rows(database.engine, "METER")] == [1, 6, 7, 8]
