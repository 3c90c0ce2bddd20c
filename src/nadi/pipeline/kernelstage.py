"""The stateful stage of a query over DataFrames: hands each bucket's fat rows and state token to the kernel in a host and keeps what changed in Spark's
state store."""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from nadi.errors import error
from nadi.pipeline.hosting.hostclient import Hosts, hosts
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.layout import DIRECTORY_KEY, Directory

if TYPE_CHECKING:
    import pandas as pd

FEED_FRAMES = 8
FEEDINGS = 4  # a host may die while it is fed

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

    def keep(self, told: Mapping[str, Any], parts: Sequence[Part]) -> None:
        """Write and remove what the host told, and the directory."""
        keys = [key for first, end in told["writes"] for key in range(first, end)]
        for key, frame in zip(keys, parts[: len(keys)], strict=True):
            self._frames.updateValue((key,), (bytes(frame),))
        for first, end in told["removes"]:
            for key in range(first, end):
                self._frames.removeKey((key,))
        self._frames.updateValue((DIRECTORY_KEY,), (told["directory"],))


def process_rows(
    spec: AppSpec, frames: MapState, bucket: int, rows: Iterator[Row], streams: Mapping[str, str], want: Sequence[str]
) -> tuple[dict[str, Any], Sequence[Part]]:
    """Take the fat rows of a cut through the kernel of a bucket, keep what changed: (what the host told, rows of the streams that are wanted).

    `streams` names the inputs by ordinal.
    """
    heads: list[bytes] = []
    bodies: list[bytes] = []
    for row in rows:
        heads.append(bytes(row.head))
        bodies.append(row.body)
    state = StoredState(frames, bucket)
    head = {"query": query_id(), "bucket": bucket, "heads": heads, "streams": streams, "want": want}
    answer = ask_kernel(spec, hosts(spec.hosts), state, head, bodies)
    state.keep(answer.head, answer.parts)
    return answer.head, answer.parts[answer.head["frames"] :]


def ask_kernel(spec: AppSpec, ask: Hosts, state: StoredState, head: dict[str, Any], bodies: Sequence[Part]) -> Frame:
    """The answer of the kernel of a bucket; its host is fed from the state where it holds another one."""
    bucket = head["bucket"]
    head = {**head, "op": "process", "directory": state.directory.pack()}
    for _ in range(FEEDINGS):
        answer = ask.call_app(spec, bucket, head, bodies)
        if answer.head.get("need") != "state":
            return answer
        head["fed"] = _feed(spec, ask, state, bucket)
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
