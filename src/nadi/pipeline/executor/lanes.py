"""A host's end of the lane: what Spark's tasks ask it, whether it is able to answer; ringing up the coordinator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.executor.owners import Owned
from nadi.pipeline.hosting.doors import DoorClient, address_of
from nadi.pipeline.hosting.lane import (
    LaneClient,
    LaneFailure,
    LaneServer,
    Op,
    Request,
    Row,
    decode_bodies,
    encode_rows,
)
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.hosting.seats import own_place

FRAME = 512 * 1024  # bytes of rows after which a frame is sent


def serve(path: Path, apps: Apps) -> LaneServer:
    """Answer at a socket from now on."""
    own = CutWork(apps)
    place = own_place()
    work = Owned(own, place, int(path.stem)) if place else own

    def answer(request: Request) -> Part | Iterator[Part]:
        if request.op is Op.READ:
            return frames(work.read(request.payload))
        if request.op is Op.WRITE:
            return work.write(decode_bodies(request.payload))
        if request.op is Op.BEAT:
            apps.beat()
            return b""
        raise ValueError(f"a host is not asked for {request.op.name}")

    return LaneServer(path, answer)


def frames(rows: Iterator[Row]) -> Iterator[bytes]:
    """Rows as frames of an answer, none of them much larger than its largest row."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.body)
        if size >= FRAME:
            yield encode_rows(held)
            held, size = [], 0
    if held:
        yield encode_rows(held)


def wake(address: str, app: str) -> None:
    """Tell the coordinator at this socket, or at its door, that what was pending of an app has ended. One that is gone needs it no more."""
    door = address_of(address)
    with (
        contextlib.suppress(OSError, LaneFailure),
        LaneClient(Path(address)) if door is None else DoorClient(*door) as coordinator,
    ):
        coordinator.ask(Op.WAKE, app.encode())
