"""What must hold, checked whenever something happens that could break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nadi.cluster.contract import Change
from nadi.cluster.rows import App, AppChange, Epoch, Key, Lease, Row, Stale, key_of

if TYPE_CHECKING:
    from simmachine import Machine, Publisher

REACTION = 2_500
"""ms after a pause within which a worker has stopped what it may no longer run."""


class Broken(AssertionError):
    """An invariant that does not hold."""


@dataclass(slots=True)
class Receiver:
    """Where the outputs of all instances arrive: of each instance the highest epoch that was seen is accepted, and no lower one."""

    highest: dict[str, tuple[int, str]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)

    def accepts(self, instance: str, epoch: int, publisher: str, now: float) -> bool:
        best = self.highest.get(instance)
        if best is not None and epoch < best[0]:
            return False
        if best is not None and epoch == best[0] and best[1] != publisher:
            raise Broken(f"two publishers of {instance} accepted at epoch {epoch}: {best[1]} and {publisher}")
        self.highest[instance] = (epoch, publisher)
        self.last[instance] = now
        return True


class Watch:
    """The invariants on placement and on the database. `now` is the simulation's time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.receiver = Receiver()
        self.running: dict[str, dict[str, Publisher]] = {}
        self.deletable: set[str] = set()
        self.found: list[Broken] = []
        self.all_drained: set[str] = set()  # homes
        self.inherited: set[str] = set()  # homes that somebody has begun with

    def started(self, publisher: Publisher) -> None:
        """An instance runs on a machine: nowhere else, unless a worker there was paused and cannot know yet."""
        others = self.running.setdefault(publisher.instance, {})
        for other in others.values():
            if not _excused(other.machine, self.now()) and not _excused(publisher.machine, self.now()):
                self._broken(
                    f"{publisher.instance} starts on {publisher.machine.name} (epoch {publisher.epoch}) "
                    f"while it runs on {other.machine.name} (epoch {other.epoch})"
                )
        others[publisher.machine.name] = publisher
        self._begins(publisher)

    def _begins(self, publisher: Publisher) -> None:
        """Who inherits begins when those before it have drained; these never begin again, unless their worker cannot know yet."""
        for home in filter(None, publisher.heritage.split(",")):
            self.inherited.add(home)
            if home not in self.all_drained:
                self._broken(f"{publisher.home} begins with what {home} leaves, which has not drained")
        if publisher.home in self.inherited and not _excused(publisher.machine, self.now()):
            self._broken(f"{publisher.home} begins on {publisher.machine.name}, after others have begun with its state")

    def drained(self, publisher: Publisher) -> None:
        self.all_drained.add(publisher.home)

    def left(self, machine: Machine) -> None:
        """A worker that may go has nothing any more: its process ends nothing."""
        if machine.runs:
            self._broken(f"{machine.name} has left, and {sorted(machine.runs)} run there")

    def ended(self, publisher: Publisher) -> None:
        self.running.get(publisher.instance, {}).pop(publisher.machine.name, None)

    def published(self, publisher: Publisher) -> None:
        """Something that runs should still run: no later start is anywhere, unless its worker cannot know yet."""
        newest = max(p.epoch for p in self.running[publisher.instance].values())
        if newest > publisher.epoch and not _excused(publisher.machine, self.now()):
            self._broken(
                f"{publisher.instance} (epoch {publisher.epoch}) runs on at {publisher.machine.name} beside epoch {newest}"
            )

    def accepts(self, publisher: Publisher) -> bool:
        try:
            return self.receiver.accepts(publisher.instance, publisher.epoch, publisher.name, self.now())
        except Broken as reason:
            self.found.append(reason)
            return True

    def committed(self, rows: Mapping[Key, Row], change: Change) -> None:
        """Nothing is lost from the database: tokens and epochs only grow, an app goes only when its user said so."""
        for row in change.put:
            before = rows.get(key_of(row))
            if isinstance(row, Lease) and isinstance(before, Lease) and row.token < before.token:
                self._broken(f"the token of {row.name} went from {before.token} back to {row.token}")
            if isinstance(row, Epoch) and isinstance(before, Epoch) and row.epoch <= before.epoch:
                self._broken(f"the epoch of {row.instance} went from {before.epoch} to {row.epoch}")
            if isinstance(row, App) and isinstance(before, App) and row.version <= before.version:
                self._broken(f"the version of {row.name} went from {before.version} to {row.version}")
        self._check_become(rows, change)
        for kind, values in change.drop:
            if kind is Epoch or kind is Lease:
                self._broken(f"the {kind.__name__} of {values[0]} was deleted")
            if kind is App and values[0] not in self.deletable:
                self._broken(f"the app {values[0]} was deleted, which nobody asked for")

    def _check_become(self, rows: Mapping[Key, Row], change: Change) -> None:
        """Where an app has drained and becomes its next version, what the one before has left is noted: else nobody removes its channels."""
        become = {values[0] for kind, values in change.drop if kind is AppChange}
        left = {row.name for row in change.put if isinstance(row, Stale)}
        for row in change.put:
            before = rows.get(key_of(row))
            if not (isinstance(row, App) and isinstance(before, App) and row.name in become):
                continue
            if row.version > before.version and f"{row.name}:{before.version}" not in left:
                self._broken(f"{row.name} became version {row.version}, and version {before.version} is forgotten")

    def _broken(self, text: str) -> None:
        self.found.append(Broken(text))

    def check(self) -> None:
        if self.found:
            raise self.found[0]


def _excused(machine: Machine, now: float) -> bool:
    """Whether a worker was paused, so that it may still run what it should not: its publishers are refused then."""
    return machine.process.paused or now - machine.resumed < REACTION
