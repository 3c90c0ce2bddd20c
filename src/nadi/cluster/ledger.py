"""The rows that the leader decides about, in memory: read when its term begins, changed only with what it committed.

Nobody else writes them while its token is the highest, so what it has is what the database has. After a commit whose outcome is unknown it reads again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from nadi.cluster.contract import Seen
from nadi.cluster.rows import (
    Actual,
    App,
    AppChange,
    Beginning,
    Drained,
    Epoch,
    Failure,
    Key,
    Part,
    Placement,
    Revision,
    Row,
    Stale,
    Waiting,
    WorkerRow,
    key_of,
)


@dataclass(slots=True)
class Ledger:
    """Rows by key. Rows are frozen, so that a copy of the dictionaries is a copy of all."""

    workers: dict[str, WorkerRow] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict)
    epochs: dict[str, Epoch] = field(default_factory=dict)
    actual: dict[str, Actual] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    revisions: dict[str, Revision] = field(default_factory=dict)
    beginnings: dict[str, Beginning] = field(default_factory=dict)
    changes: dict[str, AppChange] = field(default_factory=dict)
    drained: dict[str, Drained] = field(default_factory=dict)
    stale: dict[str, Stale] = field(default_factory=dict)

    @staticmethod
    def of(seen: Seen) -> Ledger:
        held: list[dict[str, Any]] = [{key_of(row)[1][0]: row for row in seen.all(kind)} for kind in HELD]
        return Ledger(*held)

    def copy(self) -> Ledger:
        return Ledger(*(dict(getattr(self, name)) for name in _NAMES))

    def raised(self, instance: str) -> int:
        """The next epoch of an instance, which is then the highest: no other start has it."""
        before = self.epochs.get(instance)
        epoch = 1 if before is None else before.epoch + 1
        self.epochs[instance] = Epoch(instance, epoch)
        return epoch

    def parts_of(self, app: str) -> list[Part]:
        return [part for part in self.parts.values() if part.app == app]


HELD: tuple[type[Row], ...] = (
    WorkerRow, App, Part, Placement, Epoch, Actual, Waiting, Failure, Revision, Beginning, AppChange, Drained, Stale,
)  # fmt: skip
_NAMES = [f.name for f in fields(Ledger)]


def puts(before: Ledger, after: Ledger) -> Iterator[Row]:
    """The rows of `after` that `before` does not have."""
    for name in _NAMES:
        old: dict[str, Any] = getattr(before, name)
        for key, row in getattr(after, name).items():
            known = old.get(key)
            if known is not row and known != row:
                yield row


def drops(before: Ledger, after: Ledger) -> Iterator[Key]:
    """The keys of `before` that `after` does not have."""
    for name in _NAMES:
        new = getattr(after, name)
        for key, row in getattr(before, name).items():
            if key not in new:
                yield key_of(row)
