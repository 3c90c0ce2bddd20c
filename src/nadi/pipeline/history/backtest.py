"""An app over history: files as DataFrames, its output streams as Parquet folders, and the difference between two such results.

inputs = {"Trades": history(session, Path("trades.csv"), app.streams["Trades"], "ts")}
backtest(session, text, inputs, ["Alerts"], Path("new"))
difference(session, Path("old/Alerts"), Path("new/Alerts"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nadi.errors import did_you_mean, error
from nadi.pipeline.dataframes import SPARK_TYPES, TIMESTAMP, through_kernels
from nadi.pipeline.engine import plan_app
from nadi.plan.nodes import App, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME = "_nadi_time"
KINDS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
PACKED = (".gz", ".bz2", ".zst")


def history(session: SparkSession, path: Path, stream: Stream, time: str) -> DataFrame:
    """The rows of a file or folder as the stream's attributes, cast to their types, and `TIME` (ms) from the column `time`.

    A CSV file has a header line. JSON lines may be plain objects or have them under "event". Other columns are left out.
    Errors: FILE_MISSING, NOT_SUPPORTED (the ending), COLUMN_MISSING.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kind = kind_of(path)
    reader = session.read.option("header", True) if kind == "csv" else session.read
    frame = reader.format(kind).load(str(path.resolve()))
    if frame.columns == ["event"]:
        frame = frame.select("event.*")
    found = dict(frame.dtypes)
    for name in (*stream.schema.names, time):
        if name not in found:
            raise error("COLUMN_MISSING", stream=stream.key, column=name, hint=did_you_mean(name, found))
    columns = []
    for column in stream.schema.columns:
        value = frame[column.name]
        if found[column.name].startswith(("struct", "array", "map")):
            value = F.to_json(value)
        columns.append(value.cast(SPARK_TYPES[column.type]).alias(column.name))
    return frame.select(*columns, _time(frame, found[time], time).alias(TIME))


def _time(frame: DataFrame, kind: str, name: str) -> Any:
    """A column as ms: whole numbers are ms, timestamps and texts are points in time (texts with a number in them are ms as well)."""
    from pyspark.sql import functions as F  # noqa: N812

    column = frame[name]
    if kind in ("bigint", "int"):
        return column.cast("bigint")
    if kind.startswith(("timestamp", "date")):
        return F.unix_millis(column.cast("timestamp"))
    return F.coalesce(column.try_cast("bigint"), F.unix_millis(column.cast("timestamp")))


def kind_of(path: Path) -> str:
    """What Spark reads a file as, by its ending; a folder by that of its first file. Errors: FILE_MISSING, NOT_SUPPORTED."""
    if not path.exists():
        raise error("FILE_MISSING", path=path)
    named = path
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
        if not inside:
            raise error("FILE_MISSING", path=f"{path}/*")
        named = inside[0]
    ending = Path(named.stem).suffix if named.suffix in PACKED else named.suffix
    if ending not in KINDS:
        wanted = f"give files that end in {', '.join(KINDS)}"
        raise error("NOT_SUPPORTED", what=f"history in '{named.name}'", alternative=wanted)
    return KINDS[ending]


def time_column(app: App, stream: str, given: str) -> str:
    """The column with the time of a stream's events: the given one, or the `event.time` of its source; "" where there is neither."""
    if given:
        return given
    sources = [a for a in app.streams[stream].annotations if a.name.lower() == "source"]
    return next((time for a in sources if (time := a.get("event.time"))), "")


def outputs_of(app: App, inputs: Sequence[str]) -> list[str]:
    """The streams whose rows are the result: those with a sink; where no stream has one, all that are not inputs."""
    sinks = [s.key for s in app.streams.values() if any(a.name.lower() == "sink" for a in s.annotations)]
    return sinks or [key for key in app.streams if key not in inputs and not key.startswith("!")]


def backtest(
    session: SparkSession,
    text: str,
    inputs: Mapping[str, DataFrame],
    outputs: Sequence[str],
    folder: Path,
    kind: str = "parquet",
) -> dict[str, int]:
    """Write what the streams `outputs` give for all of the inputs to `<folder>/<stream>`; -> rows of each.

    Errors: those of the text, STREAM_NOT_DEFINED.
    """
    app = plan_app(text)
    counts = {}
    for stream in outputs:
        rows = through_kernels(session, app, inputs, stream, TIME, None)
        target = folder / stream
        rows.write.mode("overwrite").option("header", True).format(kind).save(str(target.resolve()))
        counts[stream] = (
            session.read.schema(rows.schema).option("header", True).format(kind).load(str(target.resolve())).count()
        )
    return counts


@dataclass(frozen=True, slots=True)
class Difference:
    """How the rows of one stream differ: how many are on both sides, only on the old one, only on the new one; the first of them side by side.

    Each of `first` is (time, row of the old side, row of the new side), "" where a side has none. `columns` says how the columns
    differ, "" where they are the same; then nothing was counted.
    """

    same: int = 0
    old: int = 0
    new: int = 0
    first: tuple[tuple[int, str, str], ...] = ()
    columns: str = ""

    @property
    def equal(self) -> bool:
        return not (self.old or self.new or self.columns)


def difference(session: SparkSession, old: Path, new: Path, shown: int = 10) -> Difference:
    """Compare two Parquet results of a stream, row by row with their times; rows of one time have no order among themselves."""
    before, after = (session.read.parquet(str(path.resolve())) for path in (old, new))
    if before.dtypes != after.dtypes:
        sides = (", ".join(f"{name} {kind}" for name, kind in frame.dtypes) for frame in (before, after))
        return Difference(columns=" and ".join(sides))
    gone, come = before.exceptAll(after), after.exceptAll(before)
    lost, added = gone.count(), come.count()
    first = side_by_side(*(_first(frame, shown) for frame in (gone, come)))
    return Difference(before.count() - lost, lost, added, tuple(first[:shown]))


def _first(frame: DataFrame, count: int) -> list[tuple[int, str]]:
    ordered = frame.orderBy(TIMESTAMP, *(c for c in frame.columns if c != TIMESTAMP)).limit(count).collect()
    rows = [row.asDict() for row in ordered]
    return [(row.pop(TIMESTAMP), json.dumps(row, ensure_ascii=False, default=str)) for row in rows]


def side_by_side(old: Sequence[tuple[int, str]], new: Sequence[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """Rows of two sides by time; those of one time stand beside each other.

    >>> side_by_side([(1, "a"), (2, "b")], [(2, "c"), (2, "d")])
    [(1, 'a', ''), (2, 'b', 'c'), (2, '', 'd')]
    """
    lines = []
    for time in sorted({t for t, _row in (*old, *new)}):
        sides = [[row for t, row in side if t == time] for side in (old, new)]
        lines += [(time, left, right) for left, right in zip_longest(*sides, fillvalue="")]
    return lines
