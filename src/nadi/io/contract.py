"""What sources, sinks and mappers are: one small contract per kind, so that a connector is one file.

Every input is a **log**: an immutable sequence of messages per partition that can be read again from any position. What is not a log by
itself (http, …) has an *ingress* that appends to the journal, which is one.

    source  ──►  Log.read(partition, start, end)  ──►  Messages  ──►  SourceMapper.decode  ──►  Decoded (an Arrow batch)
    kernel  ──►  Arrow batch with numbers  ──►  SinkMapper.encode  ──►  payloads  ──►  Sink.write … Sink.commit

Everything here is used in long-lived host processes; clients are made on first use and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.errors import NOWHERE, Span
from nadi.io.listeners import Listening
from nadi.io.reach import Reach
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node keeps things and finds its services; handed to every connector.

    `state` is the state folder of the app, `journal` the URL of the NATS server that holds the journals, "" where the node has none. `notes` is the path or
    URL where sinks keep what all who write to them must see, where these have no folder in common; "": they have. `reach` is what options of an app may name
    outside. `channels` is where the servers of channels are, by transport. `listening` is what an
    ingress that listens is given. `shared` is the URL of the database where connectors keep what another node must know that goes on with the app ("": it is in
    `state`), `epoch` the run that may change it. `home` is the name by which what the app keeps outside is known, where that is not the app's own.
    """

    app: str
    state: Path
    journal: str = ""
    notes: str = ""
    reach: Reach = field(default_factory=Reach)
    channels: Mapping[str, str] = field(default_factory=dict)
    listening: Listening = field(default_factory=Listening)
    shared: str = ""
    epoch: int = 0
    home: str = ""

    @property
    def identity(self) -> str:
        """Whose rows, journal and transactions these are: one app has another identity after each change that began its numbers anew."""
        return self.home or self.app


@dataclass(frozen=True, slots=True)
class Connector:
    """An @source or @sink of a stream as the app's text has it.

    `type` is lower case; `options` are its elements with lower-case keys; `map` is the nested @map ("passThrough" if there is none); `ordinal` its
    place among all sources (or sinks) of the app, which is part of its identity. `places` is where the options stand in the text.
    """

    stream: str
    schema: Schema
    type: str
    options: Mapping[str, str]
    map: Annotation
    ordinal: int
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def place(self, option: str) -> Span:
        """Where an option stands in the text, NOWHERE where it does not."""
        return self.places.get(option, NOWHERE)

    @property
    def map_type(self) -> str:
        """The lower-case type of the mapper."""
        return (self.map.get("type") or "passThrough").lower()


# ---- inputs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition in order, as arrays of one length n.

    `positions` (int64) and `times` (int64, ms, as the log tells) have n entries. `payloads` has n byte strings, or is a RecordBatch of n
    rows where the log holds typed columns (parquet, channels; rows of one message have one position). `header` names the fields where the log has a
    header line. `properties` are transport properties (headers, topic …) per message, or empty.
    """

    positions: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    payloads: Sequence[bytes] | pa.RecordBatch
    header: tuple[str, ...] = ()
    properties: Sequence[Mapping[str, str]] = ()

    def __len__(self) -> int:
        return len(self.positions)


class Log(Protocol):
    """An input that can be read again. Partitions are numbered from 0 and only ever grow; a position is an int, ends are exclusive.

    Errors: ConnectionUnavailableException where the other side cannot be reached (the caller tries again with back-off); any other NadiError is final.
    """

    def partitions(self) -> int:
        """How many partitions there are now (a cheap call; asked for at every cut)."""
        ...

    def beginning(self, partition: int) -> int:
        """The position to start from when there is no cut yet (as the options say: beginning, end, an offset)."""
        ...

    def end(self, partition: int) -> int:
        """The position after the last message that can be read now. A cheap call; asked for all the time where nobody tells of what comes (`nadi.io.wakes`)."""
        ...

    def finished(self) -> bool:
        """Whether nothing will come any more (finite inputs whose end is known)."""
        ...

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        """The log times of [start, end) where they are known without reading the messages, else None."""
        ...

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        """The messages of [start, end), in pieces of bounded size, the same at every call.

        Positions may have gaps (compacted topics). Raises LOG_TRUNCATED where `start` is no longer held.
        """
        ...

    def acknowledge(self, partition: int, position: int) -> None:
        """Everything before `position` is safely processed: commit a consumer group, trim a journal, or nothing."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class TimedLog(Protocol):
    """A log that knows when its messages came without reading what lies between them."""

    def time_at(self, partition: int, position: int, end: int) -> int | None:
        """The log time of the first message in [position, end); None where there is none."""
        ...

    def later_than(self, partition: int, time: int) -> int | None:
        """The position of the first message that is later than a log time (ms), None where there is none."""
        ...


@runtime_checkable
class ClockedLog(Protocol):
    """A log whose writers say how far they have come: nothing is cut beyond that, so that what comes of it does not depend on who is late."""

    def reached(self, partition: int) -> int | None:
        """What is not there yet has at least this log time (ms), by the last look (`end`); -1 where nothing is known, None where nothing will come any more.

        Never waits, and raises nothing."""
        ...

    def said(self, partition: int) -> int:
        """How far the writer has come by its last word (ms), also where that was that nothing will come any more; -1 where nothing is known."""
        ...


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A message (or one event of it) that no event could be made of."""

    position: int
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events of a stretch of messages.

    `batch` has exactly the columns of the stream's schema (string, int32, int64, float32, float64, bool_; object as string holding JSON).
    `message[i]` is the index (into Messages) of the
    message that event i came from, ascending; events of one message are one chunk. `timestamps[i]` is the event's own time, or the array is None
    where only the log's time is known.
    """

    batch: pa.RecordBatch
    message: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64] | None = None
    failures: tuple[Undecodable, ...] = ()


class SourceMapper(Protocol):
    """Messages → events, a whole stretch at a time. A bad message is a failure in the result, never an exception."""

    def decode(self, messages: Messages) -> Decoded: ...


class Address(Protocol):
    """Where a source listens."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def secure(self) -> bool: ...


class Ingress(Protocol):
    """A server in the node that takes what is not a log and appends it to the journal, started and stopped with the node."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


# ---- outputs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivery:
    """The rows of one output from one bucket in one cut: for the same (output, bucket, cut) always the same rows with the same numbers.

    `batch` has the columns of the schema and `kernel.contract.OUTPUT_COLUMNS`. `payloads` are the encoded chunks, `firsts[i]` the index of the first
    row of payload i. `orders` is the clock at which each row came out (ms, None where nobody knows), `clock` that of the cut, `epoch` that of the run.
    """

    bucket: int
    cut: int
    batch: pa.RecordBatch
    payloads: Sequence[bytes]
    firsts: Sequence[int]
    orders: npt.NDArray[np.int64] | None = None
    clock: int = 0
    epoch: int = 0


class SinkMapper(Protocol):
    """Events → payloads, one per chunk (rows with equal group and chunk number that follow each other)."""

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        """(payloads, index of the first row of each)."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A payload that the target will never take: its index in the delivery, and what the target said."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `write` leaves for `commit`: plain values only; it travels through Spark's driver, without `refused`. Bytes are for the commit only: the
    record of the cut leaves them out.

    `refused` are the payloads that the target did not take and that `on.error` of the sink finds another place for (`nadi.io.sinks.refusals`); for
    the same (bucket, cut) always the same ones, once a `write` has returned.
    """

    bucket: int
    cut: int
    content: Mapping[str, str | int | bytes] = field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()


class Sink(Protocol):
    """A target. `write` runs in a host, once or more often per (bucket, cut); `commit` after all buckets of the cut have written, once or more often.

    Exactly-once sinks make a second call with the same cut have no effect. Errors as for Log.
    """

    def write(self, delivery: Delivery) -> Receipt: ...

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a sink: whether it holds what the replay made (None: it cannot be told), and why."""

    sink: str
    equal: bool | None
    said: str


class ReadBack(Protocol):
    """The comparison of what a sink has written with what a replay makes of the same cuts. `through` is the last cut that it has, -1 where none."""

    through: int

    def note(self, cut: int, bucket: int, batch: pa.RecordBatch, inside: bool) -> None:
        """Take the rows of a bucket in the next cut; `inside` whether they are to be compared or only counted."""
        ...

    def verdict(self) -> Verdict:
        """To be asked when all cuts up to `through` are noted."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Announcing(Protocol):
    """What a `Sink` has besides whose readers are told how far the app has come, whether there are rows or not. All of it is asked in the coordinator.

    Errors: those of the sink; FENCED where a later run has begun.
    """

    @property
    def idle_after(self) -> int:
        """ms without a cut after which `idle` has something to tell."""
        ...

    def begin(self, epoch: int, cuts: tuple[int, int]) -> None:
        """The run `epoch` begins: from now on no earlier one can announce anything. `cuts` are the last one that is committed, and the last that is logged."""
        ...

    def announce(self, cut: int, clock: int, receipts: Sequence[Receipt]) -> None:
        """Instead of `commit`, for each cut: it is done, and its clock is this. Once more with the same is the same."""
        ...

    def idle(self, clock: int) -> None:
        """Nothing has come up to `clock` (ms), and what comes later counts as of then at the earliest."""
        ...

    def finish(self) -> None:
        """Nothing will come any more, until another run begins."""
        ...
