"""Puts a revision into the state folder of an app that does not run, so that its next start goes on from there: see `nadi.pipeline.restored`.

Cuts that the cut log has after that of the revision are taken again as they were, and sinks know what they have of them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nadi.errors import error
from nadi.functions.registry import default_registry
from nadi.io.controllog import control_path, fill
from nadi.io.staging import sync_folder
from nadi.kernel.control import CONTROL
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.segments import Part, stream_of
from nadi.persistence.restoring import Restored
from nadi.persistence.revisions import StoredRevision
from nadi.pipeline.cutlogs import open_cut_log
from nadi.pipeline.cuts import Cut
from nadi.pipeline.node import is_locked
from nadi.pipeline.restored import FOLDER, settle
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app, plan_restore
from nadi.plan.nodes import App
from nadi.plan.restore import RestorePlan
from nadi.runtime.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` did: the plan it carried out, the cut to go on from, how many cuts of the log are taken again."""

    plan: RestorePlan
    cut: Cut
    again: int


def prepare(spec: AppSpec, stored: StoredRevision, reset: bool = False) -> Prepared:
    """Put a revision into the state folder of `spec`, which has the text and the number of buckets that are to go on.

    Errors: NODE_LOCKED where a node runs on the folder, RESTORE_DROPS_STATE without `reset`, RESTORE_NOT_POSSIBLE, those of reading the revision.
    """
    state = spec.place.state
    if is_locked(state.parent):
        raise error("NODE_LOCKED", folder=state.parent, pid="?")
    registry = default_registry()
    meta = stored.revision.meta
    old, new = plan_app(meta.text, registry), plan_app(spec.text, registry)
    plan = plan_restore(old, new, registry, meta.fingerprints, stored.revision.held(old)).check(reset)
    cut = Cut.from_offset(meta.cut)
    again = _again(spec, old, stored, cut)
    fresh = state / f"{FOLDER}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)

    def make_kernel(app: App, bucket: int) -> RowsKernel:
        return RowsKernel(app, registry, spec.outputs, bucket, spec.properties, Sandbox)

    restored = Restored(stored, plan, old, new, spec.buckets, meta.clock, make_kernel)
    for bucket in range(spec.buckets):
        _write(fresh / f"{bucket}.state", restored.parts(bucket))
    told = {"revision": stored.revision.name, "cut": cut.to_offset()}
    (fresh / "restored.json").write_text(json.dumps(told))
    (control,) = (c.ordinal for c in spec.sources(new) if c.stream == CONTROL)
    fill(control_path(state), cut.ends.get((control, 0), 0))
    _replace(spec, new, fresh)
    return Prepared(plan, cut, again)


def _again(spec: AppSpec, old: App, stored: StoredRevision, cut: Cut) -> int:
    """How many cuts are taken again; checks that they can be."""

    def impossible(reason: str) -> Exception:
        return error("RESTORE_NOT_POSSIBLE", app=spec.app, revision=stored.revision.name, reason=reason)

    before = [[c.stream, c.type] for c in dataclasses.replace(spec, text=stored.revision.meta.text).sources(old)]
    now = [[c.stream, c.type] for c in spec.sources(spec.load_engine().plan_app(spec.text))]
    if before != now:
        raise impossible(f"positions are kept by source, and these were {before} and are {now}")
    last = open_cut_log(spec).last()
    again = 0 if last is None else last.n - cut.n
    if again < 0:
        raise impossible(f"the cut log ends with cut {cut.n + again}, before its cut {cut.n}")
    if again and spec.buckets != stored.buckets:
        raise impossible(
            f"{again} cuts were made after it, and sinks know them by bucket: into {spec.buckets} buckets instead of {stored.buckets} "
            "only the revision of the last cut can go, which a stop makes"
        )
    return again


def _write(path: Path, parts: Iterator[Part]) -> None:
    with path.open("wb") as out:
        for piece in stream_of(parts):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())


def _replace(spec: AppSpec, new: App, fresh: Path) -> None:
    """From the moment of the rename on, the next start goes on from the revision."""
    state = spec.place.state
    shutil.rmtree(state / FOLDER, ignore_errors=True)
    sources = [[c.stream, c.type] for c in spec.load_connectors().connectors(new, "source")]
    shape = {"version": 1, "sharding": new.sharding.kind, "sources": sources, "buckets": spec.buckets}
    (fresh / "pipeline.json").write_text(json.dumps(shape))
    sync_folder(fresh)
    fresh.rename(state / FOLDER)
    sync_folder(state)
    settle(state)
