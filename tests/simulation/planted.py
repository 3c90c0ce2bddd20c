"""Bugs to find: each takes one rule of the protocol away from the production modules, as somebody could by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from nadi.cluster import changes, election, instances, leader, leases, presence, reconciliation, settings, worker
from nadi.cluster.contract import Change, Seen
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Done, Message, Unknown
from nadi.cluster.rows import Epoch, Lease

Patch = tuple[Any, str, Any]


def _expiry_ignored(seen: Seen, name: str, who: leases.Candidate, length: int) -> Lease:
    row = seen.get(Lease, name)
    token = 1 if row is None else row.token + (row.holder != who.incarnation)
    return Lease(name, who.id, who.incarnation, who.address, token, seen.now, seen.now + length)


def _token_kept(seen: Seen, name: str, who: leases.Candidate, length: int) -> Lease | None:
    row = seen.get(Lease, name)
    if row is not None and row.holder != who.incarnation and seen.now < row.expires:
        return None
    return Lease(name, who.id, who.incarnation, who.address, 1, seen.now, seen.now + length)


def _epoch_kept(self: Ledger, instance: str) -> int:
    """An instance that starts again where it is keeps its epoch."""
    placed = self.placements.get(instance)
    if placed is not None and placed.wanted:
        return placed.epoch
    return _raised(self, instance)


def _epoch_forgotten(self: Ledger, instance: str) -> int:
    """Epochs of apps that were deleted begin at 1 again."""
    before = self.epochs.get(instance)
    epoch = 1 if before is None or instance not in self.actual else before.epoch + 1
    if not instance.startswith("app:"):
        self.epochs[instance] = Epoch(instance, epoch)
        return epoch
    return _raised(self, instance)


_raised = Ledger.raised


async def _never(self: worker.Worker) -> None:
    return


def _waiting_forgotten(ledger: Ledger, about: reconciliation.Situation) -> None:
    hidden = {name: app for name, app in ledger.apps.items() if name in ledger.waiting}
    for name in hidden:
        del ledger.apps[name]
    waiting = dict(ledger.waiting)
    _place(ledger, about)
    ledger.apps.update(hidden)
    ledger.waiting.update(waiting)


_place = reconciliation.place_missing


def _steps(**others: Callable[..., None]) -> Patch:
    changed = tuple(others.get(step.__name__, step) for step in reconciliation.STEPS)
    return reconciliation, "STEPS", changed


async def _unknown_is_not_made(self: leader.LeaderTerm, change: Change) -> Unknown | None:
    outcome = await _commit(self, change)
    if outcome is not None and outcome.reason == "the database did not answer":
        self._sure = True
    return outcome


async def _unknown_is_made(self: leader.LeaderTerm, change: Change) -> Unknown | None:
    outcome = await _commit(self, change)
    if outcome is not None and outcome.reason == "the database did not answer":
        self._sure = True
        return None
    return outcome


_commit = leader.LeaderTerm._commit


def _gone_at_once(ledger: Ledger, row: Any) -> None:
    del ledger.placements[row.instance]


def _incarnation_ignored(ledger: Ledger, worker: str) -> None:
    return


def _confirmed_untold(row: Any, heard: Any, told: Any) -> bool:
    return heard is not None and (row.instance not in heard.running or heard.running[row.instance].over)


async def _acknowledged_early(self: leader.LeaderTerm, write: Any) -> Message:
    asked = leader.Asked(write, leader.asyncio.get_running_loop().create_future())
    self._inbox.append(asked)
    self._bell.ring()
    return Done("created", version=(write.after or 0) + 1) if hasattr(write, "after") else await asked.answer


def _stopped_at_once(ledger: Ledger, about: reconciliation.Situation) -> None:
    for row in [row for row in ledger.placements.values() if not row.wanted]:
        told = (about.token, about.told.get(row.instance, 0))
        if reconciliation.is_confirmed(row, about.presences.get(row.worker), told):
            del ledger.placements[row.instance]


def _leaves_at_once(ledger: Ledger, about: reconciliation.Situation) -> None:
    """What a worker runs that leaves is given to others before it has stopped there."""
    for name, heard in about.presences.items():
        row = ledger.workers.get(name)
        if row is not None and not row.gone and heard.leaving:
            ledger.workers[name] = replace(row, gone=True)
            for placed in [p for p in ledger.placements.values() if p.worker == name]:
                del ledger.placements[placed.instance]


class _Nobody:
    """An attribute that is always an empty set."""

    def __get__(self, _instance: object, _owner: object = None) -> set[str]:
        return set()

    def __set__(self, _instance: object, _value: object) -> None:
        return


PLANTED: dict[str, tuple[Patch, ...]] = {
    "a leader does not check its lease": ((leases.Held, "valid", lambda self, now: True),),
    "writes carry no token": ((leases, "fenced", lambda seen, name, token: None),),
    "a manager takes a lease that is not over": ((election.leases, "claimed", _expiry_ignored),),
    "a new leader keeps the token": ((election.leases, "claimed", _token_kept),),
    "a worker counts its lease from the answer": (
        (worker, "counted_until", lambda sent, answered, length: answered + settings.at_most(length)),
    ),
    "a worker does not stop when its lease ends": ((worker.Worker, "_watch_lease", _never),),
    "a worker leaves no time to stop": ((worker, "stops_by", lambda until, stop_within: until),),
    "a new leader does not wait for the leases of the one before": (
        (leader, "waits_until", lambda term, timing: term.began),
    ),
    "a start keeps the epoch of the one before": ((Ledger, "raised", _epoch_kept),),
    "epochs are forgotten with the instance": ((Ledger, "raised", _epoch_forgotten),),
    "a waiting app is forgotten": (_steps(place_missing=_waiting_forgotten),),
    "a commit of unknown outcome is taken for not made": ((leader.LeaderTerm, "_commit", _unknown_is_not_made),),
    "a commit of unknown outcome is taken for made": ((leader.LeaderTerm, "_commit", _unknown_is_made),),
    "a stop counts as told before it is in the database": (_steps(free_stopped=_stopped_at_once),),
    "a worker that is just being declared gone is answered": ((leader.LeaderTerm, "_leaving", _Nobody()),),
    "a stop counts as done before the worker was told": ((reconciliation, "is_confirmed", _confirmed_untold),),
    "an instance moves before it has stopped": ((reconciliation, "_stop", _gone_at_once),),
    "a worker that was started again is taken for the one before": (
        (reconciliation, "_restarted", _incarnation_ignored),
    ),
    "a write is acknowledged before it is in the database": ((leader.LeaderTerm, "submit", _acknowledged_early),),
    "a worker starts an epoch twice": ((instances, "may_start", lambda order, started: order.text is not None),),
    "a worker that leaves is gone before it has stopped": (_steps(let_leave=_leaves_at_once),),
    "an instance that has not drained counts as one that has": ((changes, "_has_drained", lambda row, about: True),),
    "a leader counts a worker's lease too short": ((presence, "at_least", lambda ms: ms // 2),),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The production modules with one bug."""
    with ExitStack() as stack:
        for where, what, instead in PLANTED[name]:
            stack.enter_context(patch.object(where, what, instead, create=True))
        yield
