"""Whose turn it is to publish, where two clusters run the same app and only one of them is to (`publish='active'`): what any kind of broker says and does.

The turn has a token, and the greatest token counts. Each broker keeps the turn and, for every bucket, up to which numbers its rows are there. Kafka's are in
`nadi.io.sinks.kafkaturn`, those of NATS in `nadi.io.sinks.natsturn`. Who publishes and who holds says `nadi.io.sinks.turns`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from nadi.errors import Span, error
from nadi.io.contract import Connector
from nadi.plan.options import Option

OPTIONS = (
    Option(
        "publish",
        choices=("always", "active"),
        doc=(
            "`always`; `active`: only the cluster publishes [whose turn it "
            "is](datacentres.md#only-one-cluster-publishes)"
        ),
        default="always",
    ),
    Option("centre", doc="with `publish = 'active'`: which of the clusters this is"),
)
"""Options of all sinks that can take turns."""


class Turn(msgspec.Struct, frozen=True, order=True):
    """Which centre publishes. Of two turns the greater one counts, that with the greater token. `life` is the incarnation of the publisher; all turns share
    it."""

    token: int = 0
    centre: str = ""
    life: str = ""


@dataclass(slots=True)
class Standing:
    """What a broker says: the turn, and by publisher and bucket up to where the rows of each key-group are there."""

    turn: Turn
    delivered: dict[str, dict[int, int]]


class Follower(Protocol):
    """Learns what a broker says. Used by one thread at a time."""

    def follow(self) -> Standing:
        """What is known by now, without waiting for a broker that does not answer."""
        ...

    def read(self) -> Standing:
        """All that is there now. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        ...

    def close(self) -> None: ...


class Switch(Protocol):
    """Gives the turn at one broker. Of two at the same time one is refused."""

    def begin(self) -> Turn:
        """Make ready, and say whose turn it is. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        ...

    def give(self, turn: Turn) -> None:
        """Errors: CONNECTION_UNAVAILABLE, REFUSED (somebody else is switching)."""
        ...


@dataclass(frozen=True, slots=True)
class TurnCentre:
    """The broker of one centre, for whoever has to do with turns there."""

    stream: str
    address: str
    follower: Callable[[], Follower]
    switch: Callable[[], Switch]


@dataclass(slots=True)
class Known:
    """The greatest turn that a process has heard of from any broker, for the sinks of the single centres."""

    turn: Turn = field(default_factory=Turn)


def next_turn(known: Sequence[Turn], centre: str) -> Turn:
    """The turn after those that brokers know.

    >>> next_turn([Turn(3, "west", "a7"), Turn(2, "east", "a7")], "east")
    Turn(token=4, centre='east', life='a7')
    """
    last = max(known, default=Turn())
    return Turn(last.token + 1, centre, last.life or os.urandom(8).hex())


def takes_turns(connector: Connector) -> bool:
    """Whether a sink publishes only while it is its cluster's turn."""
    return connector.options.get("publish", "always").lower() == "active"


def turn_key(connector: Connector, bucket: int) -> str:
    """What the rows of a bucket are known by, whichever cluster publishes them."""
    return f"{connector.options['sequence.id']}/{bucket}"


def check_turns(name: str, connector: Connector, span: Span) -> None:
    """Errors: OPTION_MISSING, where a sink takes turns and does not say as whom. `name` is the type as users write it."""
    if not takes_turns(connector):
        return
    for option in ("centre", "sequence.id"):
        if not connector.options.get(option):
            raise error("OPTION_MISSING", span, where=f"@sink of {connector.stream} ({name})", name=option)
