"""Puts a revision into the state folder of an app that does not run, so that its next start goes on from there: see `nadi.pipeline.cutting.restored`.

Cuts that the cut log has after that of the revision are taken again as they were, and sinks know what they have of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nadi.config.settings import KERNEL
from nadi.errors import error
from nadi.functions.registry import default_registry
from nadi.io.identity import first_numbers
from nadi.kernel.rows.engine import RowsKernel
from nadi.persistence.restoredstate import MakeKernel, Restored
from nadi.persistence.revisions import StoredRevision
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.restored import fresh_folder, put_in_place, write_bucket, write_note
from nadi.pipeline.revision.inputplan import InputPlan, Side, plan_inputs
from nadi.pipeline.shape import Shape, read_shape
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app, plan_restore
from nadi.plan.nodes import App
from nadi.plan.restore import RestorePlan
from nadi.runtime.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` did: the plans it carried out, the cut to go on from, how many cuts of the log are taken again."""

    plan: RestorePlan
    inputs: InputPlan
    cut: Cut
    again: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What a restore would do to state and inputs; the old app and the new one."""

    state: RestorePlan
    inputs: InputPlan
    old: App
    new: App


def plan(spec: AppSpec, stored: StoredRevision) -> Planned:
    """Plan the restore of a revision into the app of `spec`; logs are asked for what they hold, and nothing is changed.

    Errors: those of the texts.
    """
    registry = default_registry()
    meta = stored.revision.meta
    old, new = (plan_app(text, registry, connections=spec.variables) for text in (meta.text, spec.text))
    to_rows = spec.properties.get(KERNEL, "rows") == "rows"
    columns, held = stored.on_columns(old), stored.revision.held(old)
    of_state = plan_restore(old, new, registry, meta.fingerprints, held, columns, to_rows)
    before = replace(spec, text=meta.text)
    before = replace(before, inputs=meta.inputs or first_numbers(before.user_sources(old)))
    shape = read_shape(spec.place.state, before, old)
    now = replace(spec, inputs={} if shape is None else dict(shape.inputs))
    of_inputs = plan_inputs(Side(before, old), Side(now, new), Cut.from_offset(meta.cut), open_cut_log(spec).last())
    return Planned(of_state, of_inputs, old, new)


def prepare(spec: AppSpec, stored: StoredRevision, reset: bool = False, emptied: bool = False) -> Prepared:
    """Put a revision into the state folder of `spec`, which has the text and the number of buckets that are to go on. The caller holds the folder's lock.
    `emptied`: all state is reset, and inputs go on at their positions.

    Errors: without `reset` RESTORE_DROPS_STATE and RESTORE_DROPS_INPUT; MESSAGES_GONE, RESTORE_NOT_POSSIBLE, those of reading the revision.
    """
    meta = stored.revision.meta
    planned = plan(spec, stored)
    if emptied:
        planned = replace(planned, state=planned.state.emptied("it was asked to be let go of"))
    planned.state.check(reset)
    cut = Cut.from_offset(meta.cut)
    again = _again(spec, stored, cut)
    planned.inputs.check(stored.revision.name, reset)
    fresh = fresh_folder(spec.place.state)
    restored = Restored(stored, planned.state, planned.old, planned.new, spec.buckets, meta.clock, kernel_maker(spec))
    for bucket in range(spec.buckets):
        write_bucket(fresh, bucket, restored.parts(bucket))
    write_note(fresh, "" if emptied else stored.revision.name, cut)
    put_in_place(spec, Shape(planned.new.sharding.kind, spec.buckets, planned.inputs.numbers, spec.text).to_json())
    return Prepared(planned.state, planned.inputs, cut, again)


def kernel_maker(spec: AppSpec) -> MakeKernel:
    """What makes kernels without state, for `nadi.persistence.restoredstate`."""

    def make(app: App, bucket: int) -> RowsKernel:
        return RowsKernel(app, default_registry(), spec.outputs, bucket, spec.properties, Sandbox)

    return make


def _again(spec: AppSpec, stored: StoredRevision, cut: Cut) -> int:
    """How many cuts are taken again; checks that they can be."""

    def impossible(reason: str) -> Exception:
        return error("RESTORE_NOT_POSSIBLE", app=spec.app, revision=stored.revision.name, reason=reason)

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
