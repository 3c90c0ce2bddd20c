"""What channels need of a transport: a log for batches per part, a log for progress records, and that of two who write as one producer the later one wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Protocol

from nadi.channels.options import Channel
from nadi.channels.records import Progress

TRANSPORTS = {"nats": "nadi.channels.natschannel", "kafka": "nadi.channels.kafkachannel"}


@dataclass(frozen=True, slots=True)
class Told:
    """A progress record and its place among those of the channel."""

    place: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a channel may grow (bytes, -1: as large as the disk), and how many servers keep a copy. At the bound producers wait; nothing old is dropped."""

    bytes: int = -1
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Size:
    """What a channel holds: bytes of batches and progress records (on Kafka: as far as progress records name them), and how many of these there are."""

    bytes: int
    messages: int


class Transport(Protocol):
    """A channel on its servers. Used by any thread.

    Errors of all calls: CONNECTION_UNAVAILABLE (not reached, or full: it is tried again), REFUSED, CHANNEL_RECORD.
    """

    @property
    def name(self) -> str:
        """What it is called in errors."""
        ...

    # ---- what a manager does

    def create(self, bounds: Bounds) -> None:
        """Make it where it is not there, with so many parts; one that is there is left as it is."""
        ...

    def resize(self, bounds: Bounds) -> None:
        """Give it other bounds, or more parts. Nothing in it is lost."""
        ...

    def remove(self) -> None:
        """Delete it with all that it has, if it is there."""
        ...

    def trim(self, needed: Sequence[tuple[str, int]]) -> None:
        """Delete what lies before these places of progress records, by producer; a producer's last record stays. Producers that are not named keep all."""
        ...

    def size(self) -> Size:
        """What it holds."""
        ...

    # ---- producers

    def largest(self) -> int:
        """How many bytes a record may have."""
        ...

    def admit(self, size: int) -> None:
        """Ask whether so many bytes have room, where the servers themselves refuse nothing. Errors: CONNECTION_UNAVAILABLE where it is full."""
        ...

    def write(self, producer: str, bucket: int, batches: Sequence[tuple[int, bytes]]) -> list[int]:
        """Append (part, record); their places when all of them are durable."""
        ...

    def claim(self, producer: str) -> Progress | None:
        """Be the producer from the next `announce` on: who has claimed before can announce nothing more. -> its last record."""
        ...

    def announce(self, producer: str, progress: Progress) -> None:
        """Append a progress record. Errors: FENCED where somebody else has claimed the producer, or nobody here has. After an error claim it anew."""
        ...

    def tails(self) -> list[Progress]:
        """The last record of each producer there is."""
        ...

    # ---- readers

    def news(self, after: int) -> list[Told]:
        """The progress records of all producers behind a place, in order; some of them at a time, none where there are none."""
        ...

    def before(self, producer: str, positions: Mapping[int, int]) -> int:
        """A place behind which the first record of a producer lies that has, of any of these parts, the chunk at its position or a later one; 0 is behind
        nothing."""
        ...

    def fetch(self, producer: str, part: int, places: Sequence[int]) -> list[bytes]:
        """The batches at ascending places. Errors: LOG_TRUNCATED."""
        ...

    def listen(self, after: int, heard: Callable[[], None]) -> None:
        """Have `heard` called when there may be progress behind a place, at least once, or the connection was lost. Cheap where it does so already."""
        ...

    @property
    def settles(self) -> float:
        """Until when (seconds of the monotonic clock) it may miss something that has just been listened to."""
        ...

    def listening(self) -> bool:
        """Whether it still hears, as the servers say."""
        ...

    def close(self) -> None:
        """Hear nothing more."""
        ...


@cache
def _open_of(kind: str) -> Callable[[Channel], Transport]:
    opens: Callable[[Channel], Transport] = import_module(TRANSPORTS[kind]).open_channel
    return opens


def open_transport(channel: Channel) -> Transport:
    """The channel on its servers; nothing is asked of them yet."""
    return _open_of(channel.transport)(channel)
