"""The simulations of a worker: kept as files, checked whenever apps or files change, run as feeds.

A simulation whose app, stream, file or database is missing is *inactive*, with the reason. One that ran when the worker ended is stopped after its next start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog

from nadi.errors import NadiError, error
from nadi.server.simulation.configuration import Configuration, Json, configuration_of
from nadi.server.simulation.feed import ERROR, PAUSE, PENDING_STOP, RUN, STOP, STOPS_WITHIN, Clock, Feed, MachineClock
from nadi.server.simulation.shelf import Shelf
from nadi.server.simulation.sources import Sources
from nadi.server.simulation.targets import STARTING, AppOutlet, Targets

FEEDS = 10
"""How many may run at the same time."""
ACTIONS = ("run", "pause", "resume", "stop")
UNCHECKED = "it has not been looked at yet"

log = structlog.get_logger("nadi.server")


@dataclass(slots=True)
class _Simulation:
    """`reason` says why it is inactive, "" where it is active. A file that cannot be read has no `wanted`."""

    wanted: Configuration | None
    reason: str = UNCHECKED
    feed: Feed | None = None
    shown: Json = field(default_factory=dict)

    @property
    def status(self) -> str:
        return STOP if self.feed is None else self.feed.status


class Simulations:
    """See the module's text. All of it may be called from any thread."""

    def __init__(
        self, targets: Targets, shelf: Shelf, sources: Sources, make_clock: Callable[[], Clock] = MachineClock
    ) -> None:
        self._targets = targets
        self._shelf = shelf
        self._sources = sources
        self._make_clock = make_clock
        self._known: dict[str, _Simulation] = {}
        self._lock = threading.Lock()
        self._clocks: set[Clock] = set()
        self._woken = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._look_after, name="simulations", daemon=True)

    # ---- its life

    def start(self) -> None:
        """Take what is kept, and begin to look after it. Errors: FOLDER_NOT_MADE."""
        self._shelf.make()
        for name in self._shelf.names():
            self._known[name] = self._read(name)
        self._woken.set()
        self._thread.start()

    def wake(self) -> None:
        """Apps or files have changed. Returns at once."""
        self._woken.set()

    def close(self) -> None:
        """Stop all feeds."""
        self._over = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            running = [s.feed for s in self._known.values() if s.feed is not None]
        for feed in running:
            feed.stop(0.0)
        until = time.monotonic() + STOPS_WITHIN
        for feed in running:
            feed.stop(max(0.0, until - time.monotonic()))

    # ---- what there is

    def all(self) -> tuple[list[Json], list[Json]]:
        """The documents of active and of inactive simulations, these with `exceptionReason`; by name, without passwords."""
        active: list[Json] = []
        inactive: list[Json] = []
        with self._lock:
            for _, each in sorted(self._known.items()):
                if each.reason:
                    inactive.append({**each.shown, "exceptionReason": each.reason})
                else:
                    active.append(each.shown)
        return active, inactive

    def document(self, name: str) -> Json:
        """One of them, without passwords. Errors: SIMULATION_NOT_THERE."""
        with self._lock:
            return self._of(name).shown

    def status(self, name: str) -> str:
        """RUN, PAUSE, STOP, ERROR or PENDING_STOP. Errors: SIMULATION_NOT_THERE."""
        with self._lock:
            return self._of(name).status

    def details(self, name: str) -> Json:
        """What is known of one. Errors: SIMULATION_NOT_THERE."""
        with self._lock:
            found = self._of(name)
            sent, problem = (0, "") if found.feed is None else (found.feed.sent, found.feed.problem)
            return {"name": name, "status": found.status, "inactive": found.reason, "sent": sent, "problem": problem}

    # ---- changes

    def add(self, body: bytes) -> str:
        """Keep a new simulation, or one in place of an inactive one; -> its name. Errors: SIMULATION_INVALID, SIMULATION_EXISTS, SIMULATION_FILE."""
        wanted = configuration_of(body)
        with self._lock:
            before = self._known.get(wanted.name)
            if before is not None and not before.reason:
                raise error("SIMULATION_EXISTS", name=wanted.name)
            made = self._keep(wanted)
        if before is not None and before.feed is not None:
            before.feed.stop()
        self._check(wanted.name, made)
        return wanted.name

    def replace(self, name: str, body: bytes) -> None:
        """Change a simulation, its name too; its feed is stopped. Errors: SIMULATION_NOT_THERE, SIMULATION_INVALID, SIMULATION_FILE."""
        with self._lock:
            before = self._of(name)
        kept = None if before.wanted is None else before.wanted.document
        wanted = configuration_of(body, kept)
        with self._lock:
            if self._of(name) is not before:
                raise error("SIMULATION_INVALID", reason="somebody else has just changed it")
            if wanted.name != name and wanted.name in self._known:
                raise error("SIMULATION_INVALID", reason=f"there is a simulation '{wanted.name}' already")
            made = self._keep(wanted)
            if wanted.name != name:
                self._shelf.remove(name)
                del self._known[name]
        if before.feed is not None:
            before.feed.stop()
        self._check(wanted.name, made)

    def remove(self, name: str) -> None:
        """Forget a simulation; its feed is stopped. Errors: SIMULATION_NOT_THERE, SIMULATION_FILE."""
        with self._lock:
            before = self._of(name)
            self._shelf.remove(name)
            del self._known[name]
        if before.feed is not None:
            before.feed.stop()

    # ---- feeds

    def act(self, name: str, action: str) -> None:
        """`run`, `pause`, `resume` or `stop` a simulation.

        Errors: SIMULATION_NOT_THERE; SIMULATION_ALREADY where it is in that state; SIMULATION_STATE where it is in one that it cannot leave so;
        SIMULATION_INACTIVE, SIMULATIONS_TOO_MANY, DATABASE_SILENT and the like for `run`.
        """
        if action == "run":
            self._run(name)
            return
        with self._lock:
            found = self._of(name)
            status, feed = found.status, found.feed
            already = {"pause": (PAUSE,), "resume": (RUN,), "stop": (STOP, ERROR)}[action]
            if status in already:
                raise error("SIMULATION_ALREADY", name=name, status=status)
            if feed is None or (action != "stop" and feed.status not in (RUN, PAUSE)):
                raise error("SIMULATION_STATE", name=name, status=status, action=action)
            if action == "pause":
                feed.pause()
            elif action == "resume":
                feed.resume()
        if action == "stop":
            feed.stop()

    def _run(self, name: str) -> None:
        with self._lock:
            found = self._may_run(name)
            wanted = found.wanted
        assert wanted is not None
        try:
            self._sources.check(wanted)
        except NadiError as reason:
            self._note(name, found, reason.diagnostic.message)
            raise error("SIMULATION_INACTIVE", name=name, reason=reason.diagnostic.message) from reason
        self._note(name, found, "")  # one that was inactive may have what it needs by now
        with self._lock:
            if self._may_run(name) is not found:
                raise error("SIMULATION_STATE", name=name, status="changing", action="run")
            running = sorted(n for n, s in self._known.items() if s.feed is not None and not s.feed.is_over)
            if len(running) >= FEEDS:
                raise error("SIMULATIONS_TOO_MANY", name=name, most=FEEDS, running=", ".join(running))
            clock = self._make_clock()
            outlet = AppOutlet(self._targets, [source.app for source in wanted.sources], clock.ring)
            events = partial(self._sources.opened, wanted, int(time.time() * 1000))
            found.feed = Feed(name, events, outlet, wanted.interval / 1000, clock, partial(self._clocks.discard, clock))
            self._clocks.add(clock)
            found.feed.start()

    def _may_run(self, name: str) -> _Simulation:
        found = self._of(name)
        if found.status in (RUN, PENDING_STOP):
            raise error("SIMULATION_ALREADY", name=name, status=found.status)
        if found.status == PAUSE:
            raise error("SIMULATION_STATE", name=name, status=PAUSE, action="run")
        if found.wanted is None:
            raise error("SIMULATION_INACTIVE", name=name, reason=found.reason)
        return found

    # ---- looking after them

    def _look_after(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._over:
                return
            for clock in tuple(self._clocks):  # apps that feeds wait for may be there
                clock.ring()
            with self._lock:
                listed = list(self._known.items())
            for name, each in listed:
                if each.wanted is not None and not self._is_starting(each.wanted):
                    self._check(name, each)

    def _is_starting(self, wanted: Configuration) -> bool:
        return any(self._targets.state(source.app) == STARTING for source in wanted.sources)

    def _check(self, name: str, each: _Simulation) -> None:
        """Note whether a simulation is active; the feed of one that is no more is stopped."""
        if each.wanted is None:
            return
        try:
            self._sources.check(each.wanted)
        except NadiError as reason:
            if self._is_starting(each.wanted) and not each.reason:  # its app has just begun to be updated
                return
            self._note(name, each, reason.diagnostic.message)
        else:
            self._note(name, each, "")

    def _note(self, name: str, each: _Simulation, reason: str) -> None:
        with self._lock:
            if each.reason == reason:
                return
            each.reason = reason
            feed = each.feed
        log.info("simulation inactive" if reason else "simulation active", simulation=name, reason=reason)
        if reason and feed is not None and not feed.is_over:
            feed.stop()

    # ---- files

    def _of(self, name: str) -> _Simulation:
        found = self._known.get(name)
        if found is None:
            raise error("SIMULATION_NOT_THERE", name=name[:100])
        return found

    def _keep(self, wanted: Configuration) -> _Simulation:
        self._shelf.write(wanted.name, msgspec.json.format(msgspec.json.encode(wanted.document), indent=2))
        made = self._known[wanted.name] = _Simulation(wanted, shown=wanted.shown)
        return made

    def _read(self, name: str) -> _Simulation:
        try:
            wanted = configuration_of(self._shelf.read(name))
            if wanted.name != name:
                raise error(
                    "SIMULATION_INVALID",
                    reason=f"its file is called {name}.json, its simulationName is '{wanted.name}'",
                )
        except NadiError as reason:
            log.warning("a simulation cannot be read", simulation=name, reason=str(reason))
            shown = {"properties": {"simulationName": name}, "sources": []}
            return _Simulation(None, reason.diagnostic.message, shown=shown)
        return _Simulation(wanted, shown=wanted.shown)
