"""What asks a node to stop. Safe in a handler of signals, as an event of `threading` is not: its lock may be held by the thread that the signal interrupts."""

from __future__ import annotations

from nadi.io.readiness import readable
from nadi.io.waker import Waker


class StopRequest:
    """Not set at first; once it is set it stays so.

    >>> stop = StopRequest()
    >>> stop.wait(0.0), stop.is_set()
    (False, False)
    >>> stop.set(); stop.wait()
    True
    """

    def __init__(self) -> None:
        self._set = False
        self._waker = Waker()

    def set(self) -> None:
        """Ask."""
        self._set = True
        self._waker.ring()

    def is_set(self) -> bool:
        """Whether it was asked."""
        return self._set

    def wait(self, within: float | None = None) -> bool:
        """Whether it was asked, or is within so many seconds (None: for ever)."""
        if not self._set:
            readable([self._waker], within)
        return self._set

    def fileno(self) -> int:
        """What is readable once it is set."""
        return self._waker.fileno()
