"""What is in the objects of a state log, and how they are written.

An object is pieces, one after the other. A piece begins with a head of 35 bytes (big endian): `NADIL` 0x01, kind (1 byte: `d` a delta, `b` a base), bucket (4
bytes), cut and epoch (8 each), and the check of the piece before it in the chain (8, zeros for the first one and for a base).

After the head a delta is a record of `nadi.pipeline.state.frames`, a base the index of its chunks (`nadi.pipeline.statelog.chunks`).

The check of a piece, which only a commit record has, is that of all its bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nadi.pipeline.state.frames import delta_stream
from nadi.pipeline.statelog.lines import Piece
from nadi.pipeline.statelog.store import ObjectStore

MAGIC = b"NADIL\x01"
HEAD = struct.Struct("!6scIqQ8s")
BLOCK = 2 * 1024 * 1024  # bytes of deltas that are copied into one before they are written
CHECK = 8  # bytes of a check
DELTA, BASE = b"d", b"b"


@dataclass(frozen=True, slots=True)
class Delta:
    """What a cut changed in a bucket, as `Kernel.delta` gave it. `before` is the check of the piece that it follows: `Line.check`."""

    cut: int
    epoch: int
    before: str
    content: bytes


def new_check(data: bytes = b"") -> hashlib.blake2b:
    """The check of a piece, to be fed with its bytes."""
    return hashlib.blake2b(data, digest_size=CHECK)


def write_deltas(store: ObjectStore, name: str, deltas: Mapping[int, Delta]) -> dict[int, Piece]:
    """Put one object with the deltas of some buckets; -> where each of them lies. An empty delta has no piece, and without any there is no object.

    Errors: those of `ObjectStore.put`.
    """
    contents: list[bytes] = []
    pieces: dict[int, Piece] = {}
    offset = 0
    for bucket, delta in sorted(deltas.items()):
        if delta.content:
            head = piece_head(DELTA, bucket, delta.cut, delta.epoch, delta.before)
            parts = [head, *delta_stream(delta.content)]
            check, length = new_check(), 0
            for part in parts:
                check.update(part)
                length += len(part)
            pieces[bucket] = Piece(name, offset, length, check.hexdigest())
            contents += parts
            offset += length
    if contents:
        store.put(name, [b"".join(contents)] if offset <= BLOCK else contents)
    return pieces


def piece_head(kind: bytes, bucket: int, cut: int, epoch: int, before: str = "") -> bytes:
    """What a piece begins with."""
    return HEAD.pack(MAGIC, kind, bucket, cut, epoch, bytes.fromhex(before) or bytes(CHECK))
