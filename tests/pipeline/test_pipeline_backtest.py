"""An app over history: files of every kind give the same rows, and two results are compared row by row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nadi.errors import NadiError
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.backtest import backtest, difference, history, kind_of, outputs_of, time_column

APP = """
define stream Trades (symbol string, price double, size int);
partition with (symbol of Trades) begin
    from Trades#window.length(2) select symbol, sum(price) as total, count() as n insert into Totals;
end;
"""
ROWS = [(1_000, "a", 1.5, 1), (2_000, "b", 2.0, 2), (3_000, "a", 4.0, 3), (4_000, "a", 8.25, 4)]
TOTALS = [("a", 1.5, 1, 1_000), ("a", 5.5, 2, 3_000), ("a", 12.25, 2, 4_000), ("b", 2.0, 1, 2_000)]
NAMES = ("ts", "symbol", "price", "size")


def as_csv(path: Path, time: Any = int) -> Path:
    lines = [",".join(NAMES), *(f"{time(ts)},{symbol},{price},{size}" for ts, symbol, price, size in ROWS)]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_json(path: Path, event: bool = False) -> Path:
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    text = "".join(json.dumps({"event": row} if event else row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def as_parquet(path: Path, time: pa.DataType) -> Path:
    columns = [pa.array(values) for values in zip(*ROWS, strict=True)]
    columns[0] = columns[0].cast(time)
    pq.write_table(pa.Table.from_arrays(columns, names=list(NAMES)), path)
    return path


WRITERS = {
    "csv": lambda folder: as_csv(folder / "t.csv"),
    "csv with dates": lambda folder: as_csv(folder / "t.csv", lambda ts: f"1970-01-01T00:00:0{ts // 1000}Z"),
    "json": lambda folder: as_json(folder / "t.jsonl"),
    "packed json": lambda folder: as_json(folder / "t.jsonl.gz"),
    "json events": lambda folder: as_json(folder / "t.json", event=True),
    "parquet": lambda folder: as_parquet(folder / "t.parquet", pa.int64()),
    "parquet with timestamps": lambda folder: as_parquet(folder / "t.parquet", pa.timestamp("ms", "UTC")),
    "folder": lambda folder: as_csv(folder / "part-0.csv").parent,
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", WRITERS)
def test_history_of_every_kind_gives_the_same_rows(spark, tmp_path: Path, kind: str):
    (tmp_path / "in").mkdir()
    frame = history(spark, WRITERS[kind](tmp_path / "in"), plan_app(APP).streams["Trades"], "ts")
    assert backtest(spark, APP, {"Trades": frame}, ["Totals"], tmp_path / "out") == {"Totals": 4}
    rows = pq.read_table(tmp_path / "out" / "Totals").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == TOTALS


@pytest.mark.spark
def test_a_column_that_is_missing_is_named_before_anything_runs(spark, tmp_path: Path):
    path = as_csv(tmp_path / "t.csv")
    with pytest.raises(NadiError, match=r"COLUMN_MISSING.*'time'"):
        history(spark, path, plan_app(APP).streams["Trades"], "time")


@pytest.mark.spark
def test_two_results_are_compared_row_by_row(spark, tmp_path: Path):
    frame = history(spark, as_csv(tmp_path / "t.csv"), plan_app(APP).streams["Trades"], "ts")
    backtest(spark, APP, {"Trades": frame}, ["Totals"], tmp_path / "old")
    backtest(spark, APP.replace("length(2)", "length(3)"), {"Trades": frame}, ["Totals"], tmp_path / "new")
    backtest(spark, APP.replace("count() as n", "count() as m"), {"Trades": frame}, ["Totals"], tmp_path / "other")
    old, new, other = (tmp_path / name / "Totals" for name in ("old", "new", "other"))
    assert difference(spark, old, old).equal
    found = difference(spark, old, new)
    assert (found.same, found.old, found.new, found.equal) == (3, 1, 1, False)
    row = '{"symbol": "a", "total": %s, "n": %s}'
    assert found.first == ((4_000, row % (12.25, 2), row % (13.75, 3)),)
    assert "m bigint" in difference(spark, old, other).columns


def test_what_a_file_is_is_told_by_its_ending(tmp_path: Path):
    for name, kind in {"a.csv": "csv", "a.json.gz": "json", "b.ndjson": "json", "c.parquet": "parquet"}.items():
        (tmp_path / name).touch()
        assert kind_of(tmp_path / name) == kind
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(NadiError, match=r"NOT_SUPPORTED.*a\.xlsx"):
        kind_of(tmp_path / "a.xlsx")
    with pytest.raises(NadiError, match="FILE_MISSING"):
        kind_of(tmp_path / "nothing.csv")


def test_the_outputs_are_the_streams_with_a_sink_or_all_that_are_no_inputs():
    app = plan_app(APP)
    assert outputs_of(app, ["Trades"]) == ["Totals"]
    sunk = APP.replace("define", "@sink(type='log') define stream Loud (symbol string); define", 1)
    assert outputs_of(plan_app(sunk), ["Trades"]) == ["Loud"]


def test_the_time_is_the_given_column_or_that_of_the_source():
    app = plan_app(
        APP.replace("define", "@source(type='file', file.uri='x', event.time='at', @map(type='json')) define", 1)
    )
    assert time_column(app, "Trades", "") == "at"
    assert time_column(app, "Trades", "ts") == "ts"
    assert time_column(plan_app(APP), "Trades", "") == ""
