"""An event loop in a thread of its own, for coordination: what the servers' threads ask of it is handed over.

Nobody waits for ever for what was handed over: what has not been done when the loop ends is cancelled, and what comes later is, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs one coroutine, `life`, until it is closed. `failed` is called with what it ended with, if it ended by itself: of a group of tasks
    with what ended the first one."""

    def __init__(
        self, life: Callable[[], Coroutine[Any, Any, None]], failed: Callable[[BaseException], object]
    ) -> None:
        self._life = life
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = threading.Event()
        self._handing = threading.RLock()  # of `_over`; a handler of signals may interrupt whoever has it
        self._over = False  # nothing is handed over any more
        self._works: list[asyncio.Task[None]] = []  # a task that nobody holds may be collected
        self._thread = threading.Thread(target=self._run, name="coordination", daemon=True)

    def start(self) -> None:
        """Begin; it runs when this returns. Errors: OSError, where there is no loop to be had."""
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread.start()
        self._begun.wait()

    def close(self) -> None:
        """Cancel what runs, and wait until it has ended."""
        if self._task is not None:
            self.call(self._task.cancel)
            self._thread.join()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done in the loop; it is cancelled where the loop ends before, or has ended. From any thread."""
        assert self._loop is not None  # whoever asks was started after it
        with self._handing:
            if not self._over:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        cancelled: Future[T] = Future()
        cancelled.cancel()
        return cancelled

    def call(self, work: Callable[[], object]) -> None:
        """Have something called in the loop, behind what was handed over before; it is not, where the loop has ended. From any thread; returns at once."""
        assert self._loop is not None  # as above
        with self._handing:
            if not self._over:
                self._loop.call_soon_threadsafe(work)

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Have something done in the loop, and do not wait for it; safe in a signal handler. Whether there is a loop that does it."""
        loop = self._loop
        if loop is None:
            return False
        with self._handing:
            if self._over:
                return False
            loop.call_soon_threadsafe(lambda: self._works.append(loop.create_task(self._watched(work))))
        return True

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as reason:
            self._failed(reason)

    def _run(self) -> None:
        with self._runner:  # at its end it cancels what is left, and waits for that
            try:
                self._runner.run(self._main())
            finally:
                with self._handing:
                    self._over = True
                self._runner.run(_turn())

    async def _main(self) -> None:
        self._task = asyncio.current_task()
        self._begun.set()
        try:
            await self._life()
        except asyncio.CancelledError:
            return
        except BaseException as reason:
            self._failed(_first(reason))


def _first(reason: BaseException) -> BaseException:
    """What went wrong first: a group of tasks that fails raises a group."""
    while isinstance(reason, BaseExceptionGroup):
        reason = reason.exceptions[0]
    return reason


async def _turn() -> None:
    """What was handed over last becomes tasks, so that they are cancelled with the others."""
