"""Fat rows: what travels from the readers through Spark's shuffle to the kernels, a few rows per task and bucket instead of one per event.

Columns `bk` (int, the label of the bucket), `head` (MessagePack map), `body` (bytes). By `head["k"]`:

- `"clock"`: one per task and bucket, so that the timers of a quiet bucket fire: `n`, `clock`, `started`, and `ranges`, what the task has read: `[ordinal,
  partition, split, high before the cut or None, greatest log time or None]`, and `bytes` decoded; where something is measured, `level` says what, and `reads`
  has what reading told: `[ordinal, ns of decoding, messages, late messages]`;
- `"events"`: `i` the stream (absent: that of the ordinal), `o` ordinal, `p` partition, `s` split, `q` number within the split; `t` whether `__ts` is the
  events' own time (else it is the order time, known only where the splits meet); `at` where the events stay in a host
  (`nadi.pipeline.executor.handover`). Body, unless there is `at`: an Arrow IPC stream with the stream's attributes and
  ARRIVAL_COLUMNS, where `__order` is the running maximum of log times within the split.
- `"errors"`: body: MessagePack list of `[ordinal, partition, position, time, reason, payload, beside]` of undecodable messages; `beside` is a map with
  what else the log told of the message (`header`, `properties`), or why it cannot be sent again (`final`).
- `"sends"`: body: MessagePack list of `nadi.pipeline.inputs.sends.Send`, what goes to sinks of this bucket once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from nadi.kernel.contract import ORDER, TS, ArrivalBatch
from nadi.pipeline.cutting.cuts import Place
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.inputs.sends import Send

SCHEMA = "bk int, head binary, body binary"
ARROW = pa.schema([("bk", pa.int32()), ("head", pa.binary()), ("body", pa.binary())])
BODY_ROWS = 50_000

pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode
_SENDS = msgspec.msgpack.Decoder(list[Send])


Body: TypeAlias = Part | pa.RecordBatch
"""Within a host events need no bytes."""


@dataclass(frozen=True, slots=True)
class FatRow:
    """One fat row for bucket `bucket`; `head` is unpacked."""

    bucket: int
    head: dict[str, Any]
    body: Body = b""


def to_ipc(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_ipc(body: Body) -> pa.RecordBatch:
    """The one batch of an Arrow IPC stream, or the batch itself."""
    if isinstance(body, pa.RecordBatch):
        return body
    return pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()


def to_arrow(rows: Iterable[tuple[int, bytes, Part]]) -> pa.RecordBatch:
    """(label, packed head, body) as one batch for Spark."""
    listed = list(rows)
    columns = [
        pa.array([r[0] for r in listed], pa.int32()),
        pa.array([r[1] for r in listed], pa.binary()),
        pa.array([pa.py_buffer(r[2]) for r in listed], pa.binary())
        if not listed
        else pa.array([bytes(r[2]) for r in listed], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


@dataclass(slots=True)
class Gathered:
    """The rows of one bucket in one cut, put together: what the kernel is given.

    `highs` are the running maxima of log times after the cut. `errors` and `reads` are as in the rows; `level` is what is measured.
    """

    n: int
    clock: int
    started: int
    arrivals: list[ArrivalBatch] = field(default_factory=list)
    highs: dict[Place, int] = field(default_factory=dict)
    errors: list[list[Any]] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    level: int = 0
    careful: bool = False
    aside: int = 0
    reads: list[list[int]] = field(default_factory=list)


def gather(rows: Sequence[tuple[Mapping[str, Any], Body]], streams: Mapping[int, str]) -> Gathered:
    """Put (head, body) rows of one bucket together, in any order; `streams` is the stream of each ordinal.

    Raises ValueError without a clock row: every cut has one for every bucket.
    """
    clocks = [head for head, _ in rows if head["k"] == "clock"]
    if not clocks:
        raise ValueError("no clock row among the fat rows")
    found = Gathered(max(c["n"] for c in clocks), max(c["clock"] for c in clocks), min(c["started"] for c in clocks))
    found.bytes = sum(c.get("bytes", 0) for c in clocks)
    found.careful = any(c.get("careful", False) for c in clocks)
    found.aside = max(c.get("aside", 0) for c in clocks)
    found.level = max(c.get("level", 0) for c in clocks)
    found.reads = [told for c in clocks for told in c.get("reads", ())]
    carried = _carry(clocks, found.highs)
    events = [(head, body) for head, body in rows if head["k"] == "events"]
    for head, body in sorted(events, key=lambda e: (e[0]["o"], e[0]["p"], e[0]["s"], e[0]["q"])):
        ordinal, partition = head["o"], head["p"]
        batch = _in_order(from_ipc(body), carried.get((ordinal, partition, head["s"])), found.clock, head["t"])
        stream = head["i"] if "i" in head else streams[ordinal]
        found.arrivals.append(ArrivalBatch(stream, ordinal, partition, batch))
        found.events[stream] = found.events.get(stream, 0) + batch.num_rows
    for head, body in rows:
        if head["k"] == "errors":
            found.errors.extend(unpack(body))
        elif head["k"] == "sends":
            found.sends.extend(_SENDS.decode(body))
    found.errors.sort(key=lambda e: e[:4])
    found.sends.sort(key=lambda s: s.position)
    return found


def _carry(clocks: Sequence[Mapping[str, Any]], highs: dict[Place, int]) -> dict[tuple[int, int, int], int]:
    """The running maximum before each split, by (ordinal, partition, split); those after the last ones go into `highs`."""
    carried: dict[tuple[int, int, int], int] = {}
    ranges = sorted((tuple(r) for c in clocks for r in c["ranges"]), key=lambda r: r[:3])
    for ordinal, partition, split, before, high in ranges:
        place = (ordinal, partition)
        if place not in highs and before is not None:
            highs[place] = before
        if place in highs:
            carried[(ordinal, partition, split)] = highs[place]
        if high is not None:
            highs[place] = max(high, highs.get(place, high))
    return carried


def _in_order(batch: pa.RecordBatch, before: int | None, clock: int, own_time: bool) -> pa.RecordBatch:
    order = batch.column(batch.schema.get_field_index(ORDER)).to_numpy()
    if before is not None:
        order = np.maximum(order, before)
    capped = pa.array(np.minimum(order, clock), pa.int64())
    names = (ORDER,) if own_time else (ORDER, TS)
    columns = [capped if name in names else batch.column(i) for i, name in enumerate(batch.schema.names)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
