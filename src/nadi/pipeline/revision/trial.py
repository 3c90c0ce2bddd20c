"""Whether an instance could begin with another text, found out beside the one that runs: before it is stopped, and without changing anything.

    plan, scripts, stores, options  ──►  stores and sinks that are new are asked  ──►  the state of the last commit, loaded into kernels of the new text

What the instance keeps is only read, and no epoch is raised: who runs goes on. What is asked is what would end the instance. What time can cure (a server that
is away) is no reason against a text, as the instance would wait for it. It is done in a process of its own, as loading a large state must not hold up what the
node runs:

    python -m nadi.pipeline.revision.trial WISH     # prints a `Told` as JSON
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.functions.registry import default_registry
from nadi.io.contract import Connector
from nadi.io.registry import SINKS, ask_sink
from nadi.kernel.contract import Kernel, Segment
from nadi.kernel.rows.stores import made_store
from nadi.persistence.columnstate import Wanted
from nadi.pipeline.apart import check_apart
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log
from nadi.pipeline.executor.tablestores import open_stores
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.revision.inheritance import Left, parts_left
from nadi.pipeline.runnable import runnable
from nadi.pipeline.spec import AppSpec, Engine
from nadi.pipeline.statelog.lines import Line
from nadi.pipeline.statelog.recovery import parts
from nadi.pipeline.statelog.store import ObjectStore
from nadi.pipeline.statelog.stores import open_store
from nadi.plan.elements import fingerprints
from nadi.plan.nodes import App, Table

TRIES = 3  # the instance that runs may let go of what is being read
GONE = ("STATE_LOG_DAMAGED", "STATE_LOG_FAILED")
NICE = 5  # somebody waits for it


class Wish(msgspec.Struct, frozen=True):
    """What to try: `spec` with its new text. It would begin with what `ancestors` have, which may run; it is number `number` of the new instances of its group,
    and `firsts` has the first key-group of each of these."""

    spec: AppSpec
    ancestors: tuple[AppSpec, ...] = ()
    number: int = 0
    firsts: tuple[int, ...] = (0,)


class Told(msgspec.Struct, frozen=True):
    """Why the text would not run; why that was not found out; both "" where nothing speaks against it."""

    refused: str = ""
    untried: str = ""


class Untried(Exception):
    """Whether a text could run was not found out. The text says why."""


def wish_of(
    text: AppText, options: NodeOptions, before: Sequence[AppText] = (), number: int = 0, firsts: tuple[int, ...] = (0,)
) -> Wish:
    """The trial of a text on a node; `before` are the texts and homes of those with whose state it would begin. Errors: those of the text, INVALID_SETTING;
    Untried."""
    spec = _spec_of(text, options)
    try:
        return Wish(spec, tuple(_spec_of(each, options) for each in before), number, firsts)
    except NadiError as problem:
        raise Untried(f"the text before cannot be planned here: {problem}") from problem


def _spec_of(text: AppText, options: NodeOptions) -> AppSpec:
    engine: Engine = import_module(options.engine)
    return spec_to_restore(text, text.planned(engine), options, os.cpu_count() or 1, 1)


# ---- trying


def try_out(wish: Wish) -> None:
    """Find out whether the text could run.

    Errors: those of the text, its connectors, scripts and stores; REFUSED, and what else a sink or a store says; those of putting the state into it. Untried.
    """
    spec = wish.spec
    engine, registry = spec.load_engine(), spec.load_connectors()
    app = runnable(AppText(spec.text, variables=spec.variables), engine, registry, spec.properties, spec.reach)
    if spec.apart:
        check_apart(app, registry, bool(spec.journal))
    before = [ancestor.plan() for ancestor in wish.ancestors]
    _connect_stores(spec, app, before)
    _ask_sinks(spec, app, before)
    for tried in range(1, TRIES + 1):
        try:
            load_state(wish, app, before)
            return
        except NadiError as problem:
            if problem.condition not in GONE:
                raise
            if tried == TRIES:
                raise Untried(f"the state could not be read beside who changes it: {problem}") from problem


def _connect_stores(spec: AppSpec, app: App, before: Sequence[App]) -> None:
    """Connect the stores that are new, as the start of the app does."""
    stores = open_stores(spec, app, spec.place)
    if stores is None:
        return
    with closing(stores), stores.asking():
        _connect_new(app, before)


def _connect_new(app: App, before: Sequence[App]) -> None:
    known = [_store_of(table) for old in before for table in old.tables.values()]
    for table in app.tables.values():
        if table.storage is None or _store_of(table) in known:
            continue
        try:
            made_store(app.name, table, default_registry())[0].connect()
        except ConnectionUnavailableException:
            continue
        except NadiError:
            raise
        except Exception as problem:  # stores are of other authors
            where = f"the store of {table.name} ({table.storage.type})"
            raise error("REFUSED", connector=where, reason=f"{type(problem).__name__}: {problem}") from problem


def _store_of(table: Table) -> tuple[object, ...]:
    return table.name, table.schema, table.primary_key, table.storage


def _ask_sinks(spec: AppSpec, app: App, before: Sequence[App]) -> None:
    """Ask the targets of the sinks that are new. One that was there before may be what keeps the app from running, and not what the change is about."""
    registry = spec.load_connectors()
    try:
        known = {_target_of(sink) for old in before for sink in registry.connectors(old, "sink")}
    except NadiError as problem:
        raise Untried(f"a sink of the text before cannot be read here: {problem}") from problem
    for sink in registry.connectors(app, "sink"):
        if sink.type in SINKS and _target_of(sink) not in known:
            try:
                ask_sink(sink)
            except ConnectionUnavailableException:
                continue


def _target_of(sink: Connector) -> tuple[object, ...]:
    columns = tuple((column.name, column.type) for column in sink.schema.columns)
    return sink.type, tuple(sorted(sink.options.items())), columns


# ---- the state


@dataclass(frozen=True, slots=True)
class LoggedState:
    """The state after the last commit of an instance, read from its state log. Implements `nadi.persistence.columnstate.State`."""

    log: ObjectStore
    lines: Mapping[int, Line]
    buckets: int

    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """Those of elements that are wanted."""
        with closing(parts(self.log, self.lines.get(bucket, Line()), bucket)) as found:
            yield from (part for part in found if isinstance(part, Segment) and wanted(part.element))

    def deltas(self, bucket: int) -> Iterator[bytes]:
        """What came behind the segments."""
        with closing(parts(self.log, self.lines.get(bucket, Line()), bucket)) as found:
            yield from (part for part in found if not isinstance(part, Segment))


def load_state(wish: Wish, app: App, before: Sequence[App]) -> None:
    """Load what the ancestors have committed into kernels of the new app, one bucket after the other; nothing, where one has committed nothing."""
    stands = [_stand(ancestor) for ancestor in wish.ancestors]
    states = [stand[0] for stand in stands if stand is not None]
    if not states or len(states) < len(stands):
        return
    clock = max(stand[1] for stand in stands if stand is not None)
    spec, old = wish.spec, before[0]
    restored = parts_left(spec, app, Left(old, states, fingerprints(old), clock), wish.number, wish.firsts)
    for bucket in range(spec.buckets):
        kernel, state = make_kernel(spec, app, bucket), restored.parts(wish.number * spec.buckets + bucket)
        try:
            kernel.load(state)
        except (NadiError, MemoryError):
            raise
        except Exception as problem:  # a host would fail with it, each time
            reason = f"{type(problem).__name__}: {problem}"
            raise error("RESTORE_NOT_POSSIBLE", app=spec.app, revision="its last commit", reason=reason) from problem


def _stand(ancestor: AppSpec) -> tuple[LoggedState, int] | None:
    """The state of an instance after its last commit, and the clock (ms); None before the first one."""
    found = open_commit_log(ancestor).recovered()
    if found is None:
        return None
    cut = open_cut_log(ancestor).at(found.n)
    if cut is None:
        raise Untried(f"the cut log of {ancestor.identity} does not have cut {found.n}")
    return LoggedState(open_store(ancestor.log_place), found.lines, ancestor.buckets), cut.clock


def make_kernel(spec: AppSpec, app: App, bucket: int) -> Kernel:
    """A kernel as hosts make it."""
    return spec.load_engine().make_kernel(app, spec.outputs, bucket, spec.properties)


# ---- in a process of its own


def tried_aside(wish: Wish, within: float) -> Told:
    """What a process of its own finds out in so many seconds."""
    with TemporaryDirectory(prefix="trial-") as folder:
        path = Path(folder) / "wish.json"
        path.touch(mode=0o600)  # it may hold the password of a database
        path.write_bytes(msgspec.json.encode(wish))
        command = [sys.executable, "-m", "nadi.pipeline.revision.trial", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=within)
        except subprocess.TimeoutExpired:
            return Told(untried=f"it took longer than {within:g} s")
    try:
        return msgspec.json.decode(done.stdout, type=Told)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace")[-500:]
        return Told(untried=said or f"its process ended with status {done.returncode}")


def told(wish: Wish) -> Told:
    """What trying brings."""
    try:
        try_out(wish)
    except ConnectionUnavailableException:
        return Told()
    except NadiError as problem:
        return Told(refused=f"[{problem.condition}] {problem.diagnostic.message}")
    except Untried as problem:
        return Told(untried=str(problem))
    return Told()


def main(path: str) -> None:
    """Try what a file wishes for."""
    os.nice(NICE)
    found = told(msgspec.json.decode(Path(path).read_bytes(), type=Wish))
    sys.stdout.buffer.write(msgspec.json.encode(found))
    sys.stdout.flush()
    os._exit(0)  # connections of stores and logs would hold the process up


if __name__ == "__main__":
    main(sys.argv[1])
