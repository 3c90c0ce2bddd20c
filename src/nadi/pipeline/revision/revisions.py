"""Revisions of an app that runs: made every few minutes, before a stop and on request.

    <state>/revisions/<id>.request    somebody wants one
    <state>/revisions/<id>.answer     its name, or what went wrong
    <state>/revisions/copy-<id>/      what the process that writes one is told
    <state>/revisions/none            no revision is to be made for now

One is made at a time, in a thread of the node. It is of the cut that was committed last: the state log has all that this state is read from, and lets go of
nothing of it meanwhile. A process of its own reads and writes, so that the app goes on. A request is a file, so that it needs no connection to the node and
survives its restart.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from nadi.config import Persistence
from nadi.config.ownership import OWN_FOLDER, make_folders
from nadi.errors import NadiError, error
from nadi.io import durablefiles
from nadi.io.faultlog import FAULTS
from nadi.io.folderwatch import watch_folder
from nadi.kernel.control import CONTROL
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.cutting.cutlog import Cuts
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.live import read_live
from nadi.pipeline.revision.revisionwriter import Done, Plan, write_aside
from nadi.pipeline.spec import AppSpec

LOOK = 0.1  # seconds between two looks for a request or an answer where nobody tells of a change in the folder …
LOOK_AGAIN = 60.0  # … and where somebody does
FIRST_WITHIN = 60.0  # seconds that a revision waits for the first commit of an app: an input that is away may come back
NONE = "none"
KEPT_BACK = 1  # cuts before the oldest revision's that stay in the cut log: order times go by the one before

log = structlog.get_logger(__name__)


def _unheard() -> None:
    """Nobody wants to know."""


def requests(state: Path) -> Path:
    """Where all that is about revisions of a running app is, in its state folder."""
    return state / "revisions"


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a node was told of revisions, and where relative locations begin."""

    persistence: Persistence
    base: Path


class Revisions:
    """Makes the revisions of one app while its group runs. `look` is called now and then and returns at once."""

    def __init__(
        self,
        group: Group,
        keeping: Keeping,
        spark: str,
        changed: Callable[[], None] = _unheard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`spark` is the version of Spark, which a revision names; `changed` is called, from any thread, when there may be something to look at."""
        self._group = group
        self._keeping = keeping
        self._spark = spark
        self._clock = clock
        self._folder = requests(group.spec.place.state)
        make_folders(self._folder)
        self._last = clock()
        self._waits: float | None = None  # since when, for the first commit
        self._thread: threading.Thread | None = None
        self._changed = changed
        self._heard, self._looked = True, 0.0
        self._watch = watch_folder(self._folder, self._hear)

    @property
    def is_busy(self) -> bool:
        """Whether one is being made."""
        return self._thread is not None and self._thread.is_alive()

    def look(self) -> None:
        """Begin a revision where one is due or asked for, and none is under way. An app that has committed nothing does so first, though nothing has come."""
        if self.is_busy:
            return
        asked = self._asked()
        if (asked or self._due()) and not self._withheld and self._has_first():
            self._thread = threading.Thread(target=self._answer, args=(asked,), daemon=True)
            self._thread.start()

    def before_stop(self) -> None:
        """Make a revision of where the app stops, if the node keeps any; what fails is said, and is no reason not to stop."""
        if self._thread is not None:
            self._thread.join()
        asked = sorted(self._folder.glob("*.request"))
        if self._withheld:  # who has asked is answered after the next start
            return
        if asked or (self._keeping.persistence.enabled and self._keeping.persistence.alone):
            self._answer(asked)

    def close(self) -> None:
        """Hear of nothing any more; one that is being made goes on."""
        if self._watch is not None:
            self._watch.close()

    @property
    def _withheld(self) -> bool:
        return (self._folder / NONE).exists()

    def _has_first(self) -> bool:
        """Whether the app has committed something, or is not waited for any longer."""
        if not self._group.has_committed:
            if self._waits is None:
                self._waits = self._clock()
                self._group.want_first()
            if self._clock() - self._waits < FIRST_WITHIN:
                self._heard = True  # those who ask are looked for again then
                return False
        self._waits = None
        return True

    def _hear(self) -> None:
        self._heard = True
        self._changed()

    def _asked(self) -> list[Path]:
        """The requests, where there may be any."""
        watched = self._watch is not None and self._watch.alive
        if not self._heard and self._clock() - self._looked < (LOOK_AGAIN if watched else LOOK):
            return []
        self._heard, self._looked = False, self._clock()
        return sorted(self._folder.glob("*.request"))

    def _due(self) -> bool:
        kept = self._keeping.persistence
        return kept.enabled and kept.alone and kept.interval > 0 and self._clock() - self._last >= 60 * kept.interval

    def _answer(self, asked: list[Path]) -> None:
        try:
            self._make_and_tell(asked)
        finally:
            self._changed()

    def _make_and_tell(self, asked: list[Path]) -> None:
        self._last = self._clock()
        app = self._group.spec.app
        try:
            done = self.make()
        except Exception as reason:  # whatever happens, those who wait hear of it, and the app goes on
            failure = reason if isinstance(reason, NadiError) else error("REVISION_FAILED", app=app, reason=reason)
            log.warning("no revision", app=app, reason=str(failure))
            done = Done(condition=failure.condition, message=failure.diagnostic.message)
        for request in asked:
            fresh = request.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(done))
            fresh.replace(request.with_suffix(".answer"))
            request.unlink(missing_ok=True)

    def make(self) -> Done:
        """Make a revision of what is committed. Errors: NOTHING_COMMITTED, REVISION_FAILED."""
        folder = self._folder / f"copy-{secrets.token_hex(4)}"
        folder.mkdir(OWN_FOLDER, parents=True)
        spec, kept = self._group.spec, self._keeping
        try:
            with self._group.pinned() as (cut, found):
                persistence, base = kept.persistence, str(kept.base.resolve())
                offset, highs = cut.to_offset(), list(found.highs)
                plan = Plan(spec, self._group.log, dict(found.lines), offset, persistence, base, self._spark, highs)
                done = write_aside(plan, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if persistence.alone:
            forget(spec, open_cut_log(spec), done.oldest)
        return done


@contextlib.contextmanager
def withheld(state: Path) -> Iterator[None]:
    """Have no revision made of an app meanwhile, also not when it stops: a new one would remove the oldest one, which may be the one to restore."""
    note = requests(state) / NONE
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def sweep(state: Path) -> None:
    """Remove what a node that is gone was making revisions of; `dump*` are those of older versions."""
    (requests(state) / NONE).unlink(missing_ok=True)
    for folder in (*requests(state).glob("copy-*"), *requests(state).glob("dump*")):
        shutil.rmtree(folder, ignore_errors=True)


def forget(spec: AppSpec, cuts: Cuts, oldest: int) -> None:
    """Let go of cuts, and of records of the fault log and the control log, that not even the oldest revision needs, which is that of cut `oldest`."""
    cuts.trim(oldest - KEPT_BACK)
    kept = cuts.at(oldest - KEPT_BACK) or cuts.at(oldest)
    for source in spec.sources(spec.plan()):
        before = None if kept is None else kept.ends.get((source.ordinal, 0))
        if before is None:
            continue
        if source.stream == FAULTS:
            spec.open_faults().trim(before)
        elif source.stream == CONTROL:
            spec.open_control().trim(before)


def ask_for(state: Path, within: float) -> str:
    """Ask the node that runs an app for a revision and return its name. `within` is in seconds.

    Errors: APP_NOT_RUNNING, ANSWER_LATE, REVISION_FAILED.
    """
    if read_live(state) is None:
        raise error("APP_NOT_RUNNING", app=state.name, folder=state.parent)
    folder = requests(state)
    make_folders(folder)
    request = folder / f"{time.time_ns()}-{secrets.token_hex(4)}.request"
    answer = request.with_suffix(".answer")
    request.touch()
    until = time.monotonic() + within
    changed = threading.Event()
    watch = watch_folder(folder, changed.set)
    try:
        while not answer.exists():
            if time.monotonic() > until:
                raise error("ANSWER_LATE", app=state.name, seconds=round(within), what="a revision takes longer")
            changed.wait(min(LOOK if watch is None else LOOK_AGAIN, max(0.0, until - time.monotonic())))
            changed.clear()
        done: Done = durablefiles.read_note(answer, Done)
    finally:
        if watch is not None:
            watch.close()
        for path in (request, answer):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    if done.condition:
        raise error("REVISION_FAILED", app=state.name, reason=done.message)
    return done.name
