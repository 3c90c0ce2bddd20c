"""What an executor host does from its first request until it ends: it answers at two sockets, `<index>.sock` (`nadi.pipeline.hosting.protocol`) and
`<index>.lane` (`nadi.pipeline.hosting.lane`), which is Spark's. One thread per connection. It ends when the JVM is gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nadi.errors import NadiError
from nadi.io.readiness import end_of, readable
from nadi.metrics import logs
from nadi.pipeline.executor import bases, lanes
from nadi.pipeline.executor.forked import LOCK
from nadi.pipeline.executor.handover import Neighbours
from nadi.pipeline.executor.hosted import Apps
from nadi.pipeline.executor.memorylimit import limit_memory
from nadi.pipeline.executor.rehearsal import rehearse
from nadi.pipeline.executor.snapshot import sweep
from nadi.pipeline.executor.switchinterval import SwitchInterval
from nadi.pipeline.hosting.atwork import AtWork, fatal_requests, work_file
from nadi.pipeline.hosting.protocol import Frame, failure_head, receive, send
from nadi.pipeline.hosting.standby import called

_TIDY = 60.0  # seconds between two looks at what nobody asks for
_LOOK = 1.0  # seconds between looks where the system cannot tell of a process's end


def stand_by() -> int | None:
    """Load what hosts need until a host has died; -> which one. What cannot be loaded is met when it is needed."""

    def load(asked: Mapping[str, Any]) -> None:
        with contextlib.suppress(Exception):
            rehearse(asked["text"], asked["outputs"], asked["columns"])

    return called(load)


def serve(folder: Path, index: int, jvm: int) -> None:
    """Be host `index` of a JVM, whose place in the folder this process holds, until the JVM is gone."""
    logs.follow()
    threading.Thread(target=_end_with, args=(jvm, folder, index), daemon=True).start()
    sweep(folder, os.getpid())
    bases.sweep(folder, os.getpid())
    fatal = fatal_requests(work_file(folder, index))
    notes = AtWork(work_file(folder, index))
    interval = SwitchInterval()

    @contextlib.contextmanager
    def during(app: str) -> Iterator[None]:
        with interval.during(), notes.during(app):
            yield

    apps = Apps(folder, Neighbours(jvm, index), lanes.wake, during, notes.during, fatal, limit_memory)
    _collect_seldom()
    # whoever finds the host's own socket finds the other one, too
    with (
        lanes.serve(folder / f"{index}.lane", apps),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening,
    ):
        path = folder / f"{index}.sock"
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(128)
        _answer_all(listening, apps, lambda: _leave(folder, index))


def _collect_seldom() -> None:
    """Let the garbage collector look at fewer objects.

    Kernels hold many that live long and make few cycles; with Python's thresholds (700, 10, 10) the collector took 10 to 25 % of the time of stateful
    apps. What the imports made is not looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _answer_all(listening: socket.socket, apps: Apps, leave: Callable[[], object]) -> None:
    looked = time.monotonic()
    while True:
        ready = readable([listening], _TIDY)
        if time.monotonic() - looked >= _TIDY:
            looked = time.monotonic()
            apps.let_go_idle()
        if not ready:
            continue
        connection, _ = listening.accept()
        threading.Thread(target=_converse, args=(connection, apps, leave), daemon=True).start()


def _converse(connection: socket.socket, apps: Apps, leave: Callable[[], object]) -> None:
    with connection, contextlib.suppress(OSError):  # the other side is gone: so is the need for an answer
        while (request := receive(connection)) is not None:
            if request.head["op"] == "end":
                send(connection, {"ok": True})
                leave()
            frame = _answer(apps, request)
            send(connection, frame.head, frame.parts)


def _answer(apps: Apps, request: Frame) -> Frame:
    """The answer; it tells of a failure of whatever kind."""
    try:
        return apps.answer(request.head, request.parts)
    except Exception as reason:
        if not isinstance(reason, NadiError):
            traceback.print_exc()
        return Frame(failure_head(reason), [])


def _end_with(jvm: int, folder: Path, index: int) -> None:
    """Wait for the JVM's end, then leave."""
    try:
        _wait(jvm)
    except Exception:
        traceback.print_exc()
    finally:
        _leave(folder, index)


def _leave(folder: Path, index: int) -> None:
    """End: whatever goes wrong with what is to be tidied, the process ends."""
    try:
        _tidy(folder, index)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def _wait(jvm: int) -> None:
    try:
        end = end_of(jvm)
    except ProcessLookupError:
        return
    if end is None:
        _poll(jvm)
    else:
        readable([end])


def _poll(jvm: int) -> None:
    gone = threading.Event()
    while not gone.wait(_LOOK):
        try:
            os.kill(jvm, 0)
        except ProcessLookupError:
            return


def _tidy(folder: Path, index: int) -> None:
    """Remove what is this host's; another host, or the next node, may be removing the folder at the same moment."""
    for name in (*(f"{index}.{kind}" for kind in ("sock", "lane", "lock", "work", "alive")), LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        for left in folder.glob(f"snapshot-{os.getpid()}-*"):
            shutil.rmtree(left, ignore_errors=True)
        for told in folder.glob(f"base-{os.getpid()}-*"):
            told.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other hosts of this JVM are still leaving, or a log is kept there
        folder.rmdir()
