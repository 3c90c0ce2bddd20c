"""A kernel that is loaded from the frames of its state while they come: reading them from the store and making objects of them go side by side.

Frames wait in a short queue, so a state is never in memory a second time as bytes (but for a segment of it that is longer than a frame).
"""

from __future__ import annotations

import gc
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nadi.kernel.contract import Kernel
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.state.frames import from_frames

AHEAD = 16  # frames that may wait


class Feeding:
    """One handing over of a state, by one task."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._waiting: queue.Queue[Part | None] = queue.Queue(AHEAD)
        self._given = 0
        self._failure: Exception | None = None
        self._ended = False
        self._over = False
        self.used = time.monotonic()
        self._loader = threading.Thread(target=self._load, daemon=True)
        self._loader.start()

    def take(self, frames: Sequence[Part]) -> None:
        """The next frames; waits where the kernel is behind."""
        for frame in frames:
            self._waiting.put(frame)
        self._given += len(frames)
        self.used = time.monotonic()

    def finish(self, frames: int) -> Kernel | None:
        """The kernel, loaded; None where these were not all frames of its state. Raises what loading them met."""
        self._waiting.put(None)
        self._loader.join()
        if self._given != frames:  # some came twice or never, so whatever else went wrong says nothing
            return None
        if self._failure is not None:
            raise self._failure
        return self._kernel

    def give_up(self) -> None:
        """Nobody will finish it."""
        self._over = True
        self._waiting.put(None)

    def _load(self) -> None:
        try:
            with uncollected():
                self._kernel.load(from_frames(self._frames()))
        except Exception as reason:
            self._failure = reason
            for _rest in self._frames():
                """Nobody shall wait for room in the queue."""
        if self._over:
            self._kernel.load(())

    def _frames(self) -> Iterator[Part]:
        """What comes until the end, which comes once."""
        while not self._ended:
            frame = self._waiting.get()
            if frame is None:
                self._ended = True
            else:
                yield frame


_LOADING = threading.Lock()
_loads = 0


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile, and none of what was made, ever: a state is millions of objects that make no garbage while they are loaded."""
    global _loads  # noqa: PLW0603  # the collector is one for the process, and loads may overlap
    with _LOADING:
        _loads += 1
        gc.disable()
    try:
        yield
    finally:
        with _LOADING:
            _loads -= 1
            if not _loads:
                gc.freeze()
                gc.enable()
