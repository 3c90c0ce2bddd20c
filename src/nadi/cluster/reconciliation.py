"""What the leader decides: steps that change a copy of the ledger, none of which does anything else.

Each step looks at rows and at what workers said, and writes what should be. What follows from a step that needs time (a back-off, the end of a lease) is put
into `Situation.due`: the leader looks again then.

One rule keeps two from running the same: the row of a placement lies with one worker until that worker has said, under this term, that nothing of the instance
is left, or has a new incarnation, or its lease is over. Only then the instance may be placed again, always with a higher epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urlsplit

from nadi.cluster import placement
from nadi.cluster.changes import change_apps
from nadi.cluster.ledger import Ledger
from nadi.cluster.placement import Placed, Seat, Tally, Wish
from nadi.cluster.presence import Mark, Presence
from nadi.cluster.rows import Actual, Failure, Part, Placement, Waiting, WorkerRow
from nadi.cluster.settings import Placing, Timing

ELSEWHERE_AFTER = 3
"""An instance that failed so often in a row tries another worker."""


UNHEARD = "managers have just changed, and not all workers were heard yet"


@dataclass(slots=True)
class Situation:
    """What the leader knows beside the rows. Times are by its clock but for `stamp`, the database's."""

    now: int
    stamp: int
    quiet_until: int  # workers that were not heard in this term may be alive until then
    token: int
    presences: dict[str, Presence]
    told: dict[str, int]  # the decision that told a worker to stop an instance; none where the worker was not told yet
    wishes: dict[str, Wish]  # where instances that move should go
    timing: Timing
    placing: Placing
    due: int | None = None
    events: list[tuple[str, str, str]] = field(default_factory=list)  # kind, subject, detail

    def look_again(self, at: int) -> None:
        if self.due is None or at < self.due:
            self.due = at

    def complete(self, ledger: Ledger) -> bool:
        """Whether all workers that may be alive were heard, or were waited for long enough: placing before would give all to those that came first."""
        if self.now >= self.quiet_until - self.timing.lease // 2:
            return True
        self.look_again(self.quiet_until - self.timing.lease // 2)
        return all(row.gone or name in self.presences for name, row in ledger.workers.items())

    def says(self, kind: str, subject: str, detail: str = "") -> None:
        self.events.append((kind, subject, detail))


def reconcile(ledger: Ledger, about: Situation) -> None:
    """All steps, in the order in which each finds what it needs."""
    for step in STEPS:
        step(ledger, about)


def hear_workers(ledger: Ledger, about: Situation) -> None:
    """Workers join and come back. One with a new incarnation has lost all that it ran."""
    for name, heard in sorted(about.presences.items()):
        if not heard.alive(about.now):
            continue
        row = ledger.workers.get(name)
        if heard.leaving and (row is None or row.gone):
            continue  # it has left, and only waits to hear so
        if row is not None and not row.gone and row.incarnation != heard.incarnation:
            _restarted(ledger, name)
            about.says("worker restarted", name, heard.address)
        if row is None or row.gone:
            about.says("worker joined", name, heard.address)
        now = (heard.address, heard.incarnation, heard.receiver, False, heard.version)
        if row is None or (row.address, row.incarnation, row.receiver, row.gone, row.version) != now:
            draining = row is not None and row.draining
            ledger.workers[name] = WorkerRow(name, *now[:3], draining, False, about.stamp, heard.version)


def _restarted(ledger: Ledger, worker: str) -> None:
    for row in [row for row in ledger.placements.values() if row.worker == worker]:
        if row.wanted:
            _start_again(ledger, row)
        else:
            del ledger.placements[row.instance]


def _start_again(ledger: Ledger, row: Placement) -> None:
    """The same worker runs it with a higher epoch."""
    ledger.placements[row.instance] = replace(row, epoch=ledger.raised(row.instance))


def miss_workers(ledger: Ledger, about: Situation) -> None:
    """Workers whose lease is over are gone, and with them what they ran. One that was not heard in this term may have been granted a lease by the leader
    before: it is waited for as long as that can last."""
    for name, row in sorted(ledger.workers.items()):
        if row.gone:
            continue
        heard = about.presences.get(name)
        until = _until(heard, about)
        if about.now < until:
            about.look_again(until)
            continue
        ledger.workers[name] = replace(row, gone=True, since=about.stamp)
        about.says("worker gone", name, "its lease is over")
        for instance in [p.instance for p in ledger.placements.values() if p.worker == name]:
            del ledger.placements[instance]


def _until(heard: Presence | None, about: Situation) -> int:
    return about.quiet_until if heard is None else heard.until


def note_actual(ledger: Ledger, about: Situation) -> None:
    """What workers say of their instances, as rows."""
    said: dict[str, Actual] = {}
    for name, row in ledger.workers.items():
        heard = about.presences.get(name)
        if row.gone:
            continue
        if heard is None:
            said.update({a.instance: a for a in ledger.actual.values() if a.worker == name})
            continue
        for found in heard.running.values():
            known = said.get(found.instance)
            if known is None or known.epoch < found.epoch:
                said[found.instance] = Actual(found.instance, name, found.epoch, found.state, found.reason)
    ledger.actual = said


def free_stopped(ledger: Ledger, about: Situation) -> None:
    """An instance that was to stop, and of which its worker has nothing left, lies with nobody."""
    for row in [row for row in ledger.placements.values() if not row.wanted]:
        told = about.told.get(row.instance)
        if told is not None and is_confirmed(row, about.presences.get(row.worker), (about.token, told)):
            del ledger.placements[row.instance]


def is_confirmed(row: Placement, heard: Presence | None, told: Mark) -> bool:
    """Whether the worker has taken over the decision that stopped an instance, and has nothing of it any more."""
    if heard is None or heard.applied < told:
        return False
    found = heard.running.get(row.instance)
    return found is None or found.over


def withdraw(ledger: Ledger, about: Situation) -> None:
    """Instances that no app has any more stop; those whose text changed start again where they are."""
    for instance in [name for name in ledger.beginnings if name not in ledger.parts]:
        del ledger.beginnings[instance]
    for row in list(ledger.placements.values()):
        part = ledger.parts.get(row.instance)
        if not row.wanted:
            continue
        if part is None:
            _stop(ledger, row)
        elif part.digest == row.digest:
            continue
        elif part.listens and _tally(ledger, about).occupied.hinders(part.listens, row.worker, row.worker):
            _stop(ledger, row)  # somebody has a port there that the new text listens on
        else:
            ledger.placements[row.instance] = replace(row, epoch=ledger.raised(row.instance), digest=part.digest)


def _stop(ledger: Ledger, row: Placement) -> None:
    ledger.placements[row.instance] = replace(row, wanted=False)


def retry_failed(ledger: Ledger, about: Situation) -> None:
    """Instances that failed start again after a pause that grows; every so often on another worker."""
    for instance in [name for name in ledger.failures if name not in ledger.parts]:
        del ledger.failures[instance]
    for row in list(ledger.placements.values()):
        heard = about.presences.get(row.worker)
        found = None if heard is None else heard.running.get(row.instance)
        if heard is None or found is None or found.epoch != row.epoch or not row.wanted:
            continue
        since = heard.since.get((row.instance, row.epoch), about.now)
        if found.state == "ended":
            _start_again(ledger, row)
        elif found.state == "failed":
            _retry(ledger, about, row, since, found.reason)
        elif found.state == "running" and row.instance in ledger.failures:
            _forgive(ledger, about, row.instance, since)


def _retry(ledger: Ledger, about: Situation, row: Placement, since: int, reason: str) -> None:
    known = ledger.failures.get(row.instance)
    if known is None or known.epoch != row.epoch:
        known = Failure(row.instance, (0 if known is None else known.count) + 1, row.epoch, reason)
        ledger.failures[row.instance] = known
        about.says("instance failed", row.instance, reason)
    at = since + about.timing.pause(known.count)
    if about.now < at:
        about.look_again(at)
    elif known.count % ELSEWHERE_AFTER == 0:
        about.wishes[row.instance] = Wish(away=row.worker)
        _stop(ledger, row)
    else:
        _start_again(ledger, row)


def _forgive(ledger: Ledger, about: Situation, instance: str, since: int) -> None:
    at = since + about.timing.steady
    if about.now < at:
        about.look_again(at)
    else:
        del ledger.failures[instance]


def leave_drained(ledger: Ledger, about: Situation) -> None:
    """Instances leave workers that are being drained, as long as there is another one for them."""
    if not any(worker.draining for worker in ledger.workers.values()):
        return
    seats, occupied = _seats(ledger, about), _tally(ledger, about).occupied
    for row in list(ledger.placements.values()):
        worker, part = ledger.workers.get(row.worker), ledger.parts.get(row.instance)
        if worker is None or part is None or not worker.draining or not row.wanted:
            continue
        usable = [s.receiver for s in seats if not occupied.hinders(part.listens, s.worker, row.worker)]
        if (part.receiver and usable) or False in usable:
            _stop(ledger, row)


def let_leave(ledger: Ledger, about: Situation) -> None:
    """What workers have that are about to end stops there, also where nobody else can take it: it would end anyway. One that has nothing left is gone, whatever
    lease it has."""
    for name, heard in sorted(about.presences.items()):
        row = ledger.workers.get(name)
        if row is None or row.gone or not heard.leaving or row.incarnation != heard.incarnation:
            continue
        lying = [placed for placed in ledger.placements.values() if placed.worker == name]
        wanted = [placed for placed in lying if placed.wanted]
        if not lying:
            ledger.workers[name] = replace(row, gone=True, since=about.stamp)
            about.says("worker left", name)
        elif wanted:
            about.says("worker leaves", name, f"with {len(wanted)} instances")
        for placed in wanted:
            _stop(ledger, placed)


def place_missing(ledger: Ledger, about: Situation) -> None:
    """Apps with instances that lie nowhere are placed whole, or wait whole, with the reason in a row."""
    for app in [name for name in ledger.waiting if name not in ledger.apps]:
        del ledger.waiting[app]
    complete = about.complete(ledger)
    if not ledger.waiting and ledger.parts.keys() <= ledger.placements.keys() | ledger.drained.keys():
        return
    by_app: dict[str, list[Part]] = {}
    for part in ledger.parts.values():
        by_app.setdefault(part.app, []).append(part)
    tally = _tally(ledger, about)
    for app in sorted(ledger.apps):
        parts = [part for part in by_app.get(app, []) if part.instance not in ledger.drained]
        missing = [part for part in parts if part.instance not in ledger.placements]
        if not missing:
            _settle(ledger, about, app, parts)
            continue
        placed = placement.place(missing, tally, about.wishes) if complete else Placed({}, UNHEARD)
        if placed.reason:
            _wait(ledger, about, app, parts, placed.reason)
            continue
        for part in missing:
            worker = placed.workers[part.instance]
            epoch = ledger.raised(part.instance)
            drains = app in ledger.changes
            ledger.placements[part.instance] = Placement(part.instance, worker, epoch, part.digest, True, drains)
            about.wishes.pop(part.instance, None)
        _settle(ledger, about, app, parts)


def _settle(ledger: Ledger, about: Situation, app: str, parts: list[Part]) -> None:
    """The app does not wait where all that it has is placed and wanted there."""
    rows = [ledger.placements.get(part.instance) for part in parts]
    if app in ledger.waiting and all(row is not None and row.wanted for row in rows):
        del ledger.waiting[app]
        about.says("app placed", app)


def _wait(ledger: Ledger, about: Situation, app: str, parts: list[Part], reason: str) -> None:
    known = ledger.waiting.get(app)
    if known is None or known.reason != reason:
        ledger.waiting[app] = Waiting(app, reason)
        about.says("app waits", app, reason)
    if about.now < about.quiet_until and any(
        not row.gone and name not in about.presences for name, row in ledger.workers.items()
    ):
        return  # a worker that is not heard yet may be all that is missing: what runs goes on
    for part in parts:
        row = ledger.placements.get(part.instance)
        if row is not None and row.wanted:
            _stop(ledger, row)


def balance(ledger: Ledger, about: Situation) -> None:
    """Move instances onto workers that have less, a few at a time, once everything runs and nobody is new."""
    if ledger.waiting or ledger.changes or any(not row.wanted for row in ledger.placements.values()):
        return
    for seat in _seats(ledger, about):
        heard = about.presences[seat.worker]
        steady = heard.joined + about.timing.steady
        if about.now < steady:
            about.look_again(steady)
            return
    placed = [(ledger.parts[row.instance], row.worker) for row in ledger.placements.values()]
    if not all(_runs(ledger, part.instance) or part.instance in ledger.failures for part, _worker in placed):
        return
    for instance, worker in placement.moves(placed, _tally(ledger, about), about.placing.moves).items():
        about.wishes[instance] = Wish(to=worker)
        _stop(ledger, ledger.placements[instance])
        about.says("instance moves", instance, "for balance")


def _runs(ledger: Ledger, instance: str) -> bool:
    row, found = ledger.placements[instance], ledger.actual.get(instance)
    return found is not None and found.state == "running" and (found.worker, found.epoch) == (row.worker, row.epoch)


def _seats(ledger: Ledger, about: Situation) -> list[Seat]:
    """Workers that may be given instances: heard in this term, alive, neither drained nor about to end."""
    found = []
    for name, row in ledger.workers.items():
        heard = about.presences.get(name)
        if heard is not None and not (row.gone or row.draining or heard.leaving) and heard.alive(about.now):
            found.append(Seat(name, row.receiver, heard.metrics.cpu, _host(row)))
    return found


def _tally(ledger: Ledger, about: Situation) -> Tally:
    placed = [(part, row.worker) for row in ledger.placements.values() if (part := ledger.parts.get(row.instance))]
    hosts = {name: _host(row) for name, row in ledger.workers.items()}
    return Tally.of(_seats(ledger, about), placed, about.placing, hosts)


def _host(row: WorkerRow) -> str:
    """The machine of a worker, as its address names it."""
    return _host_in(row.address)


@lru_cache(maxsize=10_000)
def _host_in(address: str) -> str:
    return urlsplit(address).hostname or ""


Step = Callable[[Ledger, Situation], None]

STEPS: tuple[Step, ...] = (
    hear_workers, miss_workers, note_actual, free_stopped, change_apps, withdraw, retry_failed, leave_drained, let_leave, place_missing, balance,
)  # fmt: skip
