"""Reading all inputs of an app as one stream, whose offset is the cut: what the data source of a query (`source`) gives Spark."""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.inputs.fatrows import to_arrow
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from nadi.pipeline.cutting.cutmaker import CutMaker

SPLIT = 20_000  # messages; smaller pieces are not worth a task of their own
BATCH_BYTES = 4_000_000


class ReadTask(InputPartition):
    """What one Spark task reads: ranges of a cut, through one host."""

    def __init__(self, host: int, n: int, clock: int, started: int, ranges: Sequence[Range]) -> None:
        self.host = host
        self.n = n
        self.clock = clock
        self.started = started
        self.ranges = tuple(ranges)
        super().__init__((host, n))


def plan_tasks(
    start: Cut, end: Cut, hosts_count: int, inputs: Collection[int] = (), parted: Collection[int] = ()
) -> list[ReadTask]:
    """The tasks that read `end`; none where it is `start`. There is at least one otherwise: it brings the clock rows.

    `inputs` are the numbers of the inputs that the app has (empty: all that the cut has); a restore may have let go of others. `parted` are those of
    which hosts may read parts side by side. Any other partition is always read by the same host, which goes on where it stopped: a Kafka consumer that
    is set to another place throws away what it has fetched, and begins anew within 20 ms to a second.
    """
    if end.n == start.n:
        return []
    ranges = [
        Range(ordinal, partition, begin, stop, 0, end.highs.get((ordinal, partition)))
        for (ordinal, partition), stop in sorted(end.ends.items())
        if (begin := end.start_of((ordinal, partition), start)) < stop and (not inputs or ordinal in inputs)
    ]
    total = sum(r.end - r.start for r in ranges)
    if total < 2 * SPLIT:
        return [ReadTask(0, end.n, end.clock, end.started, ranges)]
    homes: dict[int, list[Range]] = {}
    for r in ranges:
        for host, piece in _pieces(r, hosts_count, hosts_count if r.ordinal in parted else 1):
            homes.setdefault(host, []).append(piece)
    return [ReadTask(host, end.n, end.clock, end.started, pieces) for host, pieces in sorted(homes.items())]


def _pieces(whole: Range, hosts_count: int, most: int) -> Iterator[tuple[int, Range]]:
    """A range cut into at most so many pieces for several hosts where it is large."""
    size = whole.end - whole.start
    count = min(most, max(1, size // SPLIT))
    home = whole.ordinal + whole.partition
    for i in range(count):
        start, end = whole.start + size * i // count, whole.start + size * (i + 1) // count
        yield (home + i) % hosts_count, Range(whole.ordinal, whole.partition, start, end, i, whole.high)


class AppReader(DataSourceStreamReader):
    """Driver side: cuts. In tasks, on a pickled copy: reading."""

    def __init__(self, spec: AppSpec) -> None:
        self._spec = spec
        self._cutting: CutMaker | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_spec": self._spec, "_cutting": None}

    @property
    def _maker(self) -> CutMaker:
        if self._cutting is None:
            from nadi.pipeline.cutting.cutmaker import (
                CutMaker,  # half a dozen processes plan a query, and one makes cuts
            )

            self._cutting = CutMaker(self._spec)
        return self._cutting

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark passes it back; the bounds that count are in the spec."""
        return ReadMaxRows(self._spec.max_events) if self._spec.max_events > 0 else ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._maker.initial().to_offset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        unlimited = isinstance(limit, ReadAllAvailable)
        return self._maker.latest(Cut.from_offset(start), unlimited).to_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        inputs, parted = self._spec.inputs.values(), self._spec.parted
        return plan_tasks(Cut.from_offset(start), Cut.from_offset(end), self._spec.hosts, inputs, parted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        names = self._spec.labels
        head: dict[str, Any] = {
            "op": "read",
            "n": partition.n,
            "clock": partition.clock,
            "started": partition.started,
            "ranges": [r.plain() for r in partition.ranges],
        }
        if self._spec.handover >= 0:
            head["task"] = partition.host
        rows: list[tuple[int, bytes, Part]] = []
        size = 0
        for frame in hosts(self._spec.hosts).stream_app(self._spec, partition.host, head):
            rows.append((names[frame.head["bucket"]], bytes(frame.parts[0]), frame.parts[1]))
            size += len(frame.parts[1])
            if size > BATCH_BYTES:
                yield to_arrow(rows)
                rows, size = [], 0
        if rows:
            yield to_arrow(rows)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes a batch late. `CutMaker.latest` acknowledges."""

    def stop(self) -> None:
        if self._cutting is not None:
            self._cutting.close()
