"""An instance of a cluster begins with a revision: that becomes the base of its state log and the first record of its commits, where whoever runs it next
finds them.

    take over ──► the state of each bucket as a base in the state log ──► one commit of the revision's cut, in the place of all before

The commit is one transaction under the new epoch: before it the instance goes on as it was, after it from the revision, whatever dies when. Cuts that the cut
log has after it are taken again as they were. It is done in a process of its own, as loading a large state must not hold up what the node runs:

    python -m nadi.pipeline.revision.firstbase PLAN     # prints a `Begun` as JSON
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.io.identity import first_numbers
from nadi.persistence.restoredstate import Restored
from nadi.persistence.revisions import StoredRevision, read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.cutting.commitlog import Commit
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.epochs import RUNS
from nadi.pipeline.revision.restore import Planned, kernel_maker, plan
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.chunks import Place, write_base
from nadi.pipeline.statelog.lines import Base
from nadi.pipeline.statelog.stores import open_store


class Wish(msgspec.Struct, frozen=True):
    """What to begin with: `revision`, from the store of `persistence`, whose relative locations begin in `base`. Where a run of the owner `since`, or of a
    later one, has committed, that has been done, and nothing is to be done any more."""

    spec: AppSpec
    persistence: Persistence
    base: str
    revision: str
    since: int


class Begun(msgspec.Struct, frozen=True):
    """Whether it was done now; or the error: its condition and message."""

    now: bool = False
    condition: str = ""
    message: str = ""


def begin(wish: Wish) -> bool:
    """Put the revision in place; whether that was still to be done.

    Errors: REVISION_NOT_FOUND, REVISION_DAMAGED, RESTORE_NOT_POSSIBLE, MESSAGES_GONE, those of the logs, CUT_FENCED; then the instance goes on as it was.
    """
    if is_done(wish.spec, wish.since):
        return False
    store = store_of(wish.persistence, Path(wish.base))
    try:
        stored = read_revision(store, wish.spec.app, wish.revision)
        stored.verify()
        planned = _checked(wish.spec, stored)
        _put(wish.spec, stored, planned)
    finally:
        store.close()
    return True


def is_done(spec: AppSpec, since: int) -> bool:
    """Whether a run of this owner, or of a later one, has committed."""
    found = open_commit_log(spec).recovered()
    return found is not None and found.epoch >> RUNS >= since


def _checked(spec: AppSpec, stored: StoredRevision) -> Planned:
    """What becomes of the state, which is all of it."""
    meta, name = stored.revision.meta, stored.revision.name

    def impossible(reason: str) -> Exception:
        return error("RESTORE_NOT_POSSIBLE", app=spec.app, revision=name, reason=reason)

    if meta.text != spec.text:
        raise impossible("it was made with another text")
    numbers = spec.inputs or first_numbers(spec.user_sources(spec.plan()))
    if any(meta.inputs.get(input_, number) != number for input_, number in numbers.items()):
        raise impossible("its inputs have other numbers than those of the instance")
    if stored.buckets != spec.buckets:
        raise impossible(f"it has {stored.buckets} buckets, the instance {spec.buckets}")
    cut = Cut.from_offset(meta.cut)
    if open_cut_log(spec).at(cut.n) is None:  # with a commit of it the instance could never start
        raise impossible(f"its cut {cut.n} is not in the cut log of the instance")
    planned = plan(spec, stored)
    planned.state.check(False)
    planned.inputs.check(name, False)
    return planned


def _put(spec: AppSpec, stored: StoredRevision, planned: Planned) -> None:
    meta = stored.revision.meta
    cut = Cut.from_offset(meta.cut)
    epoch = take_over(spec)
    restored = Restored(stored, planned.state, planned.old, planned.new, spec.buckets, meta.clock, kernel_maker(spec))
    store, engine = open_store(spec.log_place), spec.load_engine()
    bases: list[tuple[int, Base]] = []
    dues: list[int] = []
    for bucket in range(spec.buckets):
        kernel = engine.make_kernel(planned.new, spec.outputs, bucket, spec.properties)
        kernel.load(restored.parts(bucket))
        if (due := kernel.next_timer()) is not None:
            dues.append(due)
        bases.append((bucket, write_base(store, Place(epoch, cut.n, bucket), kernel.dump())))
    highs = tuple(meta.highs)
    open_commit_log(spec, epoch).clear(Commit(cut.n, epoch, min(dues, default=None), highs, bases=tuple(bases)))


# ---- in a process of its own


def begin_aside(wish: Wish) -> bool:
    """As `begin`. Errors: RESTORE_NOT_POSSIBLE with what went wrong."""
    with TemporaryDirectory(prefix="begin-") as folder:
        path = Path(folder) / "plan.json"
        path.touch(mode=0o600)  # it may hold the password of a database
        path.write_bytes(msgspec.json.encode(wish))
        command = [sys.executable, "-m", "nadi.pipeline.revision.firstbase", str(path)]
        done = subprocess.run(command, capture_output=True, check=False)
    try:
        told = msgspec.json.decode(done.stdout, type=Begun)
    except msgspec.DecodeError as problem:
        reason = done.stderr.decode(errors="replace")[-500:] or f"its process ended with status {done.returncode}"
        raise error("RESTORE_NOT_POSSIBLE", app=wish.spec.app, revision=wish.revision, reason=reason) from problem
    if told.condition:
        reason = f"[{told.condition}] {told.message}"
        raise error("RESTORE_NOT_POSSIBLE", app=wish.spec.app, revision=wish.revision, reason=reason)
    return told.now


def main(path: str) -> None:
    """Begin with the revision of a plan."""
    wish = msgspec.json.decode(Path(path).read_bytes(), type=Wish)
    try:
        told = Begun(begin(wish))
    except NadiError as problem:
        told = Begun(False, problem.condition, problem.diagnostic.message)
    sys.stdout.buffer.write(msgspec.json.encode(told))
    sys.stdout.flush()
    os._exit(0)  # connections of the logs would hold the process up


if __name__ == "__main__":
    main(sys.argv[1])
