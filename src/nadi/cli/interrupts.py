"""What Ctrl-C and SIGTERM do to a command that runs until it is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPPED_AT_ONCE = 130


@contextmanager
def stops(
    request_stop: Callable[[], object],
    say: Callable[[str], object],
    sentence: str,
    then: str = "the next start goes on where this one was",
) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks to stop and says a sentence, the second ends the process at once; `then` says what comes of that."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        request_stop()
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, lambda *_: os._exit(STOPPED_AT_ONCE))
        # the terminal may be gone, and the signal may have come while the same stream was being written
        with suppress(OSError, ValueError, RuntimeError):
            say(f"{sentence} (once more: at once; {then})")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
