"""A network that loses, delays, repeats and reorders, and a database that is slow, fails, and does not always say whether it did what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any

from simloop import CURRENT, Loop, Process

from nadi.cluster.contract import Change, Decide, NoAnswer, Seen, StoreAway
from nadi.cluster.messages import Message
from nadi.cluster.rows import Key, Row, key_of

DATABASE = "database"
BROKER = "broker"
AWAY_AFTER = 1_500
"""ms that a node waits for the database."""
NOBODY = Context()  # of what belongs to no process


@dataclass(slots=True)
class Weather:
    """How bad it is. Chances are between 0 and 1, delays in ms."""

    loss: float = 0.0
    repeat: float = 0.0
    slowest: float = 20.0
    straggler: float = 0.0  # the chance that a message takes up to 15 s
    store_loss: float = 0.0
    store_slowest: float = 20.0
    store_away: bool = False


@dataclass(slots=True)
class Wires:
    """Who can reach whom: what was cut, one way."""

    dice: Random
    weather: Weather
    cuts: set[tuple[str, str]] = field(default_factory=set)

    def carries(self, source: str, target: str) -> bool:
        return (source, target) not in self.cuts

    def delay(self, slowest: float) -> float:
        """Mostly short; a tenth takes as long as it may."""
        luck = self.dice.random()
        return 1 + slowest * (1 - luck if luck < 0.1 else luck**3)


class Network:
    """All nodes' network: `at` is the one of a node."""

    def __init__(self, loop: Loop, wires: Wires, clock_rate: Callable[[str], float]) -> None:
        self.loop, self.wires, self.rate = loop, wires, clock_rate
        self.served: dict[str, tuple[Process, Callable[[Message], Awaitable[Message]]]] = {}

    def at(self, name: str) -> Link:
        return Link(self, name)

    def carry(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Bring a message from one node to another, if it arrives."""
        weather, dice = self.wires.weather, self.wires.dice
        copies = 2 if weather.repeat and dice.random() < weather.repeat else 1
        for _ in range(copies):
            if weather.loss and dice.random() < weather.loss:
                continue
            delay = self.wires.delay(weather.slowest)
            if weather.straggler and dice.random() < weather.straggler:
                delay = dice.random() * 15_000
            self.loop.after(delay, self._arrive, source, target, deliver, context=NOBODY)

    def _arrive(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        if self.wires.carries(source, target):
            deliver()


@dataclass(slots=True)
class Link:
    """Implements `nadi.cluster.contract.Network` for one node."""

    net: Network
    name: str

    async def ask(self, address: str, message: Message, within: int) -> Message:
        net, loop = self.net, self.net.loop
        answered: asyncio.Future[Message] = loop.create_future()

        def deliver() -> None:
            served = net.served.get(address)
            if served is None or served[0].dead:
                net.carry(address, self.name, lambda: _settle(answered, NoAnswer("refused")))
                return
            loop.spawn(served[0], serve(served[1]))

        async def serve(answer: Callable[[Message], Awaitable[Message]]) -> None:
            said = await answer(message)
            net.carry(address, self.name, lambda: _settle(answered, said))

        net.carry(self.name, address, deliver)
        late = loop.after(within / net.rate(self.name), _settle, answered, NoAnswer("late"))
        try:
            return await answered
        finally:
            late.cancel()


def _settle(waiting: asyncio.Future[Any], said: object) -> None:
    if waiting.done():
        return
    if isinstance(said, Exception):
        waiting.set_exception(said)
    else:
        waiting.set_result(said)


class Database:
    """The rows, without any trouble: what all transactions do is done at one moment."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.rows: dict[Key, Row] = {}
        self.now = now
        self.committed: Callable[[Mapping[Key, Row], Change], None] | None = None

    def read(self, kinds: Iterable[type[Row]]) -> Seen:
        wanted = tuple(kinds)
        return Seen(self.now(), {key: row for key, row in self.rows.items() if key[0] in wanted})

    def transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        seen = Seen(self.now(), {key: self.rows[key] for key in keys if key in self.rows})
        change = decide(seen)
        if self.committed is not None:
            self.committed(self.rows, change)
        for row in change.put:
            self.rows[key_of(row)] = row
        for key in change.drop:
            self.rows.pop(key, None)
        return change


@dataclass(slots=True)
class FarStore:
    """Implements `nadi.cluster.contract.Store` for one node, with a network between it and the database."""

    name: str
    database: Database
    loop: Loop
    wires: Wires
    within: int = AWAY_AFTER

    async def read(self, *kinds: type[Row]) -> Seen:
        return await self._ask(lambda: self.database.read(kinds))  # type: ignore[no-any-return]

    async def transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        return await self._ask(lambda: self.database.transact(keys, decide))  # type: ignore[no-any-return]

    async def _ask(self, act: Callable[[], Any]) -> Any:
        """A request and an answer, either of which may be lost or late: the node then knows nothing."""
        answered: asyncio.Future[Any] = self.loop.create_future()
        weather, wires = self.wires.weather, self.wires

        def there() -> None:
            if weather.store_away or not wires.carries(self.name, DATABASE) or lost():
                return
            try:
                said = act()
            except Exception as reason:  # of who decides: it is told
                said = reason
            self.loop.after(wires.delay(weather.store_slowest), back, said, context=NOBODY)

        def back(said: Any) -> None:
            if not weather.store_away and wires.carries(DATABASE, self.name) and not lost():
                _settle(answered, said)

        def lost() -> bool:
            return bool(weather.store_loss) and wires.dice.random() < weather.store_loss

        self.loop.after(wires.delay(weather.store_slowest), there, context=NOBODY)
        late = self.loop.after(self.within, _settle, answered, StoreAway("late"))
        try:
            return await answered
        finally:
            late.cancel()


def whose() -> str:
    """The process whose callback runs now."""
    found = CURRENT.get()
    return "" if found is None else found.name
