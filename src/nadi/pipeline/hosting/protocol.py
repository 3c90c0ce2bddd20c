"""The protocol of executor hosts: length-prefixed frames over a Unix socket, a MessagePack header and binary parts.

A frame is

    4 bytes   length h of the header, big endian
    8 bytes   length b of the body, big endian
    h bytes   header: MessagePack, an array [map, [length of each part]]
    b bytes   body: the parts one after the other (Arrow IPC streams, or what the operation says)

A request's map has the operation under "op". An answer that failed has the map {"error": {"condition", "parameters"}} with the
condition of the catalogue, or {"error": {"message"}} for a failure that has no name. Operations are listed in `docs/internals/hosts.md`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from nadi.errors import NadiError, error

_LENGTHS = struct.Struct("!IQ")
_JOIN_BELOW = 128 * 1024
_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder().decode

Part = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """A frame: the map of its header and its parts."""

    head: dict[str, Any]
    parts: list[memoryview]


def send(connection: socket.socket, head: dict[str, Any], parts: Sequence[Part] = ()) -> None:
    """Write one frame. Errors: OSError."""
    sizes = [len(p) for p in parts]
    header = _PACK([head, sizes])
    body = sum(sizes)
    start = _LENGTHS.pack(len(header), body) + header
    if body < _JOIN_BELOW:
        connection.sendall(b"".join((start, *parts)))
        return
    connection.sendall(start)
    for part in parts:
        connection.sendall(part)


def receive(connection: socket.socket) -> Frame | None:
    """Read one frame; None where the other side has closed. Errors: OSError (also for a frame cut short)."""
    start = exactly(connection, _LENGTHS.size)
    if start is None:
        return None
    header_size, body_size = _LENGTHS.unpack(start)
    header = exactly(connection, header_size)
    body = exactly(connection, body_size) if body_size else memoryview(b"")
    if header is None or body is None:
        raise ConnectionError("a frame was cut short")
    head, sizes = _UNPACK(header)
    parts, at = [], 0
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return Frame(head, parts)


def exactly(connection: socket.socket, size: int) -> memoryview | None:
    """Read so many bytes; None where the other side has closed before the first. Errors: OSError (also for fewer bytes)."""
    buffer = memoryview(bytearray(size))
    at = 0
    while at < size:
        # in one call where the system can: after each one this thread waits up to 5 ms for the interpreter's lock, if another one computes
        got = connection.recv_into(buffer[at:], 0, socket.MSG_WAITALL)
        if got == 0:
            if at == 0:
                return None
            raise ConnectionError("a frame was cut short")
        at += got
    return buffer.toreadonly()


def failure_head(reason: BaseException) -> dict[str, Any]:
    """The header that tells of a failure."""
    if isinstance(reason, NadiError):
        told = {name: _plain(value) for name, value in reason.parameters.items()}
        return {"error": {"condition": reason.condition, "parameters": told}}
    return {"error": {"message": f"{type(reason).__name__}: {reason}"}}


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def raise_failure(head: dict[str, Any], operation: str) -> None:
    """Raise what an answer tells; nothing where it did not fail."""
    told = head.get("error")
    if told is None:
        return
    if "condition" in told:
        raise error(told["condition"], **told["parameters"])
    raise error("HOST_FAILED", operation=operation, reason=told["message"])
