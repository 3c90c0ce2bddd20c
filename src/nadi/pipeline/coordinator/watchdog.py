"""Which kernels have been at one thing for so long that they may never end: what a host notes, looked at with each beat.

A cut that takes a minute in its kernel, or, when it is tried message by message, a message that takes half of one, costs the host its life. A cut of which it
is known that each of its messages ends has as long as it takes. The clock decides no result: what is set aside stands in the cut log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

CUT_WITHIN = 60.0  # seconds
MESSAGE_WITHIN = 30.0


class Watchdog:
    """Of one host. `spared(note)` is whether a kernel may take as long as it takes.

    >>> watchdog = Watchdog(lambda note: note == "kernel of b at 1")
    >>> notes = ["a", "kernel of a at 7", "kernel of b at 1"]
    >>> [watchdog.late(notes, 30.0) for _ in range(3)]
    ['', '', 'kernel of a at 7']
    >>> [watchdog.late(["kernel of a at 8", "message of a at 8: 0 0 3"], 20.0) for _ in range(3)]
    ['', '', 'message of a at 8: 0 0 3']
    >>> [watchdog.late(["kernel of a at 8", f"message of a at 8: 0 0 {i}"], 20.0) for i in range(9)] == [""] * 9
    True
    """

    def __init__(self, spared: Callable[[str], bool]) -> None:
        self._spared = spared
        self._seen: dict[str, float] = {}

    def late(self, notes: Collection[str], seconds: float) -> str:
        """What a kernel has been at for too long; "" where there is none. So many seconds have passed since the look before."""
        tried = {_subject(note) for note in notes if note.startswith("message of ")}
        limits = {
            note: MESSAGE_WITHIN if note.startswith("message of ") else CUT_WITHIN
            for note in notes
            if note.startswith("message of ") or (note.startswith("kernel of ") and _subject(note) not in tried)
        }
        self._seen = {note: self._seen[note] + seconds if note in self._seen else 0.0 for note in limits}
        over = [note for note, limit in limits.items() if self._seen[note] >= limit and not self._spared(note)]
        return min(over, default="")


def _subject(note: str) -> str:
    """App and cut: what stands between the first "of" and the message."""
    return note.partition(" of ")[2].partition(":")[0]
