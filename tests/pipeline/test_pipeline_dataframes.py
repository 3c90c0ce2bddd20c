"""The public middle: DataFrames in, typed DataFrames out, on Spark."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

import nadi
from nadi.errors import NadiError

pytestmark = [pytest.mark.spark]

APP = """
define stream In (symbol string, price double);
define stream Limits (symbol string, price int);
from In#window.length(2) select symbol, sum(price) as total, count() as n insert into Out;
partition with (symbol of In)
begin
    from every e1=In -> e2=In[price > e1.price] select e1.symbol as symbol, e1.price as low, e2.price as high insert into Rises;
end;
from In join Limits#window.length(1) on In.symbol == Limits.symbol select In.symbol as symbol, Limits.price as `limit` insert into Joined;
"""
ROWS = [("a", 1.0, 1000), ("b", 5.0, 2000), ("a", 2.0, 3000), ("b", 4.0, 4000), ("a", 3.0, 5000)]


def test_a_batch_frame_is_taken_in_order_of_its_timestamps(spark):
    frame = spark.createDataFrame(list(reversed(ROWS)), "symbol string, price double, t long").repartition(3)
    found = nadi.App(APP).stream(spark, {"In": frame}, "Out", "t").collect()
    assert [tuple(r) for r in found] == [
        ("a", 1.0, 1, 1000),
        ("b", 6.0, 2, 2000),
        ("a", 7.0, 2, 3000),
        ("b", 6.0, 2, 4000),
        ("a", 7.0, 2, 5000),
    ]


def test_timestamps_may_be_of_the_type_timestamp_and_several_frames_go_in(spark):
    def at(second: int) -> datetime.datetime:
        return datetime.datetime(2024, 1, 1, 0, 0, second, tzinfo=datetime.UTC)

    limits = spark.createDataFrame([("a", 7, at(1))], "symbol string, price smallint, t timestamp")
    trades = spark.createDataFrame([("a", 1.0, at(0)), ("a", 2.0, at(2))], "symbol string, price double, t timestamp")
    found = nadi.App(APP).stream(spark, {"In": trades, "Limits": limits}, "Joined", "t").collect()
    assert [tuple(r) for r in found] == [("a", 7, int(at(2).timestamp() * 1000))]


def test_a_streaming_frame_keeps_its_state_from_batch_to_batch_and_over_a_restart(spark, tmp_path: Path):
    (tmp_path / "in").mkdir()
    app = nadi.App(APP)
    found: list[tuple[object, ...]] = []

    def put(name: str, rows: list[tuple[str, float, int]]) -> None:
        text = "".join(f'{{"symbol": "{s}", "price": {p}, "t": {t}}}\n' for s, p, t in rows)
        (tmp_path / f"{name}.new").write_text(text)
        (tmp_path / f"{name}.new").rename(tmp_path / "in" / name)

    def run() -> None:
        frame = spark.readStream.schema("symbol string, price double, t long").json(str(tmp_path / "in"))
        rises = app.stream(spark, {"In": frame}, output="Rises", timestamp="t")
        query = (
            rises.writeStream.foreachBatch(lambda df, _n: found.extend(tuple(r) for r in df.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
        query.stop()

    put("1.json", ROWS[:2])
    run()
    assert found == []
    put("2.json", ROWS[2:])
    run()
    assert found == [("a", 1.0, 2.0, 3000), ("a", 2.0, 3.0, 5000)]


def test_what_does_not_fit_is_named(spark):
    app = nadi.App(APP)
    good = spark.createDataFrame([("a", 1.0)], "symbol string, price double")

    def condition(**changes: object) -> str:
        arguments = {"inputs": {"In": good}, "output": "Out", "timestamp": None, **changes}
        with pytest.raises(NadiError) as caught:
            app.stream(spark, **arguments)
        return caught.value.condition

    assert condition(output="Owt") == "STREAM_NOT_DEFINED"
    assert condition(inputs={"Inn": good}) == "STREAM_NOT_DEFINED"
    assert condition(inputs={"In": good.drop("price")}) == "COLUMN_MISSING"
    assert condition(inputs={"In": good.withColumn("price", good.symbol)}) == "COLUMN_TYPE"
    assert condition(timestamp="t") == "COLUMN_MISSING"
    assert condition(timestamp="symbol") == "COLUMN_TYPE"
    rate = spark.readStream.format("rate").load()
    assert condition(inputs={"In": good, "Limits": rate}) == "FRAMES_MIXED"
