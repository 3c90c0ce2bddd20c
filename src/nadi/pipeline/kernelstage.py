"""The stateful stage: hands each bucket's fat rows and state token to the kernel in a host and keeps what changed in Spark's state store."""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from nadi.errors import error
from nadi.pipeline.hosting.hostclient import Hosts, hosts
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.fatrows import pack
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.layout import DIRECTORY_KEY, Directory

if TYPE_CHECKING:
    import pandas as pd

OUTPUT = "bk int, meta binary"
FEED_FRAMES = 8
FEEDINGS = 4  # a host may die while it is fed
STORED = ("directory", "writes", "removes", "frames")  # of an answer: done with once it is kept

FRAME_KEY = StructType([StructField("k", LongType(), False)])
FRAME_VALUE = StructType([StructField("v", BinaryType(), False)])


class StoredState:
    """The frames of one bucket in its MapState."""

    def __init__(self, frames: MapState, bucket: int) -> None:
        self._frames = frames
        self._bucket = bucket
        found = frames.getValue((DIRECTORY_KEY,))
        self.directory = Directory() if found is None else Directory.unpack(bytes(found[0]))

    def frames(self) -> Iterator[bytes]:
        """All frames that count, in order. Errors: STATE_FRAMES_DAMAGED."""
        for key in self.directory.live():
            found = self._frames.getValue((key,))
            if found is None:
                raise error("STATE_FRAMES_DAMAGED", bucket=self._bucket, frame=key)
            yield bytes(found[0])

    def keep(self, told: Mapping[str, Any], parts: Sequence[Part]) -> int:
        """Write and remove what the host told, and the directory: bytes that were written."""
        keys = [key for first, end in told["writes"] for key in range(first, end)]
        frames = parts[: len(keys)]
        for key, frame in zip(keys, frames, strict=True):
            self._frames.updateValue((key,), (bytes(frame),))
        for first, end in told["removes"]:
            for key in range(first, end):
                self._frames.removeKey((key,))
        self._frames.updateValue((DIRECTORY_KEY,), (told["directory"],))
        return sum(map(len, frames)) + len(told["directory"])


def process_rows(
    spec: AppSpec, frames: MapState, bucket: int, rows: Iterator[Row], **more: Any
) -> tuple[dict[str, Any], Sequence[Part]]:
    """Take the fat rows of a cut through the kernel of a bucket, keep what changed: (what the host told, its other parts)."""
    heads: list[bytes] = []
    bodies: list[bytes] = []
    for row in rows:
        heads.append(bytes(row.head))
        bodies.append(row.body)
    state = StoredState(frames, bucket)
    head = {"query": query_id(), "bucket": bucket, "heads": heads, **more}
    answer, feeding = ask_kernel(spec, hosts(spec.hosts), state, head, bodies)
    written = state.keep(answer.head, answer.parts)
    told = {name: value for name, value in answer.head.items() if name not in STORED}
    return {**told, "state_written": written, "feeding": feeding}, answer.parts[answer.head["frames"] :]


def ask_kernel(
    spec: AppSpec, ask: Hosts, state: StoredState, head: dict[str, Any], bodies: Sequence[Part]
) -> tuple[Frame, float]:
    """The answer of the kernel of a bucket; its host is fed from the state where it holds another one, and seconds that took."""
    bucket = head["bucket"]
    head = {**head, "op": "process", "directory": state.directory.pack()}
    feeding = 0.0
    for _ in range(FEEDINGS):
        answer = ask.call_app(spec, bucket, head, bodies)
        if answer.head.get("need") != "state":
            return answer, feeding
        begin = time.monotonic()
        head["fed"] = _feed(spec, ask, state, bucket)
        feeding += time.monotonic() - begin
    raise error("HOST_UNAVAILABLE", reason=f"the state of bucket {bucket} could not be handed over", log="host logs")


def _feed(spec: AppSpec, ask: Hosts, state: StoredState, bucket: int) -> str:
    """Hand the state over; the name of this feeding: another task may be handing over the same at the same time."""
    feed = {"op": "feed", "bucket": bucket, "feeding": secrets.token_hex(8)}
    ask.call_app(spec, bucket, {**feed, "first": True})
    part: list[bytes] = []
    for frame in state.frames():
        part.append(frame)
        if len(part) == FEED_FRAMES:
            ask.call_app(spec, bucket, {**feed, "first": False}, part)
            part = []
    if part:
        ask.call_app(spec, bucket, {**feed, "first": False}, part)
    return str(feed["feeding"])


def query_id() -> str:
    """The id of the streaming query that this task belongs to; it stays over restarts."""
    context = TaskContext.get()
    return "" if context is None else str(context.getLocalProperty("sql.streaming.queryId"))


def rows_of(frames: Iterator[pd.DataFrame]) -> Iterator[Any]:
    """The rows of frames, by names."""
    for frame in frames:
        yield from frame.itertuples(index=False)


class KernelStage(StatefulProcessor):
    """For `transformWithState`, keyed by label, time mode None. `labels[bucket]` is the label of a bucket."""

    def __init__(self, spec: AppSpec, labels: Sequence[int]) -> None:
        self._spec = spec
        self._buckets = {label: bucket for bucket, label in enumerate(labels)}
        self._state: MapState | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("frames", FRAME_KEY, FRAME_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        yield Row(bk=int(key[0]), meta=self._processed(key, rows))

    def _processed(self, key: Any, rows: Iterator[Any]) -> bytes:
        assert self._state is not None
        bucket = self._buckets[int(key[0])]
        told, _nothing = process_rows(self._spec, self._state, bucket, rows)
        return pack({**told, "query": query_id(), "bucket": bucket})

    def close(self) -> None:
        """Nothing is held."""


class PandasKernelStage(KernelStage):
    """For `transformWithStateInPandas`: checkpoints that were begun with it know the stage by that name. It takes 2 ms more of a batch."""

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd  # the other stage does without

        yield pd.DataFrame({"bk": [int(key[0])], "meta": [self._processed(key, rows_of(rows))]})
