"""Messages that are set aside: hosts died of them, so no event is made of them. They go where messages go of which no event can be made.

Which ones these are stands in the cut, so a replay and a fail-over set aside the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Messages, Undecodable
from nadi.pipeline.inputs.pieces import Decoding, Ints, Take, Taken

REASON = "[EVENT_SET_ASIDE] its host died of it again and again"
_JSON = msgspec.json.Encoder(enc_hook=str).encode


def taken_without(take: Take, messages: Messages, partition: int, aside: Collection[int]) -> Taken:
    """What is made of a stretch of messages; those at the positions `aside` are failures, which the fault stream gets where the source has one."""
    away = np.isin(messages.positions, np.array(sorted(aside), np.int64))
    if not away.any():
        return take(messages, partition)
    kept = np.flatnonzero(~away)
    failures = tuple(
        Undecodable(int(messages.positions[i]), REASON, _payload(messages, i)) for i in _firsts(messages, away)
    )
    rest = take(_chosen(messages, kept), partition) if len(kept) else Taken(())
    pieces = [replace(piece, message=kept[piece.message]) for piece in rest.pieces]
    if isinstance(take, Decoding) and take.faults is not None:
        return replace(rest, pieces=[*pieces, take.faults(messages, partition, failures)])
    return replace(rest, pieces=pieces, failures=(*rest.failures, *failures))


def _firsts(messages: Messages, away: npt.NDArray[np.bool_]) -> list[int]:
    """The first row of each message: rows of typed columns may be several of one message."""
    _, firsts = np.unique(messages.positions[away], return_index=True)
    return [int(i) for i in np.flatnonzero(away)[firsts]]


def _payload(messages: Messages, i: int) -> bytes:
    if not isinstance(messages.payloads, pa.RecordBatch):
        return bytes(messages.payloads[i])
    of = np.flatnonzero(messages.positions == messages.positions[i])
    return _JSON(messages.payloads.take(pa.array(of)).to_pylist())


def _chosen(messages: Messages, at: Ints) -> Messages:
    payloads = messages.payloads
    some = payloads.take(pa.array(at)) if isinstance(payloads, pa.RecordBatch) else [payloads[i] for i in at]
    properties = [messages.properties[i] for i in at] if messages.properties else ()
    return replace(
        messages, positions=messages.positions[at], times=messages.times[at], payloads=some, properties=properties
    )
