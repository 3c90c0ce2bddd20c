"""The manager that leads: one object for each term, with all that it knows.

Heartbeats are answered from memory, without waiting for anything. One task, `run`, makes all decisions: it copies the ledger, enters what users asked, lets
`reconcile` say what should be, writes the difference in one transaction under the token, and only then acts on it. A worker is told a decision after it is in
the database, never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nadi.cluster import leases
from nadi.cluster.contract import Change, Clock, Seen, Store, StoreAway
from nadi.cluster.election import Elector, Term
from nadi.cluster.leases import Candidate, Refused
from nadi.cluster.ledger import HELD, Ledger, drops, puts
from nadi.cluster.messages import Done, Farewell, Granted, Heartbeat, Message, Nobody, Order, Rejected, Unknown, Write
from nadi.cluster.placement import Wish
from nadi.cluster.poker import Poker
from nadi.cluster.presence import Presence, clashes, is_late, is_outlived
from nadi.cluster.reconciliation import Situation, reconcile
from nadi.cluster.rows import Beat, Beginning, Event, Lease, Part, Placement, Row, key_of
from nadi.cluster.settings import Placing, Timing, at_least
from nadi.cluster.signals import Bell
from nadi.cluster.writes import written

RETRY = 500  # ms between attempts at a database that is away
GATHER = (
    50  # ms from the begin of a decision to that of the next one: what many workers say at once is decided together
)
EVENTS_KEPT = 5_000


@dataclass(slots=True)
class Asked:
    """A write of a user, and who waits for it."""

    write: Write
    answer: asyncio.Future[Message]

    def says(self, answer: Message) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class LeaderTerm:
    """One term. `managers` are the addresses of all managers, for workers to know."""

    def __init__(
        self, term: Term, me: Candidate, elector: Elector, clock: Clock, store: Store, poker: Poker, group: str, timing: Timing, placing: Placing,
        wrote: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self.token = term.token
        self.managers: tuple[str, ...] = ()
        self._me = me
        self._elector = elector
        self._clock = clock
        self._store = store
        self._poker = poker
        self._group = group
        self._timing = timing
        self._placing = placing
        self._wrote = wrote
        self._quiet_until = waits_until(term, timing)
        self._bell = Bell(clock)
        self._ledger: Ledger | None = None  # None: not read yet
        self._sure = False  # whether the database has just that
        self._orders: dict[str, list[Placement]] = {}
        self._presences: dict[str, Presence] = {}
        self._told: dict[str, int] = {}
        self._wishes: dict[str, Wish] = {}
        self._going: set[str] = set()  # workers that a decision on its way to the database declares gone
        self._decision = 0
        self._events = 0
        self._stamp = 0
        self._inbox: list[Asked] = []
        self._unnoted: set[str] = set()

    # ---- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat) -> Message:
        """Take a worker's heartbeat, and say what it is to run."""
        now = self._clock.now()
        if not self._leads(now) or beat.seen > self.token or self._ledger is None:
            return Nobody()
        known = self._presences.get(beat.id)
        if clashes(beat, known, now):
            assert known is not None
            return Rejected(known.address)
        if is_late(beat, known) or is_outlived(beat, self._ledger.workers.get(beat.id)) or beat.id in self._going:
            return Nobody()
        return self._taken(beat, known, now)

    def _leads(self, now: int) -> bool:
        held = self._elector.held
        return held is not None and held.token == self.token and held.valid(now)

    def _taken(self, beat: Heartbeat, known: Presence | None, now: int) -> Message:
        assert self._ledger is not None
        row = self._ledger.workers.get(beat.id)
        if known is None or known.incarnation != beat.incarnation or not known.alive(now):
            known = Presence(beat.id, beat.address, beat.incarnation, beat.receiver, now)
            self._presences[beat.id] = known
            self._bell.ring()
        applied = known.applied
        if known.hear(beat, now, self._timing) or (self._told and known.applied != applied):
            self._bell.ring()  # what was taken over matters to who waits for a stop
        self._unnoted.add(beat.id)
        if beat.leaving and (row is None or row.gone):
            return Farewell(tuple(f"{app}: {found.reason}" for app, found in sorted(self._ledger.waiting.items())))
        is_known = row is not None and not row.gone and row.incarnation == beat.incarnation
        orders = self._orders_of(beat) if is_known else ()
        joined = "EXISTS" if is_known else "NEW"
        timing = self._timing
        return Granted(
            self._me.address, self.managers, joined, self.token, self._me.incarnation, self._decision, timing.interval, timing.lease, timing.stop_within,
            orders, self._elector.time(now),
        )  # fmt: skip

    def _orders_of(self, beat: Heartbeat) -> tuple[Order, ...]:
        """What the database has for this worker. Texts go only to who does not run them."""
        assert self._ledger is not None
        has = {(found.instance, found.epoch) for found in beat.running}
        found = []
        for row in self._orders.get(beat.id, ()):
            part = self._ledger.parts.get(row.instance)
            if (row.instance, row.epoch) in has:
                found.append(Order(row.instance, row.epoch, row.digest))
            elif part is not None and part.digest == row.digest:
                found.append(_whole(row, part, self._ledger.beginnings.get(row.instance)))
        return tuple(found)

    # ---- writes ----------------------------------------------------------------------------------------------------

    async def submit(self, write: Write) -> Message:
        """Make a write. The answer comes when it is in the database."""
        asked = Asked(write, asyncio.get_running_loop().create_future())
        self._inbox.append(asked)
        self._bell.ring()
        return await asked.answer

    def close(self) -> None:
        """The term is over: who waits is told so."""
        inbox, self._inbox = self._inbox, []
        for asked in inbox:
            asked.says(Unknown("another manager leads now"))

    # ---- decisions -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            if not self._sure and not await self._load():
                await self._clock.sleep(RETRY)
                continue
            began = self._clock.now()
            due = await self._decide()
            await self._bell.heard(None if due is None else max(1, due - self._clock.now()))
            early = began + GATHER - self._clock.now()
            if early > 0:
                await self._clock.sleep(early)

    async def _load(self) -> bool:
        """Read all rows. Whether they were read while this was still the leader.

        Heartbeats go on being answered from the rows known before: nothing that they allow was given to somebody else, as only this leader could have done it.
        A stop that is found is told with a decision of its own, so that no answer from before counts as one to it."""
        try:
            seen = await self._store.read(Lease, *HELD)
        except StoreAway:
            return False
        if leases.fenced(seen, self._group, self.token):
            self._elector.lose(self.token)
            return False
        self._own(Ledger.of(seen), seen.now)
        self._decision += 1
        self._told = {row.instance: self._decision for row in self.ledger.placements.values() if not row.wanted}
        self._going = set()
        self._sure = True
        self._poker.poke([row.address for row in self.ledger.workers.values() if not row.gone])
        return True

    @property
    def ledger(self) -> Ledger:
        """The rows as they are in the database."""
        if self._ledger is None:
            raise LookupError("the rows have not been read yet")
        return self._ledger

    def _own(self, ledger: Ledger, stamp: int) -> None:
        self._ledger, self._stamp = ledger, stamp
        self._orders = {}
        for row in ledger.placements.values():
            if row.wanted:
                self._orders.setdefault(row.worker, []).append(row)

    async def _decide(self) -> int | None:
        """One decision. When to look again without being rung for (ms of the clock)."""
        asked, self._inbox = self._inbox, []
        try:
            return await self._decide_on(asked)
        finally:  # also where the term ends meanwhile
            for one in asked:
                one.says(Unknown("another manager leads now"))

    async def _decide_on(self, asked: list[Asked]) -> int | None:
        """Enter what was asked, reconcile, write, act."""
        before = self.ledger
        draft, about = before.copy(), self._situation()
        answers = [(one, written(draft, about, one.write)) for one in asked]
        reconcile(draft, about)
        change = self._change(before, draft, about)
        if change.put or change.drop:
            self._going = {name for name, row in draft.workers.items() if row.gone}
            outcome = await self._commit(change)
            if outcome is not None:
                for one, _answer in answers:
                    one.says(outcome)
                return about.now
            self._take_over(before, draft, about)
        for one, answer in answers:
            one.says(self._with_reason(one.write, answer))
        return about.due

    def _situation(self) -> Situation:
        return Situation(
            self._clock.now(), self._stamp, self._quiet_until, self.token, self._presences, self._told, dict(self._wishes), self._timing, self._placing
        )  # fmt: skip

    def _change(self, before: Ledger, draft: Ledger, about: Situation) -> Change:
        events: Iterable[Row] = (
            Event(self.token, self._events + n, self._stamp, *said) for n, said in enumerate(about.events, 1)
        )
        return Change((*puts(before, draft), *events), tuple(drops(before, draft)))

    async def _commit(self, change: Change) -> Unknown | None:
        """Write under the token. None where it was written; else it is not known, or the term is over."""
        try:
            done = await self._store.transact([(Lease, (self._group,))], lambda seen: self._fenced(seen, change))
        except StoreAway:
            self._sure = False  # it may have been made: what the database has is read again
            return Unknown("the database did not answer")
        if isinstance(done.said, Refused):
            self._elector.lose(self.token)
            self._sure = False
            return Unknown("another manager leads now")
        self._stamp = done.said if isinstance(done.said, int) else self._stamp
        return None

    def _fenced(self, seen: Seen, change: Change) -> Change:
        refused = leases.fenced(seen, self._group, self.token)
        return Change(said=refused) if refused else Change(change.put, change.drop, seen.now)

    def _take_over(self, before: Ledger, draft: Ledger, about: Situation) -> None:
        """A decision is in the database: from now on it holds."""
        self._going = set()
        self._decision += 1
        self._events += len(about.events)
        self._wishes = about.wishes
        changed: set[str] = set()
        for row in puts(before, draft):
            if isinstance(row, Placement):
                changed.add(row.worker)
                if not row.wanted:
                    self._told[row.instance] = self._decision
        unwanted = {row.instance for row in draft.placements.values() if not row.wanted}
        self._told = {instance: n for instance, n in self._told.items() if instance in unwanted}
        self._own(draft, self._stamp)
        self._wrote()
        changed.update(name for name, row in draft.workers.items() if before.workers.get(name) is not row)
        self._poker.poke([draft.workers[name].address for name in sorted(changed) if self._hears(draft, name)])

    def _hears(self, draft: Ledger, name: str) -> bool:
        """Whether a worker wants to know what was decided: one that is there, or that waits for the word that it has left."""
        row, heard = draft.workers.get(name), self._presences.get(name)
        return row is not None and (not row.gone or (heard is not None and heard.leaving))

    def _with_reason(self, write: Write, done: Done) -> Done:
        name = getattr(write, "name", "")
        waiting = self.ledger.waiting.get(name)
        return done if waiting is None else replace(done, waiting=waiting.reason)

    # ---- notes -----------------------------------------------------------------------------------------------------

    async def note(self) -> None:
        """Write now and then when workers were heard last and how busy they are, and drop old events, until cancelled. Nothing is decided by it, so it may be
        late or lost."""
        trimmed = -EVENTS_KEPT
        while True:
            await self._clock.sleep(self._timing.interval)
            try:
                await self._note_beats()
                if self._events - trimmed >= EVENTS_KEPT // 10:
                    await self._drop_old_events()
                    trimmed = self._events
            except StoreAway:
                continue  # the next round does it

    async def _drop_old_events(self) -> None:
        seen = await self._store.read(Event)
        old = tuple(key_of(row) for row in seen.all(Event)[:-EVENTS_KEPT])
        if old:
            await self._store.transact([(Lease, (self._group,))], lambda now: self._fenced(now, Change(drop=old)))

    async def _note_beats(self) -> None:
        names, self._unnoted = sorted(self._unnoted), set()
        heard = [self._presences[name] for name in names if name in self._presences]
        if not heard or self._ledger is None:
            return
        try:
            await self._write_beats(heard)
        except StoreAway:
            self._unnoted.update(names)
            raise

    async def _write_beats(self, heard: list[Presence]) -> None:
        await self._store.transact([(Lease, (self._group,))], lambda seen: self._beats(seen, heard))
        self._wrote()

    def _beats(self, seen: Seen, heard: list[Presence]) -> Change:
        rows = tuple(Beat(one.id, seen.now, one.metrics.cpu, one.metrics.process, one.metrics.memory) for one in heard)
        return self._fenced(seen, Change(rows))


def _whole(row: Placement, part: Part, begins: Beginning | None) -> Order:
    """All that a worker has to know of what it does not run yet."""
    revision, since = ("", 0) if begins is None else (begins.revision, begins.epoch)
    return Order(row.instance, row.epoch, row.digest, part.text, revision, since, part.home, part.heritage, row.drains)


def waits_until(term: Term, timing: Timing) -> int:
    """Until when a worker that is not heard in this term may have a lease of the leader before: that one granted none after the term began."""
    return term.began + at_least(timing.lease)
