"""How many lines strangers may add to a log: whoever has no credentials can make a node warn as often as they like.

Of each kind of line (its logger, what it says, the address that it is about) so many are kept in a minute, of all kinds together some more. What is left out is
counted, and told: when the first one is, and when the minute is over and the next line comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

WITHIN = 60.0  # seconds
OF_KIND, OF_ALL = 30, 300  # lines
KINDS = 1_000

LIBRARY = "uvicorn.error"
AUDIT = "nadi.audit"
OF_STRANGERS = ("login", "token", "foreign origin", "node")
"""Entries of the audit log for which nobody needs credentials, unless their outcome is `ok`."""

Kind = tuple[str, str, str]
ALL: Kind = ("", "", "")


@dataclass(slots=True)
class _Minute:
    until: float
    lines: int = 0
    left_out: int = 0


class LineRate:
    """See the module's text. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._minutes: dict[Kind, _Minute] = {}
        self._lock = threading.Lock()

    def admit(self, record: logging.LogRecord) -> tuple[bool, list[str]]:
        """Whether a record is kept, and what is to be said before it."""
        kind, now = _kind(record), self._clock()
        with self._lock:
            said = self._over(now)
            if kind is None:
                return True, said
            if kind not in self._minutes and len(self._minutes) >= KINDS:
                kind = ALL
            one, every = (self._minutes.setdefault(key, _Minute(now + WITHIN)) for key in (kind, ALL))
            if (kind == ALL or one.lines < OF_KIND) and every.lines < OF_ALL:
                one.lines += 1
                every.lines += kind != ALL
                return True, said
            if one.left_out == 0 and every.left_out < OF_ALL:
                said.append(f"more lines are left out for a minute: {_named(kind)}")
            one.left_out += 1
            every.left_out += kind != ALL
            return False, said

    def _over(self, now: float) -> list[str]:
        ended = [kind for kind, minute in self._minutes.items() if minute.until <= now]
        left = [(kind, self._minutes.pop(kind).left_out) for kind in ended]
        told = [f"{count:,} lines were left out: {_named(kind)}" for kind, count in left if count and kind != ALL]
        return told[:OF_KIND]


def _kind(record: logging.LogRecord) -> Kind | None:
    """What is counted with a record; None where strangers cannot cause it."""
    if record.levelno < logging.WARNING:
        return None
    if record.name == LIBRARY and record.levelno == logging.WARNING:
        return record.name, str(record.msg), ""
    event = record.msg
    if record.name != AUDIT or not isinstance(event, dict) or event.get("event") not in OF_STRANGERS:
        return None
    return record.name, str(event["event"]), str(event.get("address", ""))


def _named(kind: Kind) -> str:
    logger, event, address = kind
    return f"'{event}' of {logger}{f' from {address}' if address else ''}"
