"""Keeps what the node runs equal to what the folder of apps has.

A file that comes is deployed, one that changes is updated in place, one that goes is undeployed. Apps do not wait for each other: an app accepts events as
soon as its sources listen, which is long before its queries are compiled. What cannot run is inactive, with the reason; where the reason may pass, it is tried
again, later each time. Those who want to know wake the deployer; it looks by itself every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from nadi.errors import NadiError, error
from nadi.io.folderwatch import watch_folder
from nadi.io.retry import Policy
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.appfiles import AppFile, AppFiles
from nadi.server.claims import Claims

ACTIVE, INACTIVE, STARTS = "active", "inactive", "starting"
AT_A_TIME = 8  # apps that are planned: that takes a core
WORKERS = 1_000  # threads at most: an app needs one while it is deployed, updated or undeployed, and mostly waits; they are made when needed
RETRY = Policy(5_000, 300_000)
STARTING = "it is being deployed"
TAKEN = "ADDRESS_TAKEN"
RUNS = ("running", "stopping")

log = structlog.get_logger("nadi.server")


class Host(Protocol):
    """What runs apps: the node. Both calls wait until it is done."""

    def add(self, text: AppText) -> AppProgress: ...
    def remove(self, name: str, revision: bool = True) -> object: ...


class Preparation(Protocol):
    """What a file has to go through before the node gets it."""

    def checked(self, file: AppFile) -> AppText:
        """The text as it runs. Errors: those of the text; they will be the same next time."""


@dataclass(frozen=True, slots=True)
class AppStatus:
    """An app of the folder, as people see it. `since` is when it was deployed last (ms, 0: never); `starting`: it is on its way, and `reason` says what it
    waits for."""

    name: str
    text: str
    state: str
    reason: str = ""
    since: int = 0
    progress: AppProgress = field(default_factory=lambda: AppProgress(""))
    starting: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done with an app between a stop and the next start, and what came of it."""

    do: Callable[[AppText], Any]
    came: Future[Any]

    def run(self, text: AppText) -> None:
        """Do it; who waits hears of it, and the app is started again."""
        try:
            self.came.set_result(self.do(text))
        except Exception as reason:
            self.came.set_exception(reason)


@dataclass(slots=True)
class _Entry:
    """What is known of one app. `has` is the mark of the file whose text the node runs, "" where it runs none; `refused` that of one that cannot run; `again`:
    it is to be started again, whatever it has, and `work` done before. `waits`: it listens where another app does."""

    wanted: AppFile | None
    shown: AppFile
    has: str = ""
    refused: str = ""
    busy: bool = False
    again: bool = False
    work: list[_Work] = field(default_factory=list)
    reason: str = STARTING
    since: int = 0
    tries: int = 0
    retry_at: float = 0.0
    waits: bool = False
    progress: AppProgress = field(default_factory=lambda: AppProgress(""))

    def is_due(self, now: float) -> bool:
        """Whether there is something to do."""
        if self.busy:
            return False
        if self.again:
            return True
        if self.wanted is None:
            return self.retry_at <= now
        if self.has == self.wanted.mark:
            return False
        return self.refused != self.wanted.mark or 0 < self.retry_at <= now


class Deployer:
    """See the module's text. `interval` is in seconds. It is started once the node takes apps, and closed before the node ends."""

    def __init__(
        self, files: AppFiles, preparation: Preparation, interval: float, claims: Claims | None = None
    ) -> None:
        self._files = files
        self._host: Host | None = None
        self._preparation = preparation
        self._claims = claims or Claims(None, lambda _text: ())
        self._interval = interval
        self._entries: dict[str, _Entry] = {}
        self._changed = threading.Condition()
        self._looking = threading.Lock()
        self._woken = threading.Event()
        self._over = self._hurries = False
        self._told: Callable[[], object] = lambda: None
        self._gone: Callable[[str], object] = lambda _name: None
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="deploy")
        self._planning = threading.BoundedSemaphore(AT_A_TIME)
        self._thread = threading.Thread(target=self._run, name="deployer", daemon=True)

    # ---- what the node begins with

    def first(self) -> list[AppText]:
        """The apps that the node is to begin with; what cannot run is inactive from the start."""
        self._look()
        self._claims.keep(self._entries)
        found = []
        for name, entry in self._entries.items():
            assert entry.wanted is not None
            try:
                text = self._preparation.checked(entry.wanted)
                self._claims.take(name, text)
                found.append(text)
            except NadiError as reason:
                self._refuse(name, entry.wanted, reason, final=reason.condition != TAKEN)
            else:
                entry.has, entry.since = entry.wanted.mark, _now()
        return found

    def refused(self, name: str, reason: NadiError) -> None:
        """The node does not take an app that it was to begin with."""
        with self._changed:
            entry = self._entries[name]
            assert entry.wanted is not None
            file = entry.wanted
            entry.has = ""
        self._refuse(name, file, reason, final=False)

    # ---- its life

    def tell(self, told: Callable[[], object], gone: Callable[[str], object]) -> None:
        """Tell whenever an app was deployed, updated or undeployed, or has become active or inactive; and before that which one was undeployed, when it cannot
        have come again yet. Both calls have to return at once."""
        self._told, self._gone = told, gone

    def start(self, host: Host) -> None:
        """Begin to look, for what runs the apps."""
        self._host = host
        self._thread.start()

    def restart(self, name: str) -> bool:
        """Have an app stopped and started again; whether there is one. Returns at once."""
        with self._changed:
            entry = self._entries.get(name)
            if entry is None or entry.wanted is None:
                return False
            entry.again = True
        self._woken.set()
        return True

    def between(self, name: str, do: Callable[[AppText], Any]) -> Future[Any] | None:
        """Have an app stopped, without a revision of where it stands, something done with its text, and the app started again, whatever came of it.

        -> what came of it, once it is known; None where there is no such app. What the future raises is what `do` has raised, or why the app cannot run.
        Errors: NODE_STOPPING.
        """
        came: Future[Any] = Future()
        with self._changed:
            if self._over:
                raise error("NODE_STOPPING", folder=self._files.folder)
            entry = self._entries.get(name)
            if entry is None or entry.wanted is None:
                return None
            entry.again = True
            entry.work.append(_Work(do, came))
        self._woken.set()
        return came

    def starting(self) -> list[str]:
        """The apps that are on their way: nobody knows yet whether they will run."""
        with self._changed:
            return [name for name, entry in sorted(self._entries.items()) if _is_starting(entry)]

    def look(self) -> None:
        """Take note of the files that are there now; what is to be done begins behind this call. Errors: OSError where the folder cannot be read."""
        self._look()
        self._woken.set()

    def close(self) -> None:
        """Look no more; what is under way is waited for."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        self._workers.shutdown(wait=True, cancel_futures=True)
        with self._changed:
            left = [one for entry in self._entries.values() for one in entry.work]
        for one in left:
            one.came.set_exception(error("NODE_STOPPING", folder=self._files.folder))

    # ---- what is known

    def status(self, name: str) -> AppStatus | None:
        """One app of the folder; None where there is none of this name, or its file has gone."""
        with self._changed:
            entry = self._entries.get(name)
            return None if entry is None or entry.wanted is None else _status(name, entry)

    def all(self) -> list[AppStatus]:
        """The apps of the folder, by name."""
        with self._changed:
            return [_status(name, entry) for name, entry in sorted(self._entries.items()) if entry.wanted is not None]

    def hurry(self) -> None:
        """What is under way is about to end: nobody waits for it in `settled` any more."""
        with self._changed:
            self._hurries = True
            self._changed.notify_all()

    def settled(self, name: str, within: float) -> AppStatus | None:
        """Wait until an app is as its file says, or cannot be, for so many seconds; -> its status, None where it has gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._hurries or self._is_settled(name), within)
        return self.status(name)

    def started(self, name: str, within: float) -> AppStatus | None:
        """Wait until an app runs, or cannot, or waits for something else itself, for so many seconds; -> its status, None where it has gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._hurries or self._has_started(name), within)
        return self.status(name)

    def note(self, progress: AppProgress) -> None:
        """What the node tells of an app."""
        with self._changed:
            entry = self._entries.get(progress.app)
            if entry is None:
                return
            changed = entry.progress.state != progress.state
            entry.progress = progress
            if progress.state == "failed" and entry.has and not entry.busy:
                entry.refused, entry.has = entry.has, ""
                entry.reason = progress.last_error or "it failed"
                self._retry_later(entry)
            self._changed.notify_all()
        if changed:
            self._told()

    # ---- looking

    def _run(self) -> None:
        watch = watch_folder(self._files.folder, self._woken.set)
        try:
            while not self._over:
                self._woken.clear()
                try:
                    self._look()
                except OSError as reason:
                    log.warning("the folder of apps cannot be read", folder=str(self._files.folder), reason=str(reason))
                self._act()
                self._woken.wait(self._pause())
        finally:
            if watch is not None:
                watch.close()

    def _look(self) -> None:
        """Take note of the files that are there."""
        with self._looking:  # an older scan must not come behind a newer one
            self._note_files(self._files.scan())

    def _note_files(self, files: Mapping[str, AppFile]) -> None:
        with self._changed:
            for name, file in files.items():
                entry = self._entries.get(name)
                if entry is None:
                    self._entries[name] = _Entry(file, file)
                else:
                    if entry.wanted is None:
                        entry.retry_at = 0.0
                    entry.wanted = entry.shown = file
            for name, entry in self._entries.items():
                if name not in files and entry.wanted is not None:
                    entry.wanted, entry.tries, entry.retry_at = None, 0, 0.0

    def _act(self) -> None:
        now = time.monotonic()
        with self._changed:
            due = [(name, entry) for name, entry in self._entries.items() if entry.is_due(now)]
            for _, entry in due:
                entry.busy = True
        for name, _ in due:
            self._workers.submit(self._settle, name)

    def _pause(self) -> float:
        now = time.monotonic()
        with self._changed:
            retries = [e.retry_at - now for e in self._entries.values() if e.retry_at and not e.busy]
        return max(0.0, min([self._interval, *retries]))

    # ---- acting, in a worker

    def _settle(self, name: str) -> None:
        """Make one app what its file says."""
        with self._changed:
            entry = self._entries[name]
            wanted, entry.again = entry.wanted, False
            work, entry.work = entry.work, []
        why: NadiError = error("APP_NOT_ON_NODE", app=name, folder=self._files.folder, hint="it is being undeployed")
        try:
            if wanted is None:
                self._undeploy(name, entry)
            else:
                self._deploy(name, entry, wanted, work)
        except NadiError as reason:
            why = reason
            self._put_off(name, entry, wanted, reason)
        except Exception as reason:  # whatever it is, the other apps go on, and this one says so
            log.exception("an app could not be deployed", app=name)
            why = error("APP_NOT_DEPLOYED", app=name, reason=repr(reason))
            self._put_off(name, entry, wanted, why)
        finally:
            for one in work:
                if not one.came.done():
                    one.came.set_exception(why)
            with self._changed:
                entry.busy = False
                if wanted is None and not entry.has and entry.wanted is None:
                    self._entries.pop(name, None)
                self._changed.notify_all()
            self._woken.set()
            self._told()

    def _put_off(self, name: str, entry: _Entry, wanted: AppFile | None, reason: NadiError) -> None:
        """What could not be done is tried again, later each time."""
        if wanted is not None:
            self._refuse(name, wanted, reason, final=False)
            return
        log.warning("app not undeployed", app=name, reason=str(reason))
        with self._changed:
            self._retry_later(entry)

    def _undeploy(self, name: str, entry: _Entry) -> None:
        self._stop(name, entry)
        self._claims.drop(name)
        self._gone(name)
        with self._changed:
            entry.tries, entry.retry_at = 0, 0.0
            for other in self._entries.values():
                if other.waits:  # for an address which may be this app's
                    other.retry_at = time.monotonic()
        log.info("app undeployed", app=name)

    def _stop(self, name: str, entry: _Entry, revision: bool = True) -> None:
        """Have the node let go of an app that it may have. One that has ended meanwhile is not there any more."""
        if not entry.has:
            return
        assert self._host is not None
        try:
            if revision:
                self._host.remove(name)
            else:
                self._host.remove(name, revision=False)
        except NadiError as reason:
            if reason.condition != "APP_NOT_ON_NODE":
                raise
        entry.has = ""

    def _deploy(self, name: str, entry: _Entry, wanted: AppFile, work: Sequence[_Work]) -> None:
        try:
            with self._planning:
                text = self._preparation.checked(wanted)
            self._claims.take(name, text)
        except NadiError as reason:
            for one in work:
                one.came.set_exception(reason)
            self._refuse(name, wanted, reason, final=reason.condition != TAKEN)
            return
        with self._changed:
            entry.reason = STARTING
        ran = bool(entry.has)
        self._stop(name, entry, revision=not work)
        for one in work:
            one.run(text)
        assert self._host is not None
        shown = self._host.add(text)  # which makes the state fit the text
        with self._changed:
            entry.has, entry.refused, entry.reason, entry.waits = wanted.mark, "", "", False
            entry.tries, entry.retry_at, entry.since, entry.progress = 0, 0.0, _now(), shown
        log.info("app updated" if ran else "app deployed", app=name)

    def _refuse(self, name: str, file: AppFile, reason: NadiError, final: bool) -> None:
        """An app cannot run as a file says; unless that is `final`, it is tried again."""
        log.warning("app inactive", app=name, reason=str(reason))
        with self._changed:
            entry = self._entries[name]
            entry.refused, entry.reason = file.mark, str(reason)
            entry.waits = reason.condition == TAKEN
            entry.retry_at = 0.0
            if not final:
                self._retry_later(entry)
            self._changed.notify_all()

    def _retry_later(self, entry: _Entry) -> None:
        entry.tries += 1
        entry.retry_at = time.monotonic() + RETRY.delay(entry.tries) / 1000
        self._woken.set()

    def _is_settled(self, name: str) -> bool:
        entry = self._entries.get(name)
        if entry is None:
            return True
        if entry.busy or entry.again or entry.wanted is None:
            return False
        return entry.wanted.mark in (entry.has, entry.refused)

    def _has_started(self, name: str) -> bool:
        status = self.status(name)
        return status is None or (self._is_settled(name) and (not status.starting or bool(status.progress.awaits)))


def _status(name: str, entry: _Entry) -> AppStatus:
    progress = entry.progress
    runs = bool(entry.has) and _runs(progress)
    starting = not runs and _is_starting(entry)
    awaited = progress.awaits if starting else ""
    reason = "" if runs else awaited or entry.reason or progress.last_error
    return AppStatus(name, entry.shown.text, ACTIVE if runs else INACTIVE, reason, entry.since, progress, starting)


def _runs(progress: AppProgress) -> bool:
    """Whether an app runs; one that waits for its first event does."""
    return progress.state in RUNS or (progress.state == "starting" and progress.carried)


def _is_starting(entry: _Entry) -> bool:
    if entry.busy:
        return entry.wanted is not None
    return bool(entry.has) and entry.progress.state in ("", "starting") and not _runs(entry.progress)


def _now() -> int:
    return int(time.time() * 1000)
