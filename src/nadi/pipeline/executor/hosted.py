"""What lives in a host: apps of nodes, and kernels of queries over DataFrames. A cache; nothing is lost with it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from nadi.errors import error
from nadi.pipeline.executor.handover import Neighbours
from nadi.pipeline.executor.jobs import Jobs
from nadi.pipeline.executor.kernels import Kernels
from nadi.pipeline.executor.liveapp import LiveApp
from nadi.pipeline.executor.rehearsal import rehearse
from nadi.pipeline.hosting.fences import Group, read_fence
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.hosting.turns import Turns
from nadi.pipeline.spec import AppSpec

QUIET = 30.0  # seconds without work after which a host may take a pause to collect what dropped kernels have left

During = Callable[[str], AbstractContextManager[None]]
"""Notes that an app (by its id) is at work."""


class Apps:
    """All apps of a host, and its operations by name. `scratch` is the folder of the hosts, `near` are the hosts beside it; `wake(address, app)` tells
    somebody that an app has done what it was not waited for; cuts are worked on `during` a note of their app, and while kernels compute, that
    is noted, too (`computing`). `fatal` are the requests that the host before this one died with;
    `limit_memory(MB)` bounds this process where an app says how much is meant for hosts.

    An app is planned, opened and closed without the lock that all of them share: each has one of its own for that.
    """

    def __init__(
        self,
        scratch: Path,
        near: Neighbours | None = None,
        wake: Callable[[str, str], None] = lambda _address, _app: None,
        during: During = lambda _app: nullcontext(),
        computing: During = lambda _app: nullcontext(),
        fatal: Collection[str] = (),
        limit_memory: Callable[[int], None] = lambda _meant: None,
    ) -> None:
        self._scratch = scratch
        self._near = near
        self._wake = wake
        self._during = during
        self._computing = computing
        self._fatal = frozenset(fatal)
        self._limit_memory = limit_memory
        self._garbage = False
        self._apps: dict[str, LiveApp | Kernels] = {}
        self._jobs: dict[str, Jobs] = {}
        self._turns = Turns()
        self._opening: dict[Group, threading.Lock] = {}
        self._epochs: dict[Group, int] = {}
        self._lock = threading.Lock()
        self._rehearsed: set[tuple[str, tuple[str, ...]]] = set()
        self._rehearsing = threading.Lock()

    def is_fatal(self, ask: str) -> bool:
        """Whether the host before this one died while a kernel computed for this very request, which whoever waits for it asks again."""
        return ask in self._fatal

    # ---- one app

    def enter(self, id_: str, epoch: int, spec: str | None) -> AppSpec | None:
        """The app that a run of it (an epoch) asks for, as it is known or as its spec (JSON) tells; None where that is missing. Nothing is opened.

        Errors: CUT_FENCED where a later run of it has been here, whatever its text was, or was moved away from here.
        """
        known = self._apps.get(id_)
        if known is None and spec is None:
            return None
        described = AppSpec.from_json(spec or "") if known is None else known.spec
        self._check(described, epoch)
        return described

    def _check(self, spec: AppSpec, epoch: int) -> None:
        """Note the latest run of a group. Errors: CUT_FENCED."""
        group = _group(spec)
        with self._lock:
            if group not in self._epochs:
                self._epochs[group] = read_fence(self._scratch, group)
            current = self._epochs[group]
            if current > epoch:
                raise error("CUT_FENCED", app=spec.app, current=current, epoch=epoch)
            self._epochs[group] = epoch

    def jobs(self, spec: AppSpec) -> Jobs:
        """What this host is at for an app, which need not be open."""
        with self._lock:
            found = self._jobs.get(spec.id)
            if found is None:
                found = self._jobs[spec.id] = Jobs(spec.app, partial(self._ring, spec.id), self._turns)
            return found

    def _ring(self, id_: str, address: str) -> None:
        self._wake(address, id_)

    def live(self, spec: AppSpec, epoch: int) -> LiveApp:
        """The app of a node, opened where it is not. Errors: CUT_FENCED; those of the text."""
        app = self.define(spec, epoch)
        if not isinstance(app, LiveApp):
            raise ValueError(f"{spec.app} has no state folder")
        return app

    def define(self, spec: AppSpec, epoch: int | None = None) -> LiveApp | Kernels:
        """Learn of an app; another version of the same one (same state folder) is closed. One without a state folder is a query over DataFrames."""
        known = self._apps.get(spec.id)
        if known is not None:
            return known
        with self._lock:
            opening = self._opening.setdefault(_group(spec), threading.Lock())
        with opening:
            known = self._apps.get(spec.id)
            if known is not None:
                return known
            if epoch is not None:
                self._check(spec, epoch)  # a later run may have come meanwhile, whose version is not to be closed
            return self._open(spec)

    def _open(self, spec: AppSpec) -> LiveApp | Kernels:
        made: LiveApp | Kernels
        self._limit_memory(spec.host_memory)
        if spec.state:
            self._close_others(spec)
            made = self._opened(spec)
        else:
            made = Kernels(spec, self._scratch)
        with self._lock:
            self._apps[spec.id] = made
        return made

    def _close_others(self, spec: AppSpec) -> None:
        with self._lock:
            others = [id_ for id_, other in self._apps.items() if _group(other.spec) == _group(spec)]
            closing = [(self._apps.pop(id_), self._jobs.pop(id_, None)) for id_ in others]
        for app, jobs in closing:
            self._close(app, jobs)

    def _close(self, app: LiveApp | Kernels, jobs: Jobs | None) -> None:
        if jobs is not None:
            jobs.close()
        app.close()
        self._garbage = True

    def _opened(self, spec: AppSpec) -> LiveApp:
        group = _group(spec)
        during = partial(self._during, spec.id)
        return LiveApp(
            spec,
            self._scratch,
            self._near,
            lambda: self._epochs.get(group, 0),
            during,
            self._computing,
        )

    def forget(self, id_: str, moved: tuple[Group, int] | None = None) -> None:
        """Let go of an app that has ended, or whose group goes on elsewhere as a later run (`moved`: its epoch): its inputs, sinks and kernels. Another task
        that needs it defines it again, unless it is of an earlier run."""
        with self._lock:
            app, jobs = self._apps.pop(id_, None), self._jobs.pop(id_, None)
            if moved is not None:
                group, epoch = moved
                self._epochs[group] = max(epoch, self._epochs.get(group, 0))
            elif app is not None:
                self._epochs.pop(_group(app.spec), None)
        if app is not None:
            self._close(app, jobs)
        elif jobs is not None:
            jobs.close()

    # ---- what is asked

    def answer(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The answer to a request. Raises ValueError for an operation that there is not."""
        operation = head["op"]
        if operation == "define":
            self.define(AppSpec.from_json(head["spec"]))
        elif operation == "forget":
            moved = head.get("moved")
            self.forget(head["app"], None if moved is None else (tuple(moved[0]), moved[1]))
        elif operation == "rehearse":
            self._rehearse(head["text"], tuple(head["outputs"]), head["columns"])
        elif operation == "ping":
            return Frame({"ok": True, "apps": len(self._apps)}, [])
        else:
            app = self._apps.get(head["app"])
            if app is None:
                return Frame({"need": "app"}, [])
            return app.answer(head, parts)
        return Frame({"ok": True}, [])

    def _rehearse(self, text: str, outputs: tuple[str, ...], columns: bool) -> None:
        """Load what an app needs that is expected. One at a time: it is not in haste."""
        with self._rehearsing:
            if (text, outputs) not in self._rehearsed:
                rehearse(text, outputs, columns)
                self._rehearsed.add((text, outputs))

    def beat(self) -> None:
        """Return: whoever can, has the interpreter and the lock that all requests need."""
        with self._lock:
            return

    def let_go_idle(self) -> None:
        """Drop what nobody has asked for in a long while, and when the host has nothing to do collect what dropped kernels have left."""
        now = time.monotonic()
        apps = list(self._apps.values())
        self._garbage |= sum(app.let_go_idle(now) for app in apps) > 0
        if self._garbage and max((app.last_use for app in apps), default=0.0) < now - QUIET:
            self._garbage = False
            gc.unfreeze()  # kernels are frozen after a load or a snapshot
            gc.collect()
            gc.freeze()


def _group(spec: AppSpec) -> Group:
    return spec.state, spec.group
