"""The stateful stage: hands each bucket's fat rows and state token to the kernel in a host and keeps what changed in Spark's state store."""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from nadi.errors import error
from nadi.pipeline.fatrows import pack
from nadi.pipeline.frames import DIRECTORY_KEY, Directory
from nadi.pipeline.hostclient import Hosts, hosts
from nadi.pipeline.protocol import Frame, Part
from nadi.pipeline.spec import AppSpec

OUTPUT = "bk int, meta binary"
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
        """All frames by number. Errors: STATE_FRAMES_DAMAGED."""
        for number in range(self.directory.frames):
            found = self._frames.getValue((number,))
            if found is None:
                raise error("STATE_FRAMES_DAMAGED", bucket=self._bucket, frame=number)
            yield bytes(found[0])

    def keep(self, token: str, cut: int, base: bool, frames: Sequence[Part]) -> Directory:
        """Write the frames of a new base (instead of all there is) or of a delta, and the directory."""
        size = sum(map(len, frames))
        if base:
            if self.directory.frames:
                self._frames.clear()
            first, after = 0, self.directory.with_base(token, cut, len(frames), size)
        else:
            first = self.directory.frames
            after = self.directory.with_delta(token, cut, len(frames), size)
        for number, frame in enumerate(frames, first):
            self._frames.updateValue((number,), (bytes(frame),))
        self._frames.updateValue((DIRECTORY_KEY,), (after.pack(),))
        return after


def process_rows(
    spec: AppSpec, frames: MapState, bucket: int, rows: Iterator[pd.DataFrame], **more: Any
) -> tuple[dict[str, Any], Sequence[Part], int]:
    """Take the fat rows of a cut through the kernel of a bucket, keep what changed: (what the host told, its other parts, bytes of state)."""
    heads, bodies = fat_rows(rows)
    state = StoredState(frames, bucket)
    head = {"query": query_id(), "bucket": bucket, "heads": heads, **more}
    answer = ask_kernel(spec, hosts(spec.hosts), state, head, bodies)
    told, kept = answer.head, answer.head["frames"]
    after = state.keep(told["token"], told["cut"], told["base"], answer.parts[:kept])
    return told, answer.parts[kept:], after.bytes


def ask_kernel(spec: AppSpec, ask: Hosts, state: StoredState, head: dict[str, Any], bodies: Sequence[Part]) -> Frame:
    """The answer of the kernel of a bucket; its host is fed from the state where it holds another one."""
    bucket = head["bucket"]
    head = {**head, "op": "process", "directory": state.directory.pack()}
    for _ in range(FEEDINGS):
        answer = ask.call_app(spec, bucket, head, bodies)
        if answer.head.get("need") != "state":
            return answer
        _feed(spec, ask, state, head)
    raise error("HOST_UNAVAILABLE", reason=f"the state of bucket {bucket} could not be handed over", log="host logs")


def _feed(spec: AppSpec, ask: Hosts, state: StoredState, head: dict[str, Any]) -> None:
    place = {"op": "feed", "query": head["query"], "bucket": head["bucket"], "token": state.directory.token}
    ask.call_app(spec, head["bucket"], {**place, "first": True}, [])
    part: list[bytes] = []
    for frame in state.frames():
        part.append(frame)
        if len(part) == FEED_FRAMES:
            ask.call_app(spec, head["bucket"], {**place, "first": False}, part)
            part = []
    if part:
        ask.call_app(spec, head["bucket"], {**place, "first": False}, part)


def query_id() -> str:
    """The id of the streaming query that this task belongs to; it stays over restarts."""
    context = TaskContext.get()
    return "" if context is None else str(context.getLocalProperty("sql.streaming.queryId"))


def fat_rows(rows: Iterator[pd.DataFrame]) -> tuple[list[bytes], list[bytes]]:
    """(heads, bodies) of all rows."""
    heads: list[bytes] = []
    bodies: list[bytes] = []
    for frame in rows:
        heads.extend(bytes(x) for x in frame["head"])
        bodies.extend(frame["body"])
    return heads, bodies


class KernelStage(StatefulProcessor):
    """For `transformWithStateInPandas`, keyed by label, time mode None. `labels[bucket]` is the label of a bucket."""

    def __init__(self, spec: AppSpec, labels: Sequence[int]) -> None:
        self._spec = spec
        self._buckets = {label: bucket for bucket, label in enumerate(labels)}
        self._state: MapState | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("frames", FRAME_KEY, FRAME_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        assert self._state is not None
        bucket = self._buckets[int(key[0])]
        told, _nothing, size = process_rows(self._spec, self._state, bucket, rows)
        meta = {**told, "query": query_id(), "bucket": bucket, "state_bytes": size}
        yield pd.DataFrame({"bk": [int(key[0])], "meta": [pack(meta)]})

    def close(self) -> None:
        """Nothing is held."""
