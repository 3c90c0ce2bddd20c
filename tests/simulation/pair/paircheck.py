"""What must hold of a pair, checked whenever something happens that could break it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pairdisk import CUTS, Disk, Slot, content_of
from simcheck import Broken

from nadi.cluster.contract import Change
from nadi.cluster.rows import InSync, Key, Lease, Row, key_of


class Watch:
    """The receiver of outputs, the record of what was acknowledged, and what every place of a service is."""

    def __init__(self) -> None:
        self.found: list[Broken] = []
        self.acknowledged: dict[str, None] = {}
        self.final: dict[Slot, str] = {}
        self.epoch = 0
        self.publisher = ""
        self.received: dict[int, str] = {}
        self.last_received = self.last_acknowledged = -1e9
        self.amnesia = False  # the database has forgotten who was in the set
        self.forgives = 0  # up to this epoch: what was received from before a loss may be made otherwise

    def broken(self, text: str) -> None:
        self.found.append(Broken(text))

    def check(self) -> None:
        if self.found:
            raise self.found[0]

    # ---- services ------------------------------------------------------------------------------------------------------

    def wrote(self, disk: Disk, slot: Slot, content: str, who: str) -> None:
        """A service has something at a place: nobody's has something else there."""
        disk.services[slot] = content
        if disk.doomed:
            return
        before = self.final.setdefault(slot, content)
        if before != content:
            self.broken(f"{who} has {content} at {slot}, where {before} was written before")

    def begins(self, disk: Disk, who: str) -> None:
        """A node is active, and has written what it held back: everything that was acknowledged is there."""
        self.complete(disk, who)
        for slot, content in self.final.items():
            if slot[0] == CUTS and disk.services.get(slot) != content:
                self.broken(f"{who} begins without the cut {slot[1]}")

    def complete(self, disk: Disk, who: str) -> None:
        counted = Counter(disk.events())
        for event in self.acknowledged:
            if counted[event] != 1:
                self.broken(f"{event} was acknowledged, and is {counted[event]} times in the journal of {who}")
        for event, number in counted.items():
            if number > 1:
                self.broken(f"{event} is {number} times in the journal of {who}")

    def lose(self, disk: Disk) -> None:
        """A promotion: what this disk does not have is lost, and may be something else from now on. What it holds back it has, and writes next; where its own
        services have a place already, that must be the same."""
        has = {*disk.events(), *map(content_of, disk.held.values())}
        self.acknowledged = {event: None for event in self.acknowledged if event in has}
        self.final = dict(disk.services)
        self.received.clear()
        self.forgives = self.epoch
        disk.doomed = False

    # ---- outputs -------------------------------------------------------------------------------------------------------

    def receives(self, epoch: int, publisher: str, cuts: Mapping[int, str], now: float) -> bool:
        """The receiver accepts the highest epoch that it has seen, and no lower one. What a cut gives is the same, whoever gives it."""
        if epoch < self.epoch:
            return False
        if epoch == self.epoch and publisher != self.publisher:
            self.broken(f"two publishers accepted at epoch {epoch}: {self.publisher} and {publisher}")
        self.epoch, self.publisher, self.last_received = epoch, publisher, now
        if epoch <= self.forgives:  # a publisher from before a loss; nobody builds on what it gives
            return True
        for n, content in cuts.items():
            before = self.received.setdefault(n, content)
            if before != content:
                self.broken(f"cut {n} gave {before} and gives {content}")
        return True

    # ---- the database ----------------------------------------------------------------------------------------------------

    def committed(self, rows: Mapping[Key, Row], change: Change) -> None:
        for row in change.put:
            before = rows.get(key_of(row))
            if isinstance(row, Lease) and isinstance(before, Lease) and row.token < before.token:
                self.broken(f"the token went from {before.token} back to {row.token}")
            if isinstance(row, InSync) and isinstance(before, InSync) and row.number <= before.number:
                self.broken(f"change {before.number} of the in-sync set is followed by {row.number}")
        for kind, _values in change.drop:
            if kind in (Lease, InSync):
                self.broken(f"the {kind.__name__} was deleted")
