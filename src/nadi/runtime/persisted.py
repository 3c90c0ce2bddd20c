"""The state of an app as one byte string: MessagePack of `[1, [[element, key-group, payload], …]]`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nadi.errors import error
from nadi.kernel.contract import Segment

_VERSION = 1


def packed(segments: Iterable[Segment]) -> bytes:
    """Segments as bytes."""
    return msgspec.msgpack.encode([_VERSION, [[s.element, s.group, s.payload] for s in segments]])


def unpacked(state: bytes) -> list[Segment]:
    """The segments that `packed` was given.

    Raises:
        CannotRestoreSiddhiAppStateException: STATE_NOT_READABLE.
    """
    try:
        version, entries = msgspec.msgpack.decode(state, type=tuple[int, list[tuple[str, int, bytes]]])
    except msgspec.DecodeError as problem:
        raise error("STATE_NOT_READABLE", reason=f"it is not a state of nadi ({problem})") from problem
    if version != _VERSION:
        raise error("STATE_NOT_READABLE", reason=f"its version is {version}, this nadi reads {_VERSION}")
    return [Segment(*entry) for entry in entries]
