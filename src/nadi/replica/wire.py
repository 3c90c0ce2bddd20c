"""What goes over the Unix socket between writers and the node's event sync.

A frame is the length of its body (4 bytes), its kind (1 byte), the number of the writer's record (8 bytes), and the body. Writers count their records
themselves: the number is what `prepare` returns, and means something on one connection only.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgspec

from nadi.errors import NadiError, error
from nadi.errors.catalogue import conditions
from nadi.replica.contract import Record

HEAD = struct.Struct("!IBQ")
LARGEST = 64 * 1024 * 1024  # bytes of a body


class Kind(IntEnum):
    """From writers: PREPARE with a record, CONFIRM, ABANDON. To them: PREPARED, FAILED with a condition and its parameters."""

    PREPARE = 1
    CONFIRM = 2
    ABANDON = 3
    PREPARED = 4
    FAILED = 5


class Misused(Exception):
    """The other end sends what no frame is."""


def head(kind: Kind, number: int, body: bytes = b"") -> bytes:
    """What stands before a body."""
    return HEAD.pack(len(body), kind, number)


def read_head(data: bytes) -> tuple[int, Kind, int]:
    """-> the length of the body, the kind, the number. Errors: Misused."""
    length, kind, number = HEAD.unpack(data)
    if length > LARGEST or kind not in _KINDS:
        raise Misused(f"a frame of {length:,} bytes and kind {kind}")
    return length, Kind(kind), number


def record_body(record: Record) -> bytes:
    """Errors: REFUSED, where it does not fit into a frame."""
    body = _ENCODER.encode(record)
    if len(body) > LARGEST:
        raise error(
            "REFUSED", connector="event sync", reason=f"a record of {len(body):,} bytes; {LARGEST:,} is the most"
        )
    return body


def read_record(body: bytes) -> Record:
    """Errors: Misused."""
    try:
        found: Record = _DECODER.decode(body)
    except msgspec.MsgspecError as reason:
        raise Misused(f"no record: {reason}") from reason
    return found


def failure_body(reason: NadiError) -> bytes:
    """A failure as another process is told it."""
    shown = {name: str(value) for name, value in reason.parameters.items()}
    return _ENCODER.encode((reason.condition, shown))


def read_failure(body: bytes) -> NadiError:
    """Errors: Misused."""
    try:
        condition, parameters = msgspec.msgpack.decode(body, type=tuple[str, dict[str, Any]])
    except msgspec.MsgspecError as reason:
        raise Misused(f"no failure: {reason}") from reason
    entry = conditions().get(condition)
    if entry is None or entry.parameters != parameters.keys():
        raise Misused(f"a failure {condition} with {sorted(parameters)}")
    return error(condition, **parameters)


_KINDS = frozenset(Kind)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Record)
