"""The active node's care for its partner: reach it, let it catch up, take it into the in-sync set, ask it for promises, take it out when it does not answer.

open ──► records go along ──► catch up ──► gate closed until nothing is under way ──► equal ──► required; gate open ──► in the set
  └── broken at any point ──► where it was required: out of the set, before anything is acknowledged without it ──► released ──► open again
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nadi.cluster.contract import Clock
from nadi.cluster.pair.gate import Companion, TermGate
from nadi.cluster.pair.insync import SetWriter
from nadi.cluster.pair.membership import Member
from nadi.cluster.pair.misfit import apps_differ, differs
from nadi.cluster.pair.patience import within
from nadi.cluster.pair.right import Right
from nadi.cluster.pair.settings import PairSettings
from nadi.cluster.pair.status import Partner
from nadi.cluster.signals import Bell
from nadi.eventsync.contract import Hello, Link, PartnerRefuses, SessionOver

SLOWEST = 1_000
"""Bytes in a ms: a line over which objects come more slowly than that counts as one over which none comes."""

UNKNOWN = "it has not said yet whether it could"


class Companions:
    """The partner's part in one term. `hello` is what this node says of itself at that moment, `find` where the partner may be, `changed` is called when
    something is to be shown."""

    def __init__(
        self, me: Member, settings: PairSettings, clock: Clock, link: Link, right: Right, gate: TermGate, writer: SetWriter,
        hello: Callable[[], Hello], find: Callable[[], Coroutine[Any, Any, Partner | None]], changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._me, self._settings, self._clock, self._link = me, settings, clock, link
        self._right, self._gate, self._writer = right, gate, writer
        self._hello, self._find, self._changed = hello, find, changed
        self._bell = Bell(clock)
        self.partner: Partner | None = None
        self.in_sync = False
        self.heard = 0  # when the partner last kept a promise, by this node's clock
        self.reason = ""  # why it is not in sync
        self.misfit = ""
        self.higher = 0  # a token that the partner has named
        self.unready = UNKNOWN  # why it could not go on at once, as it said last

    def ring(self) -> None:
        """Look for the partner now."""
        self._bell.ring()

    async def run(self) -> None:
        """Care until cancelled. Errors: Superseded, PartnerRefuses where the partner knows a higher token."""
        while True:
            companion = await self._opened()
            if companion is not None:
                await self._kept(companion)
                await self._apart(companion)
            await self._bell.heard(self._settings.beat)

    async def _opened(self) -> Companion | None:
        """A session with the partner: from now on records go along."""
        self.partner = await self._find()
        if self.partner is None:
            self._not("there is no partner yet")
            return None
        try:
            opening = self._link.open(self.partner.address, self._hello())
            session = await within(self._clock, self._settings.patience, opening)
        except SessionOver as reason:
            self._not(f"{self.partner.id} does not answer: {reason}")
            return None
        except PartnerRefuses as refusal:
            self._heed(refusal.token)
            self._not(f"{self.partner.id} does not follow yet")
            return None
        self.partner = Partner(session.partner.id, self.partner.address)
        self.misfit = differs(self._hello(), session.partner)
        if self.misfit:
            await Companion(session).closed(self._clock, self._settings.beat)
            self._not(f"{self.partner.id} has another {self.misfit}")
            return None
        self.unready = UNKNOWN
        companion = Companion(session)
        self._gate.companion = companion
        self._not(f"{self.partner.id} catches up")
        return companion

    def _not(self, reason: str) -> None:
        """Note why the partner is not in sync."""
        if reason != self.reason or self.in_sync:
            self.reason, self.in_sync = reason, False
            self._changed()

    def _heed(self, token: int) -> None:
        if token > self._right.token:
            raise PartnerRefuses(token)

    async def _kept(self, companion: Companion) -> None:
        """Together until it breaks."""
        tasks = [asyncio.ensure_future(work) for work in (self._beats(companion), self._joins(companion))]
        broken = asyncio.ensure_future(companion.broken.wait())
        try:
            await asyncio.wait((*tasks, broken), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for waiting in (*tasks, broken):
                waiting.cancel()
            self._gate.open()

    async def _beats(self, companion: Companion) -> None:
        """Ask for one promise after the other, and look whether records and objects go on."""
        goes_on = _GoesOn(self._settings.stalls)
        while not companion.broken.is_set():
            sent = self._clock.now()
            try:
                unready = await within(self._clock, self._settings.patience, companion.session.beat())
            except (SessionOver, PartnerRefuses) as reason:
                companion.breaks(reason)
                return
            now = self._clock.now()
            self._right.promised(sent, now)
            self.heard = now
            if unready != self.unready:
                self.unready = unready
                self._changed()
            stands = goes_on.stands_still(self._gate, now)
            if stands and not companion.session.copying:
                companion.breaks(SessionOver(stands))
                return
            await self._clock.sleep(max(1, self._settings.beat - (now - sent)))

    async def _joins(self, companion: Companion) -> None:
        """Have it catch up, and take it into the set."""
        try:
            await self._gate.only(companion)
            partner = await companion.session.catch_up()
            self.misfit = apps_differ(self._hello(), partner)
            if self.misfit:  # somebody has changed files of the passive node by hand
                raise SessionOver(f"it has other {self.misfit}")
            await self._equal(companion)
        except (SessionOver, PartnerRefuses) as reason:
            companion.breaks(reason)
            return
        id_ = companion.hello.id
        await self._writer.write((self._me, Member(id_, companion.hello.store)), f"{id_} is in sync")
        self.in_sync, self.reason = True, ""
        self._changed()
        await companion.broken.wait()

    async def _equal(self, companion: Companion) -> None:
        """From here on it has all: the gate is closed for as long as that takes."""
        while True:
            self._gate.close()
            try:
                await within(self._clock, self._settings.patience, self._gate.quiet())
            except SessionOver:  # a writer takes long: let others go on
                self._gate.open()
                await self._clock.sleep(self._settings.patience)
                continue
            await within(self._clock, self._settings.patience, companion.session.equal())
            companion.required = True
            self._gate.open()
            return

    async def _apart(self, companion: Companion) -> None:
        """Go on without it: where the database may have it in the set, not before it has it out."""
        self._not(f"{companion.hello.id}: {companion.why}")
        try:
            if companion.higher > self._right.token:
                raise PartnerRefuses(companion.higher)
            if companion.required:
                await self._writer.write((self._me,), f"{companion.hello.id}: {companion.why}")
            self._gate.companion = None
            companion.released.set()
        finally:
            await companion.closed(self._clock, self._settings.beat)


class _GoesOn:
    """Whether a partner that keeps its promises takes what it is sent: its disk may hang. `stalls` is how long (ms) it may take for one."""

    def __init__(self, stalls: int) -> None:
        self._stalls = stalls
        self._oldest = self._came = self._record_since = self._object_since = 0

    def stands_still(self, gate: TermGate, now: int) -> str:
        """What does not go on; "" where all does."""
        came, waiting = gate.objects
        if gate.oldest != self._oldest:
            self._oldest, self._record_since = gate.oldest, now
        if came != self._came or waiting < 0:
            self._came, self._object_since = came, now
        if self._oldest and now - self._record_since >= self._stalls:
            return f"a record waits for it for {now - self._record_since} ms"
        if waiting >= 0 and now - self._object_since >= self._stalls + waiting // SLOWEST:
            return f"no object has come there for {now - self._object_since} ms"
        return ""
