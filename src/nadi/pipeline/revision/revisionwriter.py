"""Writes a revision from the state log of a group, in a process of its own with the least right to the processor: hashing and compressing a large state
must not hold up the query.

    python -m nadi.pipeline.revision.revisionwriter PLAN     # prints a `Done` as JSON
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.kernel.segments import Part
from nadi.persistence.revisions import meta_of, read_revision, write_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.restored import begin_parts
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.lines import Line
from nadi.pipeline.statelog.recovery import parts
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store

NICE = 15


class Plan(msgspec.Struct, frozen=True):
    """What to write: the state that stands after `cut`, into the store of `persistence`. The line of each bucket leads through the
    state log `log`; without any, it is the restored state in the folder that the app is to begin with (`spec.begin`).

    `base` is where relative locations begin. `highs` are the running maxima of log times after the cut (ordinal, partition, ms).
    """

    spec: AppSpec
    log: str
    lines: dict[int, Line]
    cut: dict[str, Any]
    persistence: Persistence
    base: str
    spark: str
    highs: list[tuple[int, int, int]] = []


class Done(msgspec.Struct, frozen=True):
    """The revision that was written; the number of the cut of the oldest one that is kept. Or the error: its condition and message."""

    name: str = ""
    oldest: int = 0
    condition: str = ""
    message: str = ""


def write(plan: Plan) -> Done:
    """Write the revision; what fails is in the result."""
    try:
        return _written(plan)
    except NadiError as problem:
        return Done(condition=problem.condition, message=problem.diagnostic.message)


def _written(plan: Plan) -> Done:
    log = open_store(plan.log)
    app = plan.spec.plan()
    meta = meta_of(app, plan.cut, plan.spark, plan.spec.inputs, plan.highs)
    store = store_of(plan.persistence, Path(plan.base))
    try:
        states = (_state(plan, log, bucket) for bucket in range(plan.spec.buckets))
        keep = plan.persistence.keep if plan.persistence.alone else None
        name = write_revision(store, meta, states, time.time_ns() // 1_000_000, keep)
        if keep is None:
            read_revision(store, app.name, name).verify()
            return Done(name)
        oldest = read_revision(store, app.name, store.names(app.name)[0]).revision.meta.cut
        return Done(name, int(oldest["n"]))
    finally:
        store.close()


def _state(plan: Plan, log: ObjectStore, bucket: int) -> Iterator[Part]:
    if plan.spec.begin and not plan.lines:
        return begin_parts(plan.spec.begin, bucket)
    return parts(log, plan.lines.get(bucket, Line()), bucket)


def write_aside(plan: Plan, folder: Path) -> Done:
    """Write a revision in another process, with the plan in `folder`.

    Errors: REVISION_FAILED with what went wrong.
    """
    path = folder / "plan.json"
    path.touch(mode=0o600)  # it may hold the password of a database
    path.write_bytes(msgspec.json.encode(plan))
    done = subprocess.run(
        [sys.executable, "-m", "nadi.pipeline.revision.revisionwriter", str(path)], capture_output=True, check=False
    )
    try:
        told = msgspec.json.decode(done.stdout, type=Done)
    except msgspec.DecodeError as problem:
        reason = done.stderr.decode(errors="replace")[-500:] or f"its writer ended with status {done.returncode}"
        raise error("REVISION_FAILED", app=plan.spec.app, reason=reason) from problem
    return _checked(plan, told)


def write_here(plan: Plan) -> Done:
    """Write a revision in this process, where nothing runs yet that it could hold up. Errors: REVISION_FAILED."""
    return _checked(plan, write(plan))


def _checked(plan: Plan, told: Done) -> Done:
    if told.condition:
        raise error("REVISION_FAILED", app=plan.spec.app, reason=f"[{told.condition}] {told.message}")
    return told


def main(path: str) -> None:
    """Write the revision of a plan."""
    os.nice(NICE)
    plan = msgspec.json.decode(Path(path).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(write(plan)))


if __name__ == "__main__":
    main(sys.argv[1])
