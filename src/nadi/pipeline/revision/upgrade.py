"""A state folder of nadi's first pipeline, whose state lay in a checkpoint of Spark: its next start goes on from there with a state log.

    copy what Spark has committed ──► <state>/restored.new ──rename──► <state>/restored ──► the checkpoint goes to <state>/before

That is what a restore does (`nadi.pipeline.cutting.restored`), with Spark's last committed batch as the revision: before the rename the old version could
still start, after it the state log has the state. Cuts that the cut log has after it are taken again as they were, whether Spark had planned a batch with them
or not; sinks know what they have of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import structlog

from nadi.errors import error
from nadi.io import durablefiles
from nadi.metrics import Counts, Progress
from nadi.pipeline.cutting import restored
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.progress import read_progress
from nadi.pipeline.revision.savedstate import SavedState, copy_state
from nadi.pipeline.shape import Noted, Shape, noted
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)


def is_old(spec: AppSpec) -> bool:
    """Whether an app is to be upgraded: a checkpoint has its state, or an upgrade was interrupted, and no commit record and no restore stands for it.

    Errors: COMMIT_LOG_DAMAGED, CONNECTION_UNAVAILABLE.
    """
    if spec.begin:
        return False
    state = spec.place.state
    if restored.is_interrupted(state):
        return True
    return restored.last_batch(state / restored.CHECKPOINT) is not None and open_commit_log(spec).recovered() is None


def upgraded(session: Callable[[], SparkSession], spec: AppSpec) -> AppSpec:
    """The app as it begins with what its checkpoint has; once more after a failure goes on where that was.

    Errors: CUT_LOG_MISMATCH, STATE_FRAMES_DAMAGED, STATE_FORMAT, DISK_FULL, CONNECTION_UNAVAILABLE; what Spark raises.
    """
    state = spec.place.state
    if restored.is_interrupted(state):
        return replace(spec, begin=restored.settle(spec))
    before = noted(state)
    assert before is not None  # who made the description of the app has read it
    log.info("the state comes from a checkpoint of an older nadi: it is copied once", app=spec.app)
    take_over(spec)  # a process of the old version that still dies makes no more cuts
    copy = state / "revisions" / "copy-upgrade"
    shutil.rmtree(copy, ignore_errors=True)
    try:
        saved = copy_state(session(), replace(spec, tasks=_tasks(before)), copy)
        _write(spec, saved, _cut_of(spec, saved))
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    begin = restored.put_in_place(spec, Shape(before.sharding, spec.buckets, spec.inputs).to_json())
    for path in (state / "source.json", *state.glob("stop-*")):
        durablefiles.remove(path)  # notes of the old version that nobody reads any more
    return replace(spec, begin=begin)


def _tasks(note: Noted) -> int:
    """How many tasks of Spark the buckets had; before version 3 of the note each had one."""
    return note.buckets if note.tasks is None else note.tasks


def _cut_of(spec: AppSpec, saved: SavedState) -> Cut:
    """The cut that Spark's last batch was. Errors: CUT_LOG_MISMATCH where the cut log does not have it."""
    cuts = open_cut_log(spec)
    found = cuts.at(saved.cut)
    if found is None:
        last = cuts.last()
        raise error(
            "CUT_LOG_MISMATCH",
            folder=spec.place.state / "cuts",
            last=-1 if last is None else last.n,
            known=saved.cut,
        )
    return found


def _write(spec: AppSpec, saved: SavedState, cut: Cut) -> None:
    """What a restore leaves, in a folder that does not count yet."""
    fresh = restored.fresh_folder(spec.place.state)
    for bucket in range(spec.buckets):
        restored.write_bucket(fresh, bucket, saved.parts(bucket))
    told = read_progress(spec.place.state)
    restored.write_note(fresh, "checkpoint", cut, told.highs if told is not None and told.n == cut.n else None)
    if told is not None:
        durablefiles.write_atomically(fresh / "progress.json", msgspec.json.encode(_progress_at(cut.n, told)))


def _progress_at(n: int, told: Progress) -> Progress:
    """What the old version told last, as of cut `n`: it told of a cut before Spark committed it, so it may be one ahead."""
    totals = told.before if told.n > n else told.totals
    return replace(told, n=n, due=None, highs=(), before=totals, counts=Counts())
