"""Compiling the loops of apps that come while others run: one process of a node does it, one app after the other, as it takes seconds to start.

queue = CompileQueue(tell)
asked = queue.ask(Compiled(app, outputs))
asked.wait()            # its loops are in the cache, or hosts compile for themselves

The process begins when there is something to compile, leaves the cores to apps that run, and ends when nothing came for a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from nadi.pipeline.loopcompiler import PATIENCE, Compiled, CompilerProcess, Job, jobs

IDLE = 30.0  # seconds after the last app for which the process stays


class Asked:
    """What was asked for an app. From any thread."""

    def __init__(self, app: str, wanted: list[Job], tell: Callable[[str, str], None]) -> None:
        self.app, self.wanted = app, wanted
        self.is_over = False
        self.is_needed = bool(wanted)
        self._tell = tell
        self._done = threading.Event()
        self._late = threading.Timer(PATIENCE, self._say, ["compiling its queries for the first time"])
        self._late.daemon = True
        if wanted:
            self._late.start()
        else:
            self.finish()

    def _say(self, what: str) -> None:
        self._tell(self.app, what)

    def finish(self) -> None:
        """Nothing is left to compile."""
        self._late.cancel()
        self._done.set()

    def wait(self) -> None:
        """Until it is compiled, or will not be."""
        self._done.wait()

    def close(self) -> None:
        """Nobody wants it any more."""
        self.is_over = True
        self.finish()


class CompileQueue:
    """See the module's text. `tell` is called with the name of an app and a sentence, from another thread."""

    def __init__(self, tell: Callable[[str, str], None], idle: float = IDLE) -> None:
        self._tell = tell
        self._idle = idle
        self._changed = threading.Condition()
        self._waiting: deque[Asked] = deque()
        self._thread: threading.Thread | None = None
        self._process: CompilerProcess | None = None
        self._over = False

    def ask(self, compiled: Compiled) -> Asked:
        """Have an app compiled; returns at once."""
        asked = Asked(compiled.app.name, jobs([compiled]), self._tell)
        if asked.wanted:
            with self._changed:
                if self._over:
                    asked.finish()
                    return asked
                self._waiting.append(asked)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="compile-queue", daemon=True)
                    self._thread.start()
                self._changed.notify()
        return asked

    def _run(self) -> None:
        while (asked := self._next()) is not None:
            for job in asked.wanted:
                # one before it may have compiled the same
                if asked.is_over or job.known:
                    continue
                if not self._compiled(job):
                    break  # it died, or was ended: hosts compile for themselves
            asked.finish()

    def _next(self) -> Asked | None:
        """The next one to compile; None where none came for a while: then the process has ended, and so does the thread."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._over or self._waiting, self._idle)
            if came and not self._over:
                return self._waiting.popleft()
            left, self._waiting = list(self._waiting), deque()
            process, self._process, self._thread = self._process, None, None
        for asked in left:
            asked.finish()
        if process is not None:
            process.close()
        return None

    def _compiled(self, job: Job) -> bool:
        with self._changed:
            if self._over:
                return False
            if self._process is None:
                self._process = CompilerProcess(behind=True)
            process = self._process
        if process.compile(job):
            return True
        with self._changed:
            self._process = None
        process.close()
        return False

    def close(self) -> None:
        """End it."""
        with self._changed:
            self._over = True
            thread, process = self._thread, self._process
            self._changed.notify_all()
        if process is not None:
            process.kill()
        if thread is not None:
            thread.join()
