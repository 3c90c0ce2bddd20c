"""What a message of the journal holds, and where it is: the names of its stream and subjects, and its headers. `nadi.io.journal` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nadi.io.jetstream import Stored, stream_config, token

Event = tuple[int, bytes, Mapping[str, str]]
"""(time in ms, body, properties)"""


FIRST, COUNT = "Nadi-First", "Nadi-Count"
IDENTITY = "Nats-Msg-Id"
SEALED = "Nadi-Sealed"
"""The header of a message behind which nothing comes any more."""
AT = "Nadi-At"
"""The header of what is noted of a source's events beside them: up to which one it goes."""


@dataclass(frozen=True, slots=True)
class Group:
    """What the headers of a message tell: its sequence, the number of its first event, how many it has."""

    sequence: int
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    def holds(self, position: int) -> bool:
        return self.first <= position < self.end


NOTHING = Group(0, 0, 0)


def group_of(message: Stored | None) -> Group:
    """The group that a message of the journal is; NOTHING for none."""
    if message is None:
        return NOTHING
    return Group(message.sequence, int(message.headers[FIRST]), int(message.headers[COUNT]))


def is_sealed(last: Stored | None) -> bool:
    """Whether nothing comes behind the last message of a source."""
    return last is not None and SEALED in last.headers


def stream_name(app: str) -> str:
    return f"NADI_{token(app)}"


Name = int | str
"""Which part of an app's journal: the ordinal of a source, or one of nadi's own inputs."""


def subject(app: str, ordinal: Name) -> str:
    return f"nadi.{token(app)}.in.{ordinal}"


def journal_config(app: str, replicas: int) -> dict[str, Any]:
    return {**stream_config(stream_name(app), [f"nadi.{token(app)}.in.*"]), "num_replicas": replicas}


_SEEN = "seen-"


def seen_name(ordinal: int) -> str:
    """The part of a journal that has what is noted of a source's events (`nadi.io.journalseen`)."""
    return f"{_SEEN}{ordinal}"


def is_seen(name: str) -> bool:
    """Whether a part of a journal is such a one.

    >>> is_seen(seen_name(3)), is_seen("3")
    (True, False)
    """
    return name.startswith(_SEEN)
