"""Inputs that say when something may have come, so that nobody has to ask them all the time.

Who waits for an input registers with `wake`, looks (`Log.end`), and sleeps until it is told or `next_look` has come. A log tells at most once between two
looks: a look is what it listens anew from, at the very position that the look has seen, so that nothing falls in between. An idle log is not asked for
anything, and its `end` is what the last look has found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

Tell = Callable[[], None]

TRUSTED = 60.0
"""Seconds after which `end` asks the other side though nothing was heard: a net for what should never happen."""


@runtime_checkable
class Wakes(Protocol):
    """What a `Log` has besides where it can tell that something may have come."""

    def wake(self, tell: Tell) -> None:
        """Have `tell` called, from any thread: now, and then once after each look (`end` of any partition) soon after something may have come since; also when
        the connection was lost, and once when there is one again.

        It is cheap, raises nothing, and may have no reason. Who is told looks; who meets an error looks again by itself. `close` ends it. Never waits, and
        raises nothing where the other side is away.
        """
        ...

    def next_look(self) -> float | None:
        """When to look though nothing was told (seconds of the monotonic clock), None for no such time."""
        ...


class Doorbell:
    """The state of a log that tells: whether something may have come since the last look, and when that was. Used by any thread.

    >>> told = []
    >>> bell = Doorbell()
    >>> bell.register(lambda: told.append("come"))
    >>> with bell.look():
    ...     bell.due()
    False
    >>> bell.ring(); bell.ring(); bell.due(), told
    (True, ['come', 'come'])
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tells: tuple[Tell, ...] = ()
        self._rung = False
        self.looked = float("-inf")

    @property
    def rung(self) -> bool:
        """Whether it has rung since the last look."""
        return self._rung

    @property
    def watched(self) -> bool:
        """Whether somebody waits; otherwise the log is asked as often as one likes."""
        return bool(self._tells)

    def register(self, tell: Tell) -> None:
        """Somebody waits from now on, and is told once to look."""
        self._tells = (*self._tells, tell)
        tell()

    def silence(self) -> None:
        """Nobody waits any more."""
        self._tells = ()

    def ring(self) -> None:
        """Something may have come: tell those who wait, unless they have not looked since they were told."""
        if not self._rung:
            self._rung = True
            for tell in self._tells:
                tell()

    def due(self, age: float = TRUSTED) -> bool:
        """Whether to look: it has rung, or the last look is `age` seconds ago or failed."""
        return self._rung or self._clock() - self.looked >= age

    @contextmanager
    def look(self) -> Iterator[bool]:
        """A look, and whether there is a reason for it, or just much time has gone. What rings from here on rings for the next one. If it fails, it does not
        count.
        """
        reason = self._rung or self.looked == float("-inf")
        self._rung = False
        self.looked = self._clock()
        try:
            yield reason
        except BaseException:
            self.looked = float("-inf")
            raise
