"""What a node puts where hosts on other machines find it, which have nothing of its state folder; and what it brings them with a cut."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nadi.errors import error
from nadi.io.sinks import ledger
from nadi.pipeline.coordinator.tasks import ranges_of
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.seeds import give_seed
from nadi.pipeline.executor.tablestores import has_stores
from nadi.pipeline.inputs.brought import TYPES, pack_brought
from nadi.pipeline.lives import give_shape
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.store import ObjectStore


def ready(spec: AppSpec) -> AppSpec:
    """The app as its hosts are told of it: what it begins with, and the names of the runs of its sinks, are where they find them. No earlier run can change any
    more what is kept of it where all nodes find it.

    Errors: STATE_LOG_FAILED, DISK_FULL; those of the text; where another node may go on with it those of the database, FENCED.
    """
    if not spec.apart and not spec.travels:
        return spec
    if spec.travels:
        spec.open_notes().begin()
        give_shape(spec)
    place = replace(spec.place, notes=spec.place_in(spec.place.state).notes)
    app = spec.plan()
    for sink in spec.load_connectors().connectors(app, "sink"):
        ledger.give_run(sink, place)
    if has_stores(app):
        ledger.give_run(ledger.STORES, place)
    return give_seed(spec) if spec.apart else spec


def check_there(spec: AppSpec, store: ObjectStore, named: Collection[str]) -> None:
    """Whether a state log is the one that the commit record names objects of. Errors: STATE_LOG_ELSEWHERE."""
    if named and spec.store and not frozenset(named) & frozenset(store.list()):
        raise error("STATE_LOG_ELSEWHERE", app=spec.app, store=store.name, objects=len(named))


def brought(spec: AppSpec, maker: CutMaker, before: Cut, cut: Cut) -> bytes:
    """For `Work.brought`: what a cut takes of inputs that are files of the node. Errors: those of the logs."""
    if not spec.apart:
        return b""
    ranges = ranges_of(before, cut, spec.inputs.values())
    return pack_brought(
        {
            r.ordinal: list(maker.read((r.ordinal, r.partition), r.start, r.end))
            for r in ranges
            if maker.type_of(r.ordinal) in TYPES
        }
    )
