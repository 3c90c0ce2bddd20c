"""How a node of a pair describes itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nadi.errors import Diagnostic


class Role(StrEnum):
    """`STARTING`: it has the right, and begins. `SUSPENDED`: it is active, and acknowledges nothing until the partner or the database answers. `STOPPING`: it
    has lost the right, and ends what runs."""

    PASSIVE = "passive"
    STARTING = "starting"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Partner:
    """The other node, as far as this one knows it."""

    id: str
    address: str


@dataclass(frozen=True, slots=True)
class PairStatus:
    """A node at one moment. Times are the database's, in ms of the epoch."""

    id: str
    group: str
    role: Role
    token: int  # the highest that it knows
    active: str  # the id of the active node; "" where nobody is known to be
    partner: Partner | None
    in_sync: bool  # both nodes are in the in-sync set
    last_sync: int | None  # when the partner last answered that it has all, or the active one that this node follows it
    skew: int | None  # of this node's wall clock, in ms; None where the database has not answered yet
    alarms: tuple[Diagnostic, ...]
    reason: str  # why it is not in order; "" where it is
    unready: str  # why the passive node could not go on at once, as far as this node knows; "" where it could


@dataclass(frozen=True, slots=True)
class Loss:
    """What a promotion would lose, or has lost: all that was accepted after `since` (ms of the epoch; None: nothing) and is only in the stores of `others`."""

    since: int | None
    others: tuple[str, ...]
    reason: str

    @property
    def none(self) -> bool:
        return self.since is None
