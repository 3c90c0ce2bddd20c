"""What the examples print of their story, and how they wait for its next part or for its end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 240.0  # seconds
LOOK = 0.1

BEGUN = time.monotonic()
_ended_by: list[int] = []


class Ended(BaseException):
    """Somebody has ended the example with the signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def end_at(*numbers: int) -> None:
    """Have these signals end the story where it waits next. What a handler raises could come anywhere: where Python drops it, or between the start of a server
    and the note that it has to be ended."""
    for number in numbers:
        signal.signal(number, lambda came, _: _ended_by.append(came))


def say(sentence: str) -> None:
    """Print a sentence with how many seconds the story has taken so far."""
    print(f"{time.monotonic() - BEGUN:6.1f} s  {sentence}", flush=True)


def pause(seconds: float) -> None:
    """Wait. Errors: Ended."""
    time.sleep(seconds)
    if _ended_by:
        raise Ended(_ended_by[0])


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for something that nobody rings for; -> what it is then. Errors: Ended."""
    late = time.monotonic() + PATIENCE
    while time.monotonic() < late:
        if found := holds():
            return found
        pause(LOOK)
    raise SystemExit(f"{what}: not within {PATIENCE:.0f} s")
