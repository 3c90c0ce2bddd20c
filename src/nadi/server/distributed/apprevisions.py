"""Revisions of whole apps, which the leader makes, keeps and has restored: one revision of each instance, made by the worker that runs it.

    backup ──► each worker: a revision of the instance, read back whole ──► the leader: its manifest is there ──► one row

Without the row there is no revision: what a worker that died, or a leader, has left of one is let go of after the next. While one is being made nothing of the
app is trimmed, so that channels reach back to where its parts begin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from nadi.cluster import leases
from nadi.cluster.appstates import in_order, is_of, next_name, orphans, parts_of, restorable, surplus, time_of
from nadi.cluster.contract import Clock, NoAnswer, Store, StoreAway
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Done, Forget, Message, PartState, Record, Restore, Unknown, Write
from nadi.cluster.rows import App, Lease, Part, Revision
from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.persistence.revisions import delete_revision, read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.cuts import Cut
from nadi.server.apps import AppNotThere
from nadi.server.distributed.channelends import EndsOf, needs_after
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.retention import Leading

MADE_WITHIN = 600_000  # ms for the revision of an instance
BEGINS_WITHIN = 60_000  # ms that an answer waits for instances that begin anew
LOOK = 250  # ms between two looks at these
TICK = 5_000  # ms between two looks for what is due
AGAIN = 60.0  # seconds after a failure until it is tried again
AT_A_TIME = 2  # apps

T = TypeVar("T")
log = structlog.get_logger("nadi.server")


@dataclass(frozen=True, slots=True)
class Kept:
    """A revision of an app, for people. `fits`: the app has the very instances and texts that it is of; another one cannot be restored."""

    name: str
    made: int
    version: int
    fits: bool
    parts: tuple[PartState, ...]


class AppRevisions:
    """See the module's text. Used in the loop of its manager."""

    def __init__(
        self,
        leading: Leading,
        write: Callable[[Write], Coroutine[Any, Any, Message]],
        store: Store,
        group: str,
        clock: Clock,
        network: HttpNetwork,
        ends: EndsOf,
        persistence: Persistence,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`write` has the leader write; `group` is the cluster in the database; `now` is the machine's time (s)."""
        self._leading = leading
        self._write = write
        self._store = store
        self._group = group
        self._clock = clock
        self._network = network
        self._ends = ends
        self._persistence = persistence
        self._now = now
        self._locks: dict[str, asyncio.Lock] = {}
        self._tried: dict[str, float] = {}

    def is_busy(self, app: str) -> bool:
        """Whether a revision of an app is being made, or revisions are let go of."""
        found = self._locks.get(app)
        return found is not None and found.locked()

    def _lock(self, app: str) -> asyncio.Lock:
        return self._locks.setdefault(app, asyncio.Lock())

    # ---- by themselves

    async def run(self) -> None:
        """Make those that are due, until cancelled."""
        while True:
            await self._clock.sleep(TICK)
            if self._persistence.enabled and self._persistence.interval > 0:
                try:
                    due = self._due()
                    for at in range(0, len(due), AT_A_TIME):
                        await asyncio.gather(*(self._try(app) for app in due[at : at + AT_A_TIME]))
                except Exception as reason:  # whatever it is, who leads goes on leading
                    log.error("no revisions", reason=repr(reason))

    def _due(self) -> list[str]:
        """The apps whose newest revision is old enough and all of whose instances run, the oldest first. An app that has drained for a change has none:
        those of before it cannot be restored any more."""
        found = self._leading.ledger()
        if found is None:
            return []
        rows, now, every = found[1], self._now(), 60 * self._persistence.interval
        last = {app: _of_now(rows, app) for app in rows.apps}
        made = {app: time_of(known[-1].name) / 1000 if known else 0.0 for app, known in last.items()}
        return [
            app
            for app in sorted(made, key=lambda name: (made[name], name))
            if not 0 <= now - made[app] < every
            and not 0 <= now - self._tried.get(app, 0.0) < min(AGAIN, every)
            and not self.is_busy(app)
            and not _silent(rows, app)
        ]

    async def _try(self, app: str) -> None:
        self._tried[app] = self._now()
        try:
            name = await self.backup(app)
            log.info("revision made", app=app, revision=name)
        except (NadiError, StoreAway) as reason:
            log.warning("no revision", app=app, reason=str(reason))
        except AppNotThere:
            return

    # ---- on demand

    def of(self, app: str) -> list[Kept]:
        """The revisions of an app, oldest first. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        _token, rows, _app = self._known(app)
        fitting = {row.name for row in restorable(rows.revisions.values(), app, rows.parts_of(app))}
        return [
            Kept(row.name, row.made, row.version, row.name in fitting, parts_of(row))
            for row in in_order(rows.revisions.values(), app)
        ]

    async def backup(self, app: str) -> str:
        """Make a revision of an app; -> its name. Errors: NO_PERSISTENCE_STORE, REVISION_FAILED, CLUSTER_UNDECIDED, StoreAway; AppNotThere."""
        self._known(app)
        self._check()
        async with self._lock(app):
            try:
                return await self._made(app)
            finally:
                await self._let_go(app)

    async def restore(self, app: str, name: str = "") -> str:
        """Have all instances begin with a revision ("": the newest one that is whole); -> its name. Waits a while for them to run.

        Errors: NO_PERSISTENCE_STORE, REVISION_NOT_FOUND, REVISION_DAMAGED, NO_GOOD_REVISION, RESTORE_NOT_POSSIBLE, CLUSTER_UNDECIDED, StoreAway; AppNotThere.
        """
        _token, rows, _app = self._known(app)
        self._check()
        async with self._lock(app):
            chosen = await self._chosen(app, rows, name)
            done = await self._done(Restore(app, chosen))
        if done.what != "restoring":
            reason = "it is of other instances, or other texts, than the app has now, or of before a change for which the app has drained"
            raise error("RESTORE_NOT_POSSIBLE", app=app, revision=chosen, reason=reason)
        await self._begun(app, chosen)
        return chosen

    async def clear(self, app: str) -> None:
        """Let go of all revisions of an app. Errors: NO_PERSISTENCE_STORE, PERSISTENCE_STORE_FAILED, CLUSTER_UNDECIDED, StoreAway; AppNotThere."""
        _token, rows, _app = self._known(app)
        self._check()
        async with self._lock(app):
            await self._done(Forget(tuple(row.name for row in in_order(rows.revisions.values(), app))))
            await self._sweep(app)

    async def clear_all(self) -> None:
        """As `clear`, of all apps. Errors: likewise, of the first that cannot; the others are cleared all the same."""
        self._check()
        found = self._leading.ledger()
        if found is None:
            raise _undecided()
        problems: list[Exception] = []
        for app in sorted(found[1].apps):
            try:
                await self.clear(app)
            except (NadiError, StoreAway) as reason:
                problems.append(reason)
            except AppNotThere:
                continue
        if problems:
            raise problems[0]

    def _check(self) -> None:
        if not self._persistence.enabled:
            raise error("NO_PERSISTENCE_STORE", reason="'state.persistence' is not enabled on this manager")

    def _known(self, app: str) -> tuple[int, Ledger, App]:
        found = self._leading.ledger()
        if found is None:
            raise _undecided()
        token, rows = found
        if app not in rows.apps:
            raise AppNotThere
        return token, rows, rows.apps[app]

    async def _done(self, write: Write) -> Done:
        answer = await self._write(write)
        if isinstance(answer, Done):
            return answer
        raise error("CLUSTER_UNDECIDED", reason=answer.reason if isinstance(answer, Unknown) else "nobody answered")

    # ---- making

    async def _made(self, app: str) -> str:
        _token, rows, row = self._known(app)
        silent = _silent(rows, app)
        if silent:
            raise error("REVISION_FAILED", app=app, reason=f"{', '.join(silent)} does not run")
        parts = rows.parts_of(app)
        name = next_name(app, int(self._now() * 1000), rows.revisions.values())
        names = await _all(self._part(rows, part) for part in parts)
        states = await asyncio.to_thread(self._read_back, app, list(zip(parts, names, strict=True)))
        done = await self._done(Record(name, app, row.version, tuple(states)))
        if done.what not in ("recorded", "unchanged"):
            raise error("REVISION_FAILED", app=app, reason="the app was changed meanwhile")
        return name

    async def _part(self, rows: Ledger, part: Part) -> str:
        """Have a worker make the revision of an instance; -> its name."""
        worker = rows.workers[rows.placements[part.instance].worker]
        path = f"/cluster/instances/{part.instance}/backup"

        def failed(why: object) -> NadiError:
            return error("REVISION_FAILED", app=part.app, reason=f"{part.instance} on {worker.id}: {why}")

        try:
            answer = await self._network.request(worker.address, "POST", path, within=MADE_WITHIN)
        except NoAnswer as reason:
            raise failed(reason) from reason
        try:
            told = msgspec.json.decode(answer.body or b"{}", type=dict[str, Any])
        except msgspec.DecodeError as reason:
            raise failed(f"status {answer.status}") from reason
        if answer.status != 201:
            raise failed(told.get("message", f"status {answer.status}"))
        return str(told["revision"])

    def _read_back(self, app: str, made: Sequence[tuple[Part, str]]) -> list[PartState]:
        """What the store has of them: workers have read them whole, and it must be one store for all. Errors: REVISION_FAILED."""
        store = store_of(self._persistence, Path())
        try:
            states = []
            for part, name in made:
                try:
                    meta = read_revision(store, part.instance, name).revision.meta
                except NadiError as reason:
                    where = (
                        f"{store.name} does not have the revision of {part.instance} that its worker has made: {reason}"
                    )
                    raise error("REVISION_FAILED", app=app, reason=where) from reason
                cut = Cut.from_offset(meta.cut)
                needs = needs_after(self._ends.of(part).under(meta.inputs), cut)
                if needs is None:
                    other = f"the revision of {part.instance} is of another text"
                    raise error("REVISION_FAILED", app=app, reason=other)
                asked = tuple((*place, chunk) for place, chunk in sorted(needs.items()))
                states.append(PartState(part.instance, name, part.digest, cut.n, asked, part.home))
            return states
        finally:
            store.close()

    # ---- letting go

    async def _let_go(self, app: str) -> None:
        """Keep as many as are wanted; what fails is done after the next one."""
        found = self._leading.ledger()
        if found is None or app not in found[1].apps:
            return
        gone = surplus(in_order(found[1].revisions.values(), app), self._persistence.keep)
        try:
            if gone:
                await self._done(Forget(tuple(row.name for row in gone)))
            await self._sweep(app)
        except (NadiError, StoreAway) as reason:
            log.warning("old revisions stay for now", app=app, reason=str(reason))

    async def _sweep(self, app: str) -> None:
        """Delete the revisions of instances that belong to none of the app. They are listed first: what is listed and then, under a valid lease, in no row,
        never will be. Errors: PERSISTENCE_STORE_FAILED, StoreAway."""
        token, rows, _app = self._known(app)
        names = await asyncio.to_thread(self._names, [part.instance for part in rows.parts_of(app)])
        seen = await self._store.read(Lease, Revision)
        if leases.fenced(seen, self._group, token) or not self._leading.leads(token):
            return
        await asyncio.to_thread(self._delete, orphans(names, seen.all(Revision)))

    def _names(self, instances: Sequence[str]) -> dict[str, list[str]]:
        store = store_of(self._persistence, Path())
        try:
            return {instance: store.names(instance) for instance in instances}
        finally:
            store.close()

    def _delete(self, gone: dict[str, list[str]]) -> None:
        store = store_of(self._persistence, Path())
        try:
            for instance, names in gone.items():
                for name in names:
                    delete_revision(store, instance, name)
        finally:
            store.close()

    # ---- restoring

    async def _chosen(self, app: str, rows: Ledger, name: str) -> str:
        """The revision to restore, all of which was read."""
        fitting = restorable(rows.revisions.values(), app, rows.parts_of(app))
        if name:
            row = rows.revisions.get(name)
            if row is None or row.app != app:
                hint = f"it has {', '.join(r.name for r in in_order(rows.revisions.values(), app)) or 'none'}"
                raise error("REVISION_NOT_FOUND", app=app, name=f" {name}", hint=hint)
            await asyncio.to_thread(self._verify, row)
            return name
        if not fitting:
            hint = "none has been made of the instances that it has now"
            raise error("REVISION_NOT_FOUND", app=app, name="", hint=hint)
        problems: list[str] = []
        for row in reversed(fitting):
            try:
                await asyncio.to_thread(self._verify, row)
            except NadiError as reason:
                log.warning("revision damaged", app=app, revision=row.name, reason=str(reason))
                problems.append(f"{row.name}: {reason.diagnostic.message}")
            else:
                return row.name
        raise error("NO_GOOD_REVISION", app=app, reasons="; ".join(problems), store="the store of the cluster")

    def _verify(self, row: Revision) -> None:
        """Read all of a revision once. Errors: REVISION_DAMAGED, REVISION_NOT_FOUND, PERSISTENCE_STORE_FAILED."""
        store = store_of(self._persistence, Path())
        try:
            for state in parts_of(row):
                read_revision(store, state.instance, state.revision).verify()
        finally:
            store.close()

    async def _begun(self, app: str, name: str) -> None:
        """Wait until all instances run again, for a while. Errors: RESTORE_NOT_POSSIBLE, where one cannot begin so."""
        until = self._clock.now() + BEGINS_WITHIN
        while self._clock.now() < until:
            found = self._leading.ledger()
            if found is None or app not in found[1].apps:
                return
            rows = found[1]
            for part in rows.parts_of(app):
                begins, failed = rows.beginnings.get(part.instance), rows.failures.get(part.instance)
                if begins is not None and failed is not None and failed.epoch >= begins.epoch:
                    reason = f"{part.instance} does not start: {failed.reason}"
                    raise error("RESTORE_NOT_POSSIBLE", app=app, revision=name, reason=reason)
            if not _silent(rows, app):
                return
            await self._clock.sleep(LOOK)


def _of_now(rows: Ledger, app: str) -> list[Revision]:
    """The revisions of the instances that an app has now, oldest first."""
    return [row for row in in_order(rows.revisions.values(), app) if is_of(parts_of(row), rows.parts_of(app))]


def _silent(rows: Ledger, app: str) -> list[str]:
    """The instances of an app that do not run as they are to; of an app without any, the app."""
    found = []
    parts = rows.parts_of(app)
    for part in parts:
        placed, actual = rows.placements.get(part.instance), rows.actual.get(part.instance)
        runs = (
            placed is not None
            and actual is not None
            and placed.wanted
            and placed.digest == part.digest
            and (actual.worker, actual.epoch, actual.state) == (placed.worker, placed.epoch, "running")
        )
        if not runs:
            found.append(part.instance)
    return found if parts else [app]


def _undecided() -> NadiError:
    return error("CLUSTER_UNDECIDED", reason="no manager leads now, or it has just begun to")


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; the first error when all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
