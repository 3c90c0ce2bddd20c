"""Revisions of an app that runs: made every few minutes, before a stop and on request.

    <state>/revisions/<id>.request    somebody wants one
    <state>/revisions/<id>.answer     its name, or what went wrong
    <state>/revisions/dump-<cut>/     dumps of the hosts, while a revision is made (`nadi.pipeline.state.dumps`)
    <state>/revisions/copy-<id>/      or a copy of what Spark has committed (`nadi.pipeline.revision.savedstate`)

One is made at a time, in a thread of the node; children of the hosts dump, a process of its own writes, so that the query goes on. A request is a file, so
that it needs no connection to the node and survives its restart.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from nadi.config import Persistence
from nadi.errors import error
from nadi.io import faultlog
from nadi.io.faultlog import FAULTS
from nadi.pipeline.cutting.cutlog import Cuts
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.live import read_live
from nadi.pipeline.query import named_failure
from nadi.pipeline.revision.revisionwriter import Done, Plan, write_aside
from nadi.pipeline.revision.savedstate import INDEX, copy_state, write_index
from nadi.pipeline.session import own_session
from nadi.pipeline.slots import COPIES
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state import dumps
from nadi.pipeline.state.dumps import requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK = 0.1  # seconds between two looks for an answer
KEPT_BACK = 1  # cuts before the oldest revision's that stay in the cut log: order times go by the one before

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a node was told of revisions, and where relative locations begin."""

    persistence: Persistence
    base: Path


class Revisions:
    """Makes the revisions of one app while its query runs. `look` is called now and then and returns at once."""

    def __init__(
        self,
        session: SparkSession,
        spec: AppSpec,
        keeping: Keeping,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._spec = spec
        self._keeping = keeping
        self._clock = clock
        self._folder = requests(spec.place.state)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._last = clock()
        self._thread: threading.Thread | None = None
        self._quiet = threading.Event()  # no cut is made any more

    def look(self) -> None:
        """Begin a revision where one is due or asked for, and none is under way."""
        if self._thread is not None and self._thread.is_alive():
            return
        asked = sorted(self._folder.glob("*.request"))
        if asked or self._due():
            self._thread = threading.Thread(target=self._answer, args=(asked,), daemon=True)
            self._thread.start()

    def before_stop(self) -> None:
        """Make a revision of where the app stops, if the node keeps any; what fails is said, and is no reason not to stop."""
        self.leave()
        if self._thread is not None:
            self._thread.join()
        asked = sorted(self._folder.glob("*.request"))
        if asked or self._keeping.persistence.enabled:
            self._answer(asked)

    def leave(self) -> None:
        """The query makes no more cuts: what is under way goes on with what is committed."""
        self._quiet.set()

    def _due(self) -> bool:
        kept = self._keeping.persistence
        return kept.enabled and kept.interval > 0 and self._clock() - self._last >= 60 * kept.interval

    def _answer(self, asked: list[Path]) -> None:
        self._last = self._clock()
        try:
            done = self.make()
        except Exception as reason:  # whatever happens, those who wait hear of it, and the app goes on
            failure = named_failure(self._spec.app, reason, "spark.log")
            log.warning("no revision", app=self._spec.app, reason=str(failure))
            done = Done(condition=failure.condition, message=failure.diagnostic.message)
        for request in asked:
            fresh = request.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(done))
            fresh.replace(request.with_suffix(".answer"))
            request.unlink(missing_ok=True)

    def make(self) -> Done:
        """Make a revision: of the next cut, or, where hosts cannot dump it or none will be made, of what is committed.

        Errors: NOTHING_COMMITTED, REVISION_FAILED, those of reading the state.
        """
        state = self._spec.place.state
        copy = self._folder / f"copy-{secrets.token_hex(4)}"
        try:
            dumped = self._dumped()
            if dumped is not None:
                return self._write(dumped.folder, dumped.cut)
            copy.mkdir(parents=True)
            saved = copy_state(own_session(self._session, COPIES), self._spec, copy)
            write_index(saved, copy / INDEX)
            return self._write(copy, saved.cut)
        finally:
            dumps.forget(state)
            shutil.rmtree(copy, ignore_errors=True)

    def _dumped(self) -> dumps.Dumped | None:
        """What the hosts dump of the next cut; None where no cut is made any more, or they do not."""
        if self._quiet.is_set():
            return None
        dumps.ask(self._spec.place.state)
        found = dumps.wait(self._spec.place.state, self._spec.buckets, self._quiet)
        if found is None and not self._quiet.is_set():
            log.info("hosts did not dump their kernels: a revision is made of what is committed", app=self._spec.app)
        return found

    def _write(self, folder: Path, n: int) -> Done:
        """The revision of the state in a folder, which stands after cut `n`."""
        cuts = open_cut_log(self._spec)
        cut = cuts.at(n)
        if cut is None:
            raise error("CUT_LOG_MISMATCH", folder=self._spec.state, last="?", known=n)
        kept = self._keeping
        version = str(self._session.version)
        plan = Plan(self._spec, str(folder), cut.to_offset(), kept.persistence, str(kept.base.resolve()), version)
        done = write_aside(plan, folder)
        forget(self._spec, cuts, done.oldest)
        return done


def sweep(state: Path) -> None:
    """Remove what a node that is gone was making revisions of."""
    dumps.forget(state)
    for folder in requests(state).glob("copy*"):
        shutil.rmtree(folder, ignore_errors=True)


def forget(spec: AppSpec, cuts: Cuts, oldest: int) -> None:
    """Let go of cuts, and of records of the fault log, that not even the oldest revision needs, which is that of cut `oldest`."""
    cuts.trim(oldest - KEPT_BACK)
    kept = cuts.at(oldest - KEPT_BACK) or cuts.at(oldest)
    sources = spec.sources(spec.load_engine().plan_app(spec.text))
    for place in ((c.ordinal, 0) for c in sources if c.stream == FAULTS):
        if kept is not None and place in kept.ends:
            faultlog.trim(spec.place.state, kept.ends[place])


def ask_for(state: Path, within: float) -> str:
    """Ask the node that runs an app for a revision and return its name. `within` is in seconds.

    Errors: APP_NOT_RUNNING, ANSWER_LATE, REVISION_FAILED.
    """
    if read_live(state) is None:
        raise error("APP_NOT_RUNNING", app=state.name, folder=state.parent)
    folder = requests(state)
    folder.mkdir(parents=True, exist_ok=True)
    request = folder / f"{time.time_ns()}-{secrets.token_hex(4)}.request"
    answer = request.with_suffix(".answer")
    request.touch()
    until = time.monotonic() + within
    try:
        while not answer.exists():
            if time.monotonic() > until:
                raise error("ANSWER_LATE", app=state.name, seconds=round(within), what="a revision takes longer")
            time.sleep(LOOK)
        done = msgspec.json.decode(answer.read_bytes(), type=Done)
    finally:
        for path in (request, answer):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    if done.condition:
        raise error("REVISION_FAILED", app=state.name, reason=done.message)
    return done.name
