"""What a manager does with channels: make, size, trim and remove them, see how far their producers have come, and end producers that are no more.

Every call opens the channel and closes it again; each may be made any number of times. Errors of all: CONNECTION_UNAVAILABLE, REFUSED, CHANNEL_RECORD.

>>> channel = Channel("nats", "W1.Good.dev", 3, "nats://127.0.0.1:4222")      # doctest: +SKIP
>>> create(channel, Bounds(bytes=10_000_000_000, replicas=3))                 # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from nadi.channels.options import Channel
from nadi.channels.progress import opened
from nadi.channels.records import CLOSE, Progress
from nadi.channels.transport import Bounds, Size, Transport, open_transport
from nadi.errors import error

__all__ = ["Bounds", "Channel", "Size", "create", "progress", "remove", "resize", "retire", "size", "trim"]

AS_LARGE_AS_THE_DISK = Bounds()

Needed = Mapping[tuple[str, int], int]
"""(producer, part) → the first chunk that some reader, or a revision of one, may still ask for."""


@contextmanager
def _opened(channel: Channel) -> Iterator[Transport]:
    transport = open_transport(channel)
    try:
        yield transport
    finally:
        transport.close()


def create(channel: Channel, bounds: Bounds = AS_LARGE_AS_THE_DISK) -> None:
    """Make a channel; one that is there stays as it is."""
    with _opened(channel) as transport:
        transport.create(bounds)


def resize(channel: Channel, bounds: Bounds = AS_LARGE_AS_THE_DISK) -> None:
    """Give a channel the parts that `channel` says, where it has fewer, and other bounds. What is in it stays where it is."""
    with _opened(channel) as transport:
        transport.resize(bounds)


def remove(channel: Channel) -> None:
    """Delete a channel with all that it has."""
    with _opened(channel) as transport:
        transport.remove()


def progress(channel: Channel) -> dict[str, Progress]:
    """The last word of each producer: its clock, and how many chunks each part has from it."""
    with _opened(channel) as transport:
        return {told.producer: told for told in transport.tails()}


def trim(channel: Channel, needed: Needed) -> None:
    """Delete what nobody needs any more. Producers of which nothing is said keep all."""
    positions: dict[str, dict[int, int]] = {}
    for (producer, part), position in needed.items():
        positions.setdefault(producer, {})[part] = position
    with _opened(channel) as transport:
        transport.trim([(producer, transport.before(producer, of)) for producer, of in sorted(positions.items())])


def size(channel: Channel) -> Size:
    """What a channel holds."""
    with _opened(channel) as transport:
        return transport.size()


def retire(channel: Channel, producer: str, epoch: int) -> None:
    """End a producer: from now on nothing of a run up to `epoch` is taken, and it holds up no reader. What it has given stays.

    Errors: FENCED where a later run has begun.
    """
    with _opened(channel) as transport:
        tail = transport.claim(producer)
        if tail is None:
            tail = opened(None, producer, epoch, channel.parts, "")
        if tail.epoch > epoch:
            raise error("FENCED", connector=transport.name, producer=producer)
        transport.announce(producer, replace(tail, kind=CLOSE, epoch=epoch, before=tail.clock, pieces=()))
