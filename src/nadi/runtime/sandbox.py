"""The sandbox: a process in which the scripts of one kernel run, and what it is watched by.

What holds it in (see also `sandboxed`, the program, and `seccomp`):

- it is started without environment, and sees two pipes to its owner; before it reads the text of a script it gives up files, processes and memory that could be
  executed (`RLIMIT_*`, on Linux also a filter for system calls, without which it does not start);
- memory: `Limits.bytes` beyond what it begins with; JavaScript engines have the same bound each;
- time: `Limits.seconds` of processor time a call, and as much to read the text of a function, measured by the system, whose signal ends the process; and,
  should it stand still instead, `Limits.patience` of the owner.

A process that was ended is started anew at the next call. It ends when its owner closes the pipes, which the owner's end does, too.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import platform
import select
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

from nadi.errors import NadiError, error
from nadi.functions.languages import LANGUAGES
from nadi.functions.pythonscripts import BUILTINS, MODULES
from nadi.plan.nodes import Script
from nadi.runtime.seccomp import machines, system_filter

PROGRAM = Path(__file__).with_name("sandboxed.py")
ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC"}  # the order of sets and local times are the same in each process
PAUSES = (0.1, 0.5, 2.0, 5.0)  # seconds before another attempt to start a process again
LONGEST = 32 << 20
"""Bytes of a frame that the owner reads: more than the program sends of itself."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` of processor time a call; `bytes` of memory; `patience`: seconds of waiting for an answer or a start."""

    seconds: float = 0.5
    bytes: int = 64 << 20
    patience: float = 60.0


class Sandbox:
    """Implements `nadi.functions.scripts.ScriptRunner`.

    >>> from nadi.lang.tree import Type
    >>> sandbox = Sandbox({"twice": Script("twice", "javascript", Type.INT, "return data[0] * 2;")})
    >>> sandbox.call("twice", (21,))
    42
    >>> sandbox.close()
    """

    def __init__(self, scripts: Mapping[str, Script], limits: Limits | None = None) -> None:
        """Start the process, so that what prevents it is known before any event.

        Raises:
            SiddhiAppRuntimeException: SCRIPTS_UNAVAILABLE.
        """
        self.limits = limits or Limits()
        self._scripts = tuple(scripts.values())
        self._lock = threading.Lock()
        self._process: _Process | None = self._started()
        _SANDBOXES.add(self)

    @property
    def pid(self) -> int | None:
        """The process, None where none runs."""
        return self._process.pid if self._process is not None else None

    def call(self, name: str, arguments: Sequence[object]) -> object:
        """See `ScriptRunner`."""
        with self._lock:
            for last in (False, True):
                if self._process is None:
                    self._process = self._restarted()
                try:
                    answer = self._process.ask([name, list(arguments)], self.limits.patience)
                except _Ended as end:
                    self._process = None
                    if end.late:
                        raise error("SCRIPT_TIME", name=name, limit=round(self.limits.seconds * 1000)) from None
                    if last:  # once may be the doing of others: the system, short of memory
                        raise error("SCRIPT_FAILED", name=name, reason=str(end)) from None
                    continue
                return self._read(name, answer)
        raise AssertionError("the loop returns or raises")

    def _read(self, name: str, answer: dict[str, Any]) -> object:
        kind = answer.get("failed")
        if kind is None:
            return answer.get("value")
        if kind == "memory":
            raise error("SCRIPT_MEMORY", name=name, limit=self.limits.bytes >> 20)
        raise error("SCRIPT_FAILED", name=name, reason=answer.get("reason"))

    def close(self) -> None:
        """End the process; a later call would start another."""
        with self._lock:
            if self._process is not None:
                self._process.end()
            self._process = None

    def forget(self) -> None:
        """In a forked process: the sandbox belongs to the parent."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.let_go()
        self._process = None

    def _restarted(self) -> _Process:
        """A new process while an app runs. That the system is short of something for a moment must not become an event's error."""
        for pause in PAUSES:
            try:
                return self._started()
            except NadiError:
                sleep(pause)
        return self._started()

    def _started(self) -> _Process:
        process = _Process()
        try:
            answer = process.ask(self._setup(), self.limits.patience)
        except _Ended as end:
            raise error("SCRIPTS_UNAVAILABLE", reason=str(end)) from None
        if "failed" in answer:
            process.end()
            raise error("SCRIPTS_UNAVAILABLE", reason=answer.get("reason"))
        return process

    def _setup(self) -> dict[str, Any]:
        languages = [(s, LANGUAGES[s.language.lower()]) for s in self._scripts]
        return {
            "functions": [(s.name, language.name, language.prepared(s.name, s.body)) for s, language in languages],
            "seconds": self.limits.seconds,
            "bytes": self.limits.bytes,
            "builtins": BUILTINS,
            "modules": MODULES,
            "filter": _filter(),
        }


def _filter() -> str:
    """The filter of this machine; none where the system is not Linux."""
    if sys.platform != "linux":
        return ""
    machine = platform.machine()
    if machine not in machines():
        reason = f"there is no filter for system calls on {machine}, only on {' and '.join(machines())}"
        raise error("SCRIPTS_UNAVAILABLE", reason=reason)
    return base64.b64encode(system_filter(machine)).decode()


class _Ended(Exception):
    """The process is gone; `late`: because a call took too long."""

    def __init__(self, reason: str, late: bool = False) -> None:
        super().__init__(reason)
        self.late = late


class _Process:
    """One process and its pipes."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("_quickjs")
        if spec is None or spec.origin is None:
            raise error("SCRIPTS_UNAVAILABLE", reason="the JavaScript engine (quickjs-ng) is not installed")
        command = [sys.executable, "-S", "-s", "-P", "-B", str(PROGRAM), spec.origin]
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                cwd="/",
                bufsize=0,
            )
        except OSError as problem:
            raise error("SCRIPTS_UNAVAILABLE", reason=problem) from problem
        self.pid = self._popen.pid
        self._poll = select.poll()
        self._poll.register(_pipe(self._popen.stdout).fileno(), select.POLLIN)
        self._finalizer = weakref.finalize(self, _end, self._popen)

    def ask(self, request: Any, patience: float) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            _Ended: there is none, and the process is over.
        """
        body = json.dumps(request).encode("ascii")
        try:
            self._write(struct.pack("=I", len(body)) + body)
            until = monotonic() + patience
            (length,) = struct.unpack("=I", self._read(4, until))
            if length > LONGEST:
                raise _Ended("an answer is too long")
            answer = json.loads(self._read(length, until))
        except (OSError, ValueError, RecursionError) as problem:
            raise self._ended(problem) from problem
        except BaseException:  # half an exchange is none: the next call begins with a new process
            self.end()
            raise
        return answer if isinstance(answer, dict) else {}

    def _write(self, frame: bytes) -> None:
        view, pipe = memoryview(frame), _pipe(self._popen.stdin).fileno()
        while view:
            view = view[os.write(pipe, view) :]

    def _read(self, length: int, until: float) -> bytes:
        parts, pipe = [], _pipe(self._popen.stdout).fileno()
        while length:
            if not self._poll.poll(max(0.0, until - monotonic()) * 1000):
                raise _Ended("it stands still", late=True)
            part = os.read(pipe, min(length, 1 << 20))
            if not part:
                raise BrokenPipeError("its pipe is closed")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _ended(self, problem: Exception) -> _Ended:
        self.end()
        code = self._popen.returncode
        if code == -signal.SIGPROF:
            return _Ended("out of time", late=True)
        if code and code != -signal.SIGKILL:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return _Ended(f"its process ended with {how}")
        return _Ended(f"its process ended: {problem}")

    def end(self) -> None:
        """End the process and wait for its end."""
        self._finalizer()

    def let_go(self) -> None:
        """Close the pipes, and leave the process to the one who started it."""
        self._finalizer.detach()
        for pipe in (self._popen.stdin, self._popen.stdout):
            _pipe(pipe).close()
        self._popen.returncode = 0  # or its disposal would look for a child that this process does not have


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def _end(popen: subprocess.Popen[bytes]) -> None:
    for pipe in (popen.stdin, popen.stdout):
        with contextlib.suppress(OSError):
            _pipe(pipe).close()
    try:
        popen.wait(0.5)  # it may be ending: then how it ended is of interest
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()


def _forget_all() -> None:
    for sandbox in list(_SANDBOXES):
        sandbox.forget()


_SANDBOXES: weakref.WeakSet[Sandbox] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_all)
