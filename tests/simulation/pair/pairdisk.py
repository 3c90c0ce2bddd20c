"""The disk of a simulated node: what survives its process, and goes when the disk is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.replica.contract import JournalAppend, Record, Statements

Slot = tuple[str, int]
"""A place in a service: a subject of the journal and a position, or the cut log and a number."""
CUTS = "cuts"


def slot_of(record: Record) -> Slot:
    if isinstance(record, JournalAppend):
        return record.subject, record.first
    if isinstance(record, Statements):
        return CUTS, record.n
    raise TypeError(f"nothing here writes a {type(record).__name__}")


def content_of(record: Record) -> str:
    if isinstance(record, JournalAppend):
        return record.payload.decode()
    if isinstance(record, Statements):
        return record.statements[0][0]
    raise TypeError(f"nothing here writes a {type(record).__name__}")


@dataclass(slots=True)
class Disk:
    """Implements `nadi.cluster.pair.Memory`, too. `held`: what the partner has sent and not confirmed, by its number."""

    store: str
    token: int = 0
    whole: bool = True
    services: dict[Slot, str] = field(default_factory=dict)
    held: dict[int, Record] = field(default_factory=dict)
    apps: dict[str, str] = field(default_factory=dict)
    doomed: bool = False  # a promotion with loss went over what it has

    def note(self, token: int) -> None:
        self.token = max(self.token, token)

    def mark(self, whole: bool) -> None:
        self.whole = whole

    def next(self, subject: str) -> int:
        """The first position that is free."""
        return max((n for name, n in self.services if name == subject), default=0) + 1

    def events(self) -> list[str]:
        return [content for (name, _n), content in self.services.items() if name != CUTS]

    def cuts(self) -> dict[int, str]:
        return {n: content for (name, n), content in self.services.items() if name == CUTS}
