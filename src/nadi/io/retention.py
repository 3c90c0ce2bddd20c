"""What logs tell of how far back they go: not every one does, a file for instance is there as long as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long `log` keeps a message: `age` in ms, by its `setting`, or as far as that can be told from what it holds (`estimated`)."""

    log: str
    setting: str
    age: int
    estimated: bool = False


@runtime_checkable
class Kept(Protocol):
    """A log that removes messages by itself and tells of it. Errors: CONNECTION_UNAVAILABLE, REFUSED."""

    def oldest(self, partition: int) -> int:
        """The position of the oldest message, or that of the next one where there is none."""
        ...

    def retention(self) -> Retention | None:
        """None where messages are kept without end, or it cannot be told."""
        ...


def duration(ms: int) -> str:
    """A time in words.

    >>> duration(90_000), duration(3_600_000), duration(86_400_000 * 7), duration(400)
    ('1.5 min', '1 h', '7 d', '0.4 s')
    """
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if ms >= unit:
            return f"{round(ms / unit, 1):g} {name}"
    return f"{ms / 1000:g} s"
