"""Another text for an app that has a state: what fits goes on, as `nadi restore` does it, from where the app stands.

The state folder knows the text that its state belongs to (`pipeline.json`). A revision of the last commit is made beside it, in `<state>/update`, and restored
into the new text; one rename ends that, and until then the app goes on as it was.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.io.identity import more_numbers
from nadi.persistence.revisions import StoredRevision, read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log
from nadi.pipeline.cutting.restored import FOLDER as RESTORED
from nadi.pipeline.cutting.restored import begin_cut, begin_highs, begin_revision, settle
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.revision.restore import Planned, plan, prepare
from nadi.pipeline.revision.revisionwriter import Plan, write_aside, write_here
from nadi.pipeline.shape import Shape, read_shape, read_text
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

FOLDER = "update"
TRIES = 3  # a running app may let go of what is being read


def update(text: AppText, app: App, options: NodeOptions, journal: str) -> Planned | None:
    """Make the state of an app that does not run fit its text; -> what became of it, None where it fits, or there is none.

    What does not fit is reset. The caller holds the state folder. Errors: UPDATE_NOT_POSSIBLE, MESSAGES_GONE, RESTORE_NOT_POSSIBLE, REVISION_FAILED.
    """
    old = _before(text, app, options, journal)
    if old is None:
        return None
    settle(old)
    new = _wanted(text, app, options, journal, old.buckets)
    state = old.place.state
    if open_commit_log(old).recovered() is None and not (state / RESTORED).exists():
        _begin_anew(old, new, app)
        return None
    with revision_of(old, state / FOLDER) as stored:
        planned = plan(new, stored)
        prepare(new, stored, reset=True)
    return planned


def plan_update(text: AppText, app: App, options: NodeOptions, journal: str) -> Planned | None:
    """What `update` would do, also to an app that runs; nothing is changed. Errors: likewise."""
    old = _before(text, app, options, journal)
    if old is None or open_commit_log(old).recovered() is None:
        return None
    new = _wanted(text, app, options, journal, old.buckets)
    for tried in range(1, TRIES + 1):
        with TemporaryDirectory(prefix="plan-", dir=old.place.state) as folder:
            try:
                with revision_of(old, Path(folder)) as stored:
                    return plan(new, stored)
            except NadiError as reason:
                if reason.condition != "REVISION_FAILED" or tried == TRIES:
                    raise
    return None


def _before(text: AppText, app: App, options: NodeOptions, journal: str) -> AppSpec | None:
    """The app as its state folder has it; None where that has the same text, or no app, or one of a version that did not note its text."""
    before = read_text(options.state / (text.home or app.name))
    if not before or before == text.text:
        return None
    of_before = dataclasses.replace(text, text=before)  # connections are those of today
    return standing(of_before, plan_app(before, text.variables), options, journal)


def standing(before: AppText, app: App, options: NodeOptions, journal: str) -> AppSpec:
    """An app as its state folder has it, which has this text."""
    spec = _wanted(before, app, options, journal, 1)
    shape = read_shape(spec.place.state, spec, app)
    assert shape is not None
    return dataclasses.replace(spec, buckets=shape.buckets, inputs=dict(shape.inputs))


def _wanted(text: AppText, app: App, options: NodeOptions, journal: str, buckets: int) -> AppSpec:
    spec = spec_to_restore(text, app, options, os.cpu_count() or 1, buckets)
    return dataclasses.replace(spec, journal=spec.journal or journal)


@contextmanager
def revision_of(old: AppSpec, folder: Path, aside: bool = True) -> Iterator[StoredRevision]:
    """A revision of what an app has committed, or of the restored state that it is to begin with, written by a process of its own (`aside`) or by this one. It
    stays in `folder` until the next one: where the text is changed again before the first commit, it has what the text in between had no use for."""
    kept = Persistence(enabled=True, keep=1, location=str(folder.resolve()))
    asked = _committed(old, kept, folder) or _restored(old, kept, folder)
    if asked is not None and aside:
        with TemporaryDirectory(prefix="copy-", dir=old.place.state) as told:
            write_aside(asked, Path(told))
    elif asked is not None:
        write_here(asked)
    store = store_of(kept, folder)
    try:
        yield read_revision(store, old.app, None)
    finally:
        store.close()


def _committed(old: AppSpec, kept: Persistence, folder: Path) -> Plan | None:
    """What makes a revision of the last commit; None before the first one. Errors: UPDATE_NOT_POSSIBLE."""
    found = open_commit_log(old).recovered()
    if found is None:
        return None
    cut = open_cut_log(old).at(found.n)
    if cut is None:
        raise error("UPDATE_NOT_POSSIBLE", app=old.app, reason=f"its cut log does not have cut {found.n}")
    return Plan(old, old.log_place, dict(found.lines), cut.to_offset(), kept, str(folder), version("pyspark"))


def _restored(old: AppSpec, kept: Persistence, folder: Path) -> Plan | None:
    """What makes a revision of a restored state; None where there is none, or `folder` has what it was made of, with all that its text had no use for."""
    restored = old.place.state / RESTORED
    if not restored.exists():
        return None
    store = store_of(kept, folder)
    try:
        if begin_revision(str(restored)) in store.names(old.app):
            return None
    finally:
        store.close()
    begins = dataclasses.replace(old, begin=str(restored))
    highs = begin_highs(begins.begin) or {}
    told = [(ordinal, partition, high) for (ordinal, partition), high in highs.items()]
    cut = begin_cut(begins.begin).to_offset()
    return Plan(begins, old.log_place, {}, cut, kept, str(folder), version("pyspark"), told)


def _begin_anew(old: AppSpec, new: AppSpec, app: App) -> None:
    """Nothing was committed yet: inputs keep their numbers, as messages may wait under them. Errors: UPDATE_NOT_POSSIBLE."""
    if open_cut_log(old).last() is not None:
        reason = "its first batch is under way: put the old text back until it is done"
        raise error("UPDATE_NOT_POSSIBLE", app=old.app, reason=reason)
    numbers = more_numbers(new.user_sources(app), old.inputs, 1 + max(old.inputs.values(), default=-1))
    shutil.rmtree(new.place.state / FOLDER, ignore_errors=True)
    Shape(app.sharding.kind, new.buckets, numbers, new.text).keep(new.place.state)
