"""Messages that a request brings along: of inputs that are files of the node's state folder (the control log, the fault log), where hosts do not have that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nadi.io.contract import Messages
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import TYPE as FAULTS_TYPE

TYPES = (CONTROL_TYPE, FAULTS_TYPE)
"""The types of inputs that are such files. Each has one partition."""

_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(dict[int, list[tuple[list[int], list[int], list[bytes]]]]).decode

Brought = Mapping[int, Sequence[Messages]]
"""Messages by the ordinal of their input."""


def pack_brought(found: Mapping[int, Iterable[Messages]]) -> bytes:
    """As a request has them; b"" where there are none.

    >>> packed = pack_brought({3: [Messages(np.array([7]), np.array([1_000]), [b"{}"])]})
    >>> unpack_brought(packed)[3][0].payloads
    [b'{}']
    """
    told: dict[int, Any] = {}
    for ordinal, pieces in found.items():
        listed = []
        for messages in pieces:
            if isinstance(messages.payloads, pa.RecordBatch):
                raise TypeError("these inputs are lines of text")
            payloads = [bytes(payload) for payload in messages.payloads]
            listed.append((messages.positions.tolist(), messages.times.tolist(), payloads))
        if listed:
            told[ordinal] = listed
    return _PACK(told) if told else b""


def unpack_brought(packed: bytes | None) -> Brought:
    """What `pack_brought` packed."""
    if not packed:
        return {}
    return {
        ordinal: [
            Messages(np.array(at, np.int64), np.array(times, np.int64), payloads) for at, times, payloads in pieces
        ]
        for ordinal, pieces in _UNPACK(packed).items()
    }
