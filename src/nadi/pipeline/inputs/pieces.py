"""From messages of an input to events of streams, spread over the buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Messages, SourceMapper, Undecodable
from nadi.pipeline.inputs.sends import Send
from nadi.pipeline.inputs.splitters import Split, Splitter

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Events of one stream out of a stretch of messages.

    `batch` has the attributes of the stream, `message` the index of each event's message, `stamps` the events' own times (ms; None: those of the log),
    `split` where they go.
    """

    stream: str
    batch: pa.RecordBatch
    message: Ints
    stamps: Ints | None
    split: Split


@dataclass(frozen=True, slots=True)
class Taken:
    """What is made of a stretch of messages: events, and what goes to the error store.

    `told` are rows for the error store as fat rows have them, of messages that came from elsewhere before; `sends` what goes to sinks once more, with
    the bucket that does it.
    """

    pieces: Sequence[Piece]
    failures: tuple[Undecodable, ...] = ()
    told: tuple[list[Any], ...] = ()
    sends: tuple[tuple[int, Send], ...] = ()


Take = Callable[[Messages, int], Taken]
"""(messages, input partition) → what they are."""
FaultEvents = Callable[[Messages, int, Sequence[Undecodable]], Piece]
"""(messages, input partition, those of which no event could be made) → events of the fault stream."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """The messages of a source; `faults` makes events of undecodable ones, None where they go to the error store."""

    stream: str
    mapper: SourceMapper
    split: Splitter
    faults: FaultEvents | None = None

    def __call__(self, messages: Messages, partition: int) -> Taken:
        decoded = self.mapper.decode(messages)
        pieces = []
        if decoded.batch.num_rows:
            message = np.asarray(decoded.message, np.int64)
            stamps = None if decoded.timestamps is None else np.asarray(decoded.timestamps, np.int64)
            pieces.append(
                Piece(self.stream, decoded.batch, message, stamps, self.split(decoded.batch, message, partition))
            )
        if self.faults is None or not decoded.failures:
            return Taken(pieces, decoded.failures)
        return Taken([*pieces, self.faults(messages, partition, decoded.failures)])
