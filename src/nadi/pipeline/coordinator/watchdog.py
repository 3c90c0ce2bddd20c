"""Which kernels have been at one thing for so long that they may never end: what a host notes, looked at with each beat.

A kernel that takes `within` seconds for a cut, or, when it is tried message by message, for a message, costs the host its life. A cut of which it is known
that each of its messages ends has as long as it takes, and the next cuts of its app more than others. The clock decides no result: what is set aside stands in
the cut log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from nadi.pipeline.hosting.atwork import KERNEL, MESSAGE, cut_of

WITHIN = 20.0
"""Seconds, where the node's operator says nothing else."""

Patience = Callable[[str], float]
"""How many times as long the kernel of a note may take."""


class Watchdog:
    """Of one host.

    >>> watchdog = Watchdog(lambda note: 2.0 if note == "kernel of b at 1" else 1.0)
    >>> notes = ["a", "kernel of a at 7", "kernel of b at 1"]
    >>> [watchdog.late(notes, 10.0) for _ in range(3)], [watchdog.late(notes[2:], 10.0) for _ in range(2)]
    (['', '', 'kernel of a at 7'], ['', 'kernel of b at 1'])
    >>> [watchdog.late(["kernel of a at 8: 1.1", "message of a at 8: 0 0 3"], 10.0) for _ in range(3)]
    ['', '', 'message of a at 8: 0 0 3']
    >>> [watchdog.late(["kernel of a at 8", f"message of a at 8: 0 0 {i}"], 10.0) for i in range(9)] == [""] * 9
    True
    """

    def __init__(self, patience: Patience, within: float = WITHIN) -> None:
        self._patience, self._within = patience, within
        self._seen: dict[str, float] = {}

    def late(self, notes: Collection[str], seconds: float) -> str:
        """What a kernel has been at for too long; "" where there is none. So many seconds have passed since the look before."""
        tried = {cut_of(note) for note in notes if note.startswith(MESSAGE)}
        looked = [n for n in notes if n.startswith(MESSAGE) or (n.startswith(KERNEL) and cut_of(n) not in tried)]
        self._seen = {n: self._seen[n] + seconds if n in self._seen else 0.0 for n in looked}
        return min((n for n, seen in self._seen.items() if seen >= self._limit(n)), default="")

    def _limit(self, note: str) -> float:
        return self._within * (1.0 if note.startswith(MESSAGE) else max(1.0, self._patience(note)))
