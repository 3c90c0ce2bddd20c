"""Reading a range of an input in a host: messages → events → the fat rows of each bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.block import bytes_of
from nadi.io.contract import Connector, Log, Messages, Place
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.kernel.contract import ARRIVAL_COLUMNS
from nadi.pipeline.inputs.again import beside, control_take, decoding
from nadi.pipeline.inputs.fatrows import BODY_ROWS, FatRow, pack
from nadi.pipeline.inputs.faults import reentry
from nadi.pipeline.inputs.pieces import Piece, Take, Taken
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.inputs.sends import Send
from nadi.pipeline.inputs.setaside import taken_without
from nadi.pipeline.inputs.splitters import Split
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

Ints = npt.NDArray[np.int64]
ERRORS_PER_ROW = 1_000


@dataclass(frozen=True, slots=True)
class Input:
    """An open input, and how its messages become events. Logs have one user at a time: `lock`."""

    log: Log
    take: Take
    lock: threading.Lock = field(default_factory=threading.Lock)


def open_input(spec: AppSpec, app: App, source: Connector, place: Place | None = None) -> Input:
    """Open an input of an app; `place` is that of the host (None: the node's). Errors: those of the log."""
    log = spec.open_log(source, place)
    if source.type == FAULTS_TYPE:
        return Input(log, reentry(app, spec.buckets))
    if source.type == CONTROL_TYPE:
        return Input(log, control_take(spec, app, source))
    return Input(log, decoding(spec, app, source))


@dataclass(slots=True)
class Read:
    """What a reading has met so far: the least and the greatest log time, bytes, fat rows; where it is `measured`, ns of decoding, messages, and how many of
    these are late: their log time is before that of an earlier one."""

    low: int | None = None
    high: int | None = None
    bytes: int = 0
    sequence: int = field(default=0)
    measured: bool = False
    spent: int = 0
    messages: int = 0
    late: int = 0


def read_range(
    source: Input, wanted: Range, state: Read, brought: Sequence[Messages] | None = None
) -> Iterator[FatRow]:
    """The fat rows of a range, event rows and error rows; `state` has the greatest log time and the bytes when it is over. Where its messages were `brought`,
    the log is not read.

    Errors: those of the log.
    """
    if wanted.end <= wanted.start:
        return
    given = source.log.read(wanted.partition, wanted.start, wanted.end) if brought is None else brought
    for messages in given:
        if not len(messages):
            continue
        running = np.maximum.accumulate(messages.times)
        if state.high is not None:
            running = np.maximum(running, state.high)
        state.high = int(running[-1])
        least = int(messages.times.min())
        state.low = least if state.low is None else min(state.low, least)
        state.bytes += bytes_of(messages.payloads)
        begin = time.perf_counter_ns() if state.measured else 0
        taken = taken_without(source.take, messages, wanted.partition, wanted.aside)
        if state.measured:
            state.spent += time.perf_counter_ns() - begin
            state.messages += len(messages)
            state.late += int(np.count_nonzero(messages.times < running))
        for piece in taken.pieces:
            yield from _event_rows(wanted, piece, messages, running, state)
        yield from _error_rows(wanted, messages, taken)
        for bucket, sends in _by_bucket(taken.sends).items():
            yield FatRow(bucket, {"k": "sends"}, pack(sends))


def _event_rows(wanted: Range, piece: Piece, messages: Messages, running: Ints, state: Read) -> Iterator[FatRow]:
    message, split = piece.message, piece.split
    order = running[message]
    own = piece.stamps is not None  # else they are order times, which later stages may raise
    stamps = order if piece.stamps is None else piece.stamps
    positions = messages.positions[message]
    for bucket in np.unique(split.buckets):
        chosen = np.flatnonzero(split.buckets == bucket)
        for part in _at_messages(chosen, message[split.kept[chosen]]):
            batch = _arrivals(piece.batch, split, part, order, positions, stamps)
            head = {
                "k": "events",
                "i": piece.stream,
                "o": wanted.ordinal,
                "p": wanted.partition,
                "s": wanted.split,
                "q": state.sequence,
                "t": own,
            }
            state.sequence += 1
            yield FatRow(int(bucket), head, batch)


def _at_messages(chosen: Ints, message: Ints) -> Iterator[Ints]:
    """Pieces of about BODY_ROWS events; a message is never cut, for it is one chunk."""
    at = 0
    while at < len(chosen):
        end = min(at + BODY_ROWS, len(chosen))
        end = int(np.searchsorted(message, message[end - 1], side="right"))
        yield chosen[at:end]
        at = end


def _arrivals(
    events: pa.RecordBatch, split: Split, part: Ints, order: Ints, positions: Ints, stamps: Ints
) -> pa.RecordBatch:
    """The events `part` (indices into the split) with their arrival columns."""
    rows = split.kept[part]
    whole = len(rows) == events.num_rows  # kept is ascending, so this is every event in its place
    attributes = events if whole else events.take(pa.array(rows))
    added: list[Any] = [order[rows], positions[rows], split.runs[part], stamps[rows], split.groups[part]]
    if any(column.offset for column in attributes.columns):
        attributes = attributes.take(pa.array(np.arange(len(rows))))  # kernels read buffers from their beginning
    columns = [pa.array(values, f.type) for values, f in zip(added, ARRIVAL_COLUMNS, strict=True)]
    schema = pa.schema([*attributes.schema, *ARRIVAL_COLUMNS])
    return pa.RecordBatch.from_arrays([*attributes.columns, *columns], schema=schema)


def _error_rows(wanted: Range, messages: Messages, taken: Taken) -> Iterator[FatRow]:
    if not taken.failures and not taken.told:
        return
    places = {position: i for i, position in enumerate(messages.positions.tolist())}
    told = [*taken.told]
    for f in taken.failures:
        i = places.get(f.position)
        time = 0 if i is None else int(messages.times[i])
        told.append([wanted.ordinal, wanted.partition, f.position, time, f.reason, f.payload, beside(messages, i)])
    for at in range(0, len(told), ERRORS_PER_ROW):
        yield FatRow(0, {"k": "errors"}, pack(told[at : at + ERRORS_PER_ROW]))


def _by_bucket(sends: Sequence[tuple[int, Send]]) -> dict[int, list[Send]]:
    found: dict[int, list[Send]] = {}
    for bucket, send in sends:
        found.setdefault(bucket, []).append(send)
    return found
