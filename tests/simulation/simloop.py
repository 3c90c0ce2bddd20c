"""An event loop in virtual time: nothing sleeps, and which of the callbacks that are ready runs next is drawn from a seed.

Every callback belongs to the process (of the simulated cluster) in whose context it was made. A paused process' callbacks wait; a killed one's never run, not
even what stands in its `finally` clauses.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

CURRENT: ContextVar[Process | None] = ContextVar("CURRENT", default=None)


class Process:
    """A process of the simulated cluster. `paused` and `dead` are for the loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False
        self.dead = False
        self.held: list[tuple[Any, ...]] = []
        self.context = copy_context()
        self.context.run(CURRENT.set, self)


class Timer:
    """What `call_later` returns."""

    __slots__ = ("args", "callback", "context", "process", "when")

    def __init__(self, when: float, process: Process | None, callback: Any, args: Any, context: Context) -> None:
        self.when, self.process, self.callback, self.args, self.context = when, process, callback, args, context

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class Loop(asyncio.AbstractEventLoop):
    """Times of the loop are ms (`asyncio` asks for seconds in none of the modules that run here)."""

    def __init__(self, dice: Random) -> None:
        self.ms = 0.0
        self.steps = 0
        self._dice = dice
        self._ready: list[tuple[Process | None, Any, Any, Context]] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._tasks: list[
            asyncio.Task[Any]
        ] = []  # a killed process' tasks must not be collected: that would run their `finally`
        self._closed = False
        self.failures: list[BaseException] = []

    # ---- what asyncio calls ------------------------------------------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        if self._closed:
            return None
        if context is None:
            context = copy_context()
        self._ready.append((context.get(CURRENT), callback, args, context))
        return None

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.after(delay * 1000, callback, *args, context=context)

    def after(self, ms: float, callback: Any, *args: Any, context: Context | None = None) -> Timer:
        if context is None:
            context = copy_context()
        timer = Timer(self.ms + ms, context.get(CURRENT), callback, args, context)
        if not self._closed:
            self._number += 1
            heapq.heappush(self._timers, (timer.when, self._number, timer))
        return timer

    def time(self) -> float:
        return self.ms / 1000

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        found = context.get("exception")
        if not self._closed:
            self.failures.append(found or RuntimeError(context.get("message")))

    # ---- what the simulation calls -----------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of a process. One that fails ends the simulation."""
        task: asyncio.Task[Any] = self.create_task(work, context=process.context.copy())
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (found := task.exception()) is not None:
            self.failures.append(found)

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready += process.held
        process.held = []

    def run_until(self, end: float, check: Callable[[], None]) -> None:
        """Run all that is due before `end` (ms). `check` raises what a callback has found wrong."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._step(end):
                if self.failures:
                    raise self.failures[0]
                check()
        finally:
            asyncio._set_running_loop(before)

    def _step(self, end: float) -> bool:
        ready = self._ready
        if not ready:
            return self._advance(end)
        at = int(self._dice.random() * len(ready)) if len(ready) > 1 else 0
        ready[at], ready[-1] = ready[-1], ready[at]
        entry = ready.pop()
        process, callback, args, context = entry
        if process is not None:
            if process.dead:
                return True
            if process.paused:
                process.held.append(entry)
                return True
        self.steps += 1
        context.run(callback, *args)
        return True

    def _advance(self, end: float) -> bool:
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers or timers[0][0] > end:
            self.ms = end
            return False
        when, _number, timer = heapq.heappop(timers)
        self.ms = when
        self._ready.append((timer.process, timer.callback, timer.args, timer.context))
        return True

    def finish(self) -> None:
        """End the tasks that are left, quietly."""
        self._closed = True
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with suppress(RuntimeError):  # of one that would wait for others in its `finally`
                        task.get_coro().close()  # type: ignore[union-attr]
                elif not task.cancelled():
                    task.exception()
        finally:
            asyncio._set_running_loop(before)
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()
