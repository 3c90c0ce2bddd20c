"""What a host is at for one app, so that a batch need not wait for its slowest group.

A job is one cut. An app has at most one at work, in a thread of its own that is kept. Who waits for it may give up at a deadline and come back: the result is
kept for whoever asks for the same cut again. Who was told that it is pending is rung up, once, when it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from nadi.framestack import with_room
from nadi.pipeline.hosting.turns import Turns

Receipt = dict[str, Any]
"""What is told of a cut of a group."""
Which = tuple[int, int]
"""Epoch and cut."""


@dataclass(slots=True)
class Job:
    """One cut, under way or done; `rings` are the addresses of those that do not wait for it any more."""

    which: Which
    result: Future[Receipt] = field(default_factory=Future)
    rings: set[str] = field(default_factory=set)


class Jobs:
    """The jobs of one app, which take `turns` with those of others. `ring(address)` is called when one has ended that somebody did not wait for."""

    def __init__(self, name: str, ring: Callable[[str], None], turns: Turns) -> None:
        self._name = name
        self._ring = ring
        self._turns = turns
        self._job: Job | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def begin(self, which: Which, work: Callable[[], Receipt], beside: bool) -> Job | None:
        """The job for a cut: begun in the app's thread, or (not `beside`) done when this returns; the one that is at it already, or has been.

        None where the app is at work on another cut.
        """
        with self._lock:
            known = self._job
            if known is not None and known.which == which:
                return known
            if known is not None and not known.result.done():
                return None
            job = self._job = Job(which)
            if beside:
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(1, f"cuts of {self._name}")
                self._thread.submit(self._turns.take, self._do, job, work)
                return job
        self._do(job, work)
        return job

    def wait(self, job: Job, seconds: float | None, address: str) -> Receipt | None:
        """What came of it; None where that takes longer: then `address` is rung up at its end (unless it is ""). Errors: those of its work."""
        if not wait([job.result], seconds).done and self._unfinished(job, address):
            return None
        with self._lock:
            if self._job is job:
                self._job = None
        return job.result.result()

    def _unfinished(self, job: Job, address: str) -> bool:
        """Whether it is still at work: then who has this address does not wait any more."""
        with self._lock:
            if job.result.done():
                return False
            if address:
                job.rings.add(address)
            return True

    def _do(self, job: Job, work: Callable[[], Receipt]) -> None:
        try:
            told = with_room(work)
        except BaseException as reason:
            with self._lock:
                job.result.set_exception(reason)
        else:
            with self._lock:
                job.result.set_result(told)
        for address in sorted(job.rings):  # nobody is added once it is done
            self._ring(address)

    def close(self) -> None:
        """Let the thread go when it has done what it is at."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)
