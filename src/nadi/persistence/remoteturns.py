"""Turns of writers in an object store, which has no locks: all that is asked of it is that a list shows what was put before it, as S3 and HDFS have it.

A writer puts an object with a name of its own, and then lists. Where it finds itself alone, it has the turn: of two writers the one that lists last sees the
other. Else the one that came first waits, the others withdraw and come again.

A writer that lives writes a number beside its object now and then. One whose number stands still for `patience` counts as dead, and who waits deletes its
object. It may live all the same and have been paused. So a writer asks `Turn.stands` after what it wrote last: its object is deleted *before* the next
writer looks what there is. Where it still stands, the next writer sees what was written; else it was too late, and takes it back.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from nadi.errors import NadiError

PATIENCE = 60.0  # seconds
BEATS = 6
"""How often a writer says that it lives, while others are patient."""
LOOK = 0.1
"""Seconds between two looks of a writer that waits."""
_BEAT = ".beat"


class Places(Protocol):
    """Where turns are: the objects of one folder. Errors: those of the store."""

    def put(self, name: str, content: bytes) -> None: ...

    def names(self) -> list[str]: ...

    def content(self, name: str) -> bytes | None: ...

    def delete(self, name: str) -> None: ...


class Turns:
    """The turns at one thing; one writer has it at a time. `name` gives each turn another name; who came first should have the least one."""

    def __init__(
        self,
        places: Places,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
        name: Callable[[], str] = lambda: f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(8)}",
    ) -> None:
        self._places, self._patience = places, patience
        self._clock, self._pause, self._name = clock, pause, name

    @contextmanager
    def taken(self) -> Iterator[Turn]:
        """A turn; waits for that of another writer to end."""
        watch = _Watch(self._places, self._patience, self._clock)
        while True:
            with self._standing() as turn:
                if self._is_alone(turn, watch):
                    yield turn
                    return
            while watch.standing():  # who came first has the turn before this one comes again
                self._pause(LOOK)

    def _is_alone(self, turn: Turn, watch: _Watch) -> bool:
        """Wait while others withdraw. False: this one has to."""
        while turn.name in (standing := watch.standing()):
            if standing == [turn.name]:
                return True
            if standing[0] != turn.name:
                return False
            self._pause(LOOK)
        return False  # somebody took it for dead

    @contextmanager
    def _standing(self) -> Iterator[Turn]:
        """An object of this writer, as long as this lasts."""
        turn = Turn(self._places, self._name())
        self._places.put(turn.name, b"")
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(turn.name, over), daemon=True, name="revision turn")
        beating.start()
        try:
            yield turn
        finally:
            over.set()
            beating.join()
            for name in (turn.name + _BEAT, turn.name):
                with suppress(NadiError):  # the store is away: others find it dead
                    self._places.delete(name)

    def _beat(self, name: str, over: threading.Event) -> None:
        number = 0
        while not over.wait(self._patience / BEATS):
            number += 1
            with suppress(NadiError):  # the store is away, perhaps for now: with the next one it is in time, or not
                self._places.put(name + _BEAT, str(number).encode())


class Turn:
    """The turn of one writer."""

    def __init__(self, places: Places, name: str) -> None:
        self.name = name
        self._places = places

    def stands(self) -> bool:
        """Whether nobody took this writer for dead so far: whoever has the turn next sees all that was written before this was asked."""
        return self.name in self._places.names()


class _Watch:
    """What one writer has seen of others, and since when."""

    def __init__(self, places: Places, patience: float, clock: Callable[[], float]) -> None:
        self._places, self._patience, self._clock = places, patience, clock
        self._seen: dict[str, tuple[bytes | None, float]] = {}

    def standing(self) -> list[str]:
        """The writers that stand, who came first at the beginning; those that are dead are removed."""
        names = self._places.names()
        standing = [name for name in names if not name.endswith(_BEAT)]
        if len(standing) > 1 or (standing and self._seen):
            standing = [name for name in standing if not self._is_dead(name)]
        for name in names:
            if name.endswith(_BEAT) and name.removesuffix(_BEAT) not in names:
                self._places.delete(name)
        return sorted(standing)

    def _is_dead(self, name: str) -> bool:
        number, now = self._places.content(name + _BEAT), self._clock()
        before, since = self._seen.get(name, (None, now))
        if name not in self._seen or before != number:
            self._seen[name] = (number, now)
            return False
        if now - since < self._patience:
            return False
        self._places.delete(name)
        return True
