"""The circuit of each sink, for people to see: closed while its target takes what it gets, open while the target is away and nothing is tried, half-open while
it is tried again.

    <state>/circuits/<ordinal of the sink>-<bucket>.json      there while it is not closed

Whoever writes to a sink does so within `watched`; failed attempts are noted by `nadi.io.retry.failed`, wherever they are met below. Files are for display: they
are not synced, and one that cannot be written is left out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import msgspec

from nadi.config.ownership import OWN_FOLDER
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.received import read_json


class Note(msgspec.Struct, frozen=True):
    """Since when (ms) a target is away, how many attempts failed, why the last one did, when the next one is due (ms; 0: not known), whether one is
    under way.
    """

    since: int
    attempts: int
    reason: str
    due: int = 0
    trying: bool = False

    def state(self, now: int) -> str:
        """open or half-open.

        >>> Note(0, 1, "away", due=50).state(40), Note(0, 1, "away", due=50).state(60), Note(0, 1, "away", trying=True).state(40)
        ('open', 'half-open', 'half-open')
        """
        return "half-open" if self.trying or 0 < self.due <= now else "open"


class Circuit:
    """That of one sink in one bucket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = _read(path)
        self._counted = False  # whether whoever writes has noted its failed attempts

    def begin(self) -> None:
        """An attempt is under way."""
        if self._note is not None:
            self._tell(msgspec.structs.replace(self._note, trying=True))

    def failed(self, reason: str, pause: float = 0.0) -> None:
        """One more attempt failed; the next one comes after so many seconds, where that is known."""
        self._counted = True
        now = time.time_ns() // 1_000_000
        before = self._note or Note(now, 0, "")
        due = now + round(pause * 1000) if pause else 0
        self._tell(Note(before.since, before.attempts + 1, reason, due))

    def gave_up(self, reason: str) -> None:
        """The attempt ended without success."""
        if self._counted and self._note is not None:
            self._tell(msgspec.structs.replace(self._note, reason=reason, due=0, trying=False))
        else:
            self.failed(reason)

    def succeeded(self) -> None:
        """The target took it."""
        if self._note is not None:
            self._note = None
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _tell(self, note: Note) -> None:
        self._note = note
        fresh = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(OWN_FOLDER, exist_ok=True)
            fresh.write_bytes(msgspec.json.encode(note))
            fresh.replace(self._path)


_CURRENT: ContextVar[Circuit | None] = ContextVar("circuit", default=None)


def current() -> Circuit | None:
    """The circuit of the sink that this thread writes to."""
    return _CURRENT.get()


@contextlib.contextmanager
def watched(state: Path, ordinal: int, bucket: int) -> Iterator[None]:
    """An attempt to write to a sink: what comes of it is noted."""
    circuit = Circuit(state / "circuits" / f"{ordinal}-{bucket}.json")
    circuit.begin()
    token = _CURRENT.set(circuit)
    try:
        yield
        circuit.succeeded()
    except ConnectionUnavailableException as reason:
        circuit.gave_up(reason.diagnostic.message)
        raise
    finally:
        _CURRENT.reset(token)


def notes(state: Path) -> dict[int, Note]:
    """The sinks of an app that are not closed, by ordinal: of several buckets the one that waits for the longest time."""
    found: dict[int, Note] = {}
    for path in (state / "circuits").glob("*-*.json"):
        note = _read(path)
        ordinal = int(path.name.partition("-")[0])
        if note is not None and (ordinal not in found or note.since < found[ordinal].since):
            found[ordinal] = note
    return found


def forget(state: Path) -> None:
    """Nothing is known of any sink: at the start of an app."""
    for path in (state / "circuits").glob("*"):
        path.unlink(missing_ok=True)


def _read(path: Path) -> Note | None:
    try:
        return read_json(path.read_bytes(), Note)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
