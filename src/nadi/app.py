"""Siddhi apps on DataFrames: what PySpark users need.

import nadi

app = nadi.App('''
    define stream Trades (symbol string, price double);
    from Trades#window.length(3) select symbol, avg(price) as mean group by symbol having mean > 100.0 insert into Alerts;
''')
alerts = app.stream(spark, {"Trades": trades}, output="Alerts", timestamp="time")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nadi.pipeline.engine import plan_app

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class App:
    """A Siddhi app, checked.

    Raises:
        NadiError: the text is not SiddhiQL (SiddhiParserException) or makes no app; the first error, with its place.

    >>> App("define stream In (n int); from In[n > 1] select n insert into Out;").streams
    ('In', 'Out')
    """

    def __init__(self, text: str) -> None:
        self._plan = plan_app(text)

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def streams(self) -> tuple[str, ...]:
        """The names that `stream` knows: streams that the text defines or makes."""
        return tuple(self._plan.streams)

    def stream(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame],
        output: str,
        timestamp: str | None = None,
        buckets: int | None = None,
    ) -> DataFrame:
        """The rows of the stream `output`, given rows for some streams of the app.

        Args:
            spark: the session of the DataFrames.
            inputs: a DataFrame per input stream, all streaming or all batch. It must have the stream's attributes by name and type
                (narrower numbers are widened); further columns are ignored.
            output: a stream of the app. Its columns come typed, with `_timestamp` (long, ms) after them.
            timestamp: a column that every DataFrame has, long (ms) or timestamp: the events' own time. The app's clock is then virtual: the
                latest timestamp so far moves it and fires timers. Without it events have the time of their batch.
            buckets: how many kernels share the keys of an app that can be sharded; as many as Spark has slots by default, one
                where the app cannot be sharded.

        Events of a batch are processed by (timestamp, order of `inputs`, order of rows). Timers fire when a batch moves the clock past them, not in
        between. A streaming DataFrame keeps its state in Spark's checkpoint and needs Spark's RocksDB state store, which is switched on for
        the session. Events that a query cannot process are dropped with a warning in the log of the worker.

        Raises:
            NadiError: STREAM_NOT_DEFINED, COLUMN_MISSING, COLUMN_TYPE, FRAMES_MIXED, before anything runs.
        """
        from nadi.pipeline.dataframes import through_kernels

        return through_kernels(spark, self._plan, inputs, output, timestamp, buckets)
