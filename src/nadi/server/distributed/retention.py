"""What the leader does so that channels and cut logs do not grow for ever: it lets go of what no reader, and no revision that may be restored, still needs.

A slow tick asks the database once where all instances stand. What is durable decides: the record of commits, and the rows of revisions. A channel is trimmed
when enough of it is needed no more, or some time after the last time, and all trims of a tick together take a bounded time; the rest waits for the next one.
Before each trim the leader looks whether its lease is still valid. One that a paused leader makes late harms nothing: what it knew as needed by nobody, nobody
has needed since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from nadi.channels import administration
from nadi.channels.options import Channel
from nadi.cluster.appstates import needed, oldest_cut, parts_of, restorable
from nadi.cluster.contract import Clock
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import PartState
from nadi.cluster.rows import App, Part
from nadi.errors import NadiError
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.standings import committed, shapes, trim_cuts
from nadi.server.distributed.channelends import Ends, EndsOf, Needs, needs_after

TICK = 10_000  # ms
SPENT = 2.0  # seconds that the trims of a tick take, about
SOON = 60.0  # seconds between two trims of a channel of which something is needed no more, …
SELDOM = 600.0  # … and of any: producers that have nothing to say say so
MANY = 1_000  # chunks, or cuts, for which nobody waits so long
KEPT_BACK = 1  # cuts before the oldest that may be begun after: order times go by the one before

log = structlog.get_logger("nadi.server")


class Leading(Protocol):
    """What this manager knows of its own term."""

    def ledger(self) -> tuple[int, Ledger] | None:
        """The token and the rows, where it leads and has read them."""

    def leads(self, token: int) -> bool:
        """Whether the lease of this term is valid now."""


@dataclass(slots=True)
class Trimmed:
    """How far something has been let go of, and when (s)."""

    at: float = float("-inf")
    needs: dict[tuple[str, int], int] = field(default_factory=dict)


Trimmable = tuple[str, int, str]
"""An app, its version, and a channel or a cut log of it."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where instances stand: the cuts of their last commits, and the numbers that their inputs have in them, as far as that is noted."""

    cuts: dict[str, Cut]
    inputs: dict[str, dict[str, int]]


def stand_of(url: str, parts: Iterable[Part]) -> Stand:
    """Where these instances stand, by their names; what they keep is known by their homes. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    homes = {part.home or part.instance: part.instance for part in parts}
    names = sorted(homes)
    cuts, inputs = committed(url, names), shapes(url, names)
    return Stand(
        {homes[home]: cut for home, cut in cuts.items()}, {homes[home]: known for home, known in inputs.items()}
    )


@dataclass(frozen=True, slots=True)
class Task:
    """A channel, or the cut log of an instance, of which something may go. `grown` is how many chunks or cuts that are."""

    app: str
    name: str
    grown: int
    trim: Callable[[], None]
    needs: dict[tuple[str, int], int]


def is_due(before: Trimmed, needs: dict[tuple[str, int], int], now: float, tight: bool) -> bool:
    """Whether a channel is to be trimmed. `tight`: it has a bound, so whoever fills it may wait for room."""
    grown = growth(before, needs)
    if grown and (tight or grown >= MANY):
        return True
    return now - before.at >= (SOON if grown else SELDOM)


def growth(before: Trimmed, needs: dict[tuple[str, int], int]) -> int:
    """How many chunks are needed no more since the last time.

    >>> growth(Trimmed(needs={("A-1", 0): 5}), {("A-1", 0): 9, ("A-2", 0): 1})
    5
    """
    return sum(max(0, chunk - before.needs.get(place, 0)) for place, chunk in needs.items())


class Retention:
    """See the module's text. Runs in the loop of its manager; `busy` says of which apps a revision is being made: nothing of these goes meanwhile."""

    def __init__(
        self,
        leading: Leading,
        clock: Clock,
        ends: EndsOf,
        cuts: str,
        bounded: bool,
        busy: Callable[[str], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cuts` is the URL of the database of cut logs, "" where it is not known here: then nothing is trimmed."""
        self._leading = leading
        self._clock = clock
        self._ends = ends
        self._cuts = cuts
        self._bounded = bounded
        self._busy = busy
        self._monotonic = monotonic
        self._trimmed: dict[Trimmable, Trimmed] = {}

    async def run(self) -> None:
        """Look now and then until cancelled."""
        while True:
            await self._clock.sleep(TICK)
            try:
                await self.tick()
            except Exception as reason:  # whatever it is, who leads goes on leading
                log.error("channels are not trimmed", reason=repr(reason))

    async def tick(self) -> None:
        """Trim what is due, if this manager leads. What fails is tried again at another tick."""
        found = self._leading.ledger()
        if found is None or not self._cuts:
            return
        token, rows = found
        self._ends.keep(list(rows.parts.values()))
        there = {(app.name, app.version) for app in rows.apps.values()}
        self._trimmed = {key: known for key, known in self._trimmed.items() if key[:2] in there}
        try:
            stand = await asyncio.to_thread(stand_of, self._cuts, list(rows.parts.values()))
        except NadiError as reason:
            log.warning("channels are not trimmed", reason=str(reason))
            return
        until = self._monotonic() + SPENT
        for app in sorted(rows.apps, key=self._turn):
            if self._monotonic() > until:
                return
            await self._trim_app(token, rows, rows.apps[app], stand, until)

    def _turn(self, app: str) -> float:
        """Who was trimmed longest ago comes first."""
        return min((known.at for (of, _, _), known in self._trimmed.items() if of == app), default=float("-inf"))

    async def _trim_app(self, token: int, rows: Ledger, app: App, stand: Stand, until: float) -> None:
        parts = rows.parts_of(app.name)
        revisions = [parts_of(row) for row in restorable(rows.revisions.values(), app.name, parts)]
        if app.version > 1 and not all(part.instance in stand.inputs for part in parts):
            return  # inputs of a changed text may have other numbers than those of the text
        try:
            tasks = await asyncio.to_thread(self._tasks, app, parts, stand, revisions)
        except NadiError as reason:
            log.warning("channels are not trimmed", app=app.name, reason=str(reason))
            return
        for task in tasks:
            if self._monotonic() > until or self._busy(app.name) or not self._leading.leads(token):
                return
            try:
                await asyncio.to_thread(task.trim)
            except NadiError as reason:
                log.warning("not trimmed", app=app.name, what=task.name, reason=str(reason))
                continue
            self._trimmed[app.name, app.version, task.name] = Trimmed(self._monotonic(), task.needs)
            log.debug("trimmed", app=app.name, what=task.name, grown=task.grown)

    def _tasks(
        self, app: App, parts: Sequence[Part], stand: Stand, revisions: Sequence[Sequence[PartState]]
    ) -> list[Task]:
        """What is due of an app, the fastest growing first. Errors: those of the texts."""
        known = [self._ends.of(part).under(stand.inputs.get(part.instance)) for part in parts]
        found = [*self._channels(app, known, stand, revisions), *self._cut_logs(app, parts, stand, revisions)]
        return sorted(found, key=lambda task: -task.grown)

    def _channels(
        self, app: App, known: Sequence[Ends], stand: Stand, revisions: Sequence[Sequence[PartState]]
    ) -> Iterable[Task]:
        readers: list[Needs] = []
        for ends in known:
            needs = needs_after(ends, stand.cuts.get(ends.instance))
            if needs is None:
                log.warning(
                    "channels are not trimmed", app=app.name, reason=f"the cuts of {ends.instance} are of another text"
                )
                return
            readers.append(needs)
        least = needed(readers, revisions)
        for name, channel in {n: c for ends in known for n, c in ends.channels.items()}.items():
            mine = {(producer, part): chunk for (of, producer, part), chunk in least.items() if of == name}
            before = self._trimmed.get((app.name, app.version, name), Trimmed())
            if mine and is_due(before, mine, self._monotonic(), self._bounded):
                yield Task(app.name, name, growth(before, mine), _trim_of(channel, mine), mine)

    def _cut_logs(
        self, app: App, parts: Sequence[Part], stand: Stand, revisions: Sequence[Sequence[PartState]]
    ) -> Iterable[Task]:
        for part in parts:
            cut = stand.cuts.get(part.instance)
            if cut is None:
                continue
            first = oldest_cut(part.instance, cut.n, revisions) - KEPT_BACK
            needs, name = {(part.instance, 0): first}, f"cuts of {part.instance}"
            before = self._trimmed.get((app.name, app.version, name), Trimmed())
            if first > 0 and growth(before, needs) and is_due(before, needs, self._monotonic(), False):
                yield Task(
                    app.name, name, growth(before, needs), _forget(self._cuts, part.home or part.instance, first), needs
                )


def _trim_of(channel: Channel, needs: dict[tuple[str, int], int]) -> Callable[[], None]:
    return lambda: administration.trim(channel, needs)


def _forget(url: str, instance: str, before: int) -> Callable[[], None]:
    return lambda: trim_cuts(url, instance, before)
