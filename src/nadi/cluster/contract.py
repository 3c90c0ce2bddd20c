"""What coordination needs of the world: a clock, a coordination database, a network, and a machine that runs partial apps.

All of it can fail, and each failure is one of three: `StoreAway` (the change may have been made or not), `NoAnswer` (the request may have arrived or not),
`StartFailed` (nothing runs). Code that catches one of the first two must go on right in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from nadi.cluster.messages import Message, Metrics, Order
from nadi.cluster.rows import Key, Row, key_of

R = TypeVar("R", bound=Row)


class StoreAway(Exception):
    """The database did not answer, or not in time. A change that was on its way may have been made."""


class NoAnswer(Exception):
    """Nobody answered, or not in time. The request may have been served, and may still be."""


class StartFailed(Exception):
    """A partial app could not be started; nothing of it runs. The text says why."""


Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Makes a task of a node: one that fails ends the node, as nobody knows what it has left undone."""


class Clock(Protocol):
    """Time of this machine in ms, from a zero of its own. It never goes back, and goes on while the machine is suspended."""

    def now(self) -> int: ...

    async def sleep(self, ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows as a transaction finds them, and the database's time (ms of the epoch) at that moment."""

    now: int
    rows: Mapping[Key, Row]

    def get(self, kind: type[R], *values: str | int) -> R | None:
        """The row of a key, where there is one."""
        found = self.rows.get((kind, values))
        return found if isinstance(found, kind) else None

    def all(self, kind: type[R]) -> list[R]:
        """The rows of a kind, by key."""
        found = [row for row in self.rows.values() if isinstance(row, kind)]
        return sorted(found, key=lambda row: key_of(row)[1])


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction writes: rows that are put (whole, made or replaced), and keys that are dropped. `said` goes back to who asked."""

    put: tuple[Row, ...] = ()
    drop: tuple[Key, ...] = ()
    said: object = None


Decide = Callable[[Seen], Change]
"""A pure function from what is there to what is written. It may run more than once, and in another thread."""


class Store(Protocol):
    """The coordination database of one cluster (`groupId`)."""

    async def read(self, *kinds: type[Row]) -> Seen:
        """All rows of these kinds, from one moment. Errors: `StoreAway`."""

    async def transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        """Lock the rows of the keys (those that are not there as well), let `decide` say what is written, and write it: all of it or nothing, durably. Rows
        that `decide` writes without having asked for them are written blindly. The change that was made is the answer.

        Errors: `StoreAway`: it may have been made.
        """


class Network(Protocol):
    """Requests to other nodes."""

    async def ask(self, address: str, message: Message, within: int) -> Message:
        """The answer of the node at an address. A request may arrive twice, late, or after a later one. Errors: `NoAnswer`, after `within` ms at the latest."""


@dataclass(slots=True)
class Haste:
    """How long an instance that stops may take: what it needs, until the lease of the worker is nearly over (`begun` is set); from then on `within` ms."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    within: int = 1_500


class Node(Protocol):
    """This machine, as one that runs partial apps."""

    incarnation: str
    """A name that no other start of a node has or had. What an earlier incarnation ran here has ended before a new one answers anything."""

    async def start(self, order: Order) -> None:
        """Run an instance; it runs when this returns. Cancelled, it may go on until `stop`. Errors: `StartFailed`."""

    async def stop(self, instance: str, haste: Haste) -> None:
        """End what runs of an instance, or is being started: between two cuts if there is time for it, else by force. Nothing of it runs when this returns:
        at the latest `haste.within` ms after `haste.begun` was set."""

    def metrics(self) -> Metrics: ...

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        """Whom to tell when an instance ends by itself: instance, epoch, reason; and when one that drains has done so: instance, epoch. Nothing of either
        runs then."""
