"""What an instance of a changed app begins with: the state of the instances before it, from where all of them stood when they had drained.

    state logs of n instances, drained  ──►  by key-group  ──►  <state>/restored of one of m instances  ──►  its first commit

Each instance does it for itself, when it starts and has not committed anything yet. What it reads nobody changes any more, so that whoever does it again, on
whichever worker, gets the same; and nothing of it goes before the new instances have committed what they have made of it. From then on it is not looked at.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module

import msgspec

from nadi.config.ownership import make_folders
from nadi.config.settings import KERNEL
from nadi.errors import error
from nadi.functions.registry import default_registry
from nadi.io.contract import Connector
from nadi.io.identity import first_numbers, identities
from nadi.io.registry import SOURCES, source_kind
from nadi.kernel.contract import Segment
from nadi.kernel.keys import bucket_of_group
from nadi.persistence.columnstate import State, Wanted, written_on_columns
from nadi.persistence.restoredstate import Restored
from nadi.persistence.revisions import StoredRevision
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut, Place
from nadi.pipeline.cutting.drain import keeps_own
from nadi.pipeline.cutting.makers import check_newest
from nadi.pipeline.cutting.restored import FOLDER, fresh_folder, put_in_place, settle, write_bucket, write_note
from nadi.pipeline.node import AppText, NodeOptions, spec_to_restore
from nadi.pipeline.revision.restore import kernel_maker
from nadi.pipeline.revision.update import revision_of
from nadi.pipeline.shape import Shape
from nadi.pipeline.spec import AppSpec, Engine
from nadi.plan.nodes import App
from nadi.plan.restore import plan_restore


class Ancestor(msgspec.Struct, frozen=True):
    """An instance that has drained: the name by which what it keeps is known, and its text."""

    home: str
    text: str


class Heritage(msgspec.Struct, frozen=True):
    """What an instance begins with: `ancestors`, one at least, are of one group. `number` is its own among the new ones of its group, from 0; `firsts` has the
    first key-group of each of them. Of `feeding` it has nothing but where their inputs stood."""

    ancestors: tuple[Ancestor, ...]
    number: int = 0
    firsts: tuple[int, ...] = (0,)
    feeding: tuple[Ancestor, ...] = ()

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Heritage:
        return msgspec.json.decode(text, type=Heritage)

    def home(self, group: int) -> int:
        """Which of the new instances has a key-group.

        >>> [Heritage((), firsts=(0, 43, 86)).home(group) for group in (0, 42, 43, 127)]
        [0, 0, 1, 2]
        """
        return bisect_right(self.firsts, group) - 1


@dataclass(frozen=True, slots=True)
class JoinedState:
    """The states of several instances as one, whose buckets are all of theirs. Implements `nadi.persistence.columnstate.State`."""

    states: Sequence[State]

    @property
    def buckets(self) -> int:
        """How many there are."""
        return sum(state.buckets for state in self.states)

    def _of(self, bucket: int) -> tuple[State, int]:
        for state in self.states:
            if bucket < state.buckets:
                return state, bucket
            bucket -= state.buckets
        raise IndexError(bucket)

    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """Those of one instance."""
        state, own = self._of(bucket)
        return state.segments(own, wanted)

    def deltas(self, bucket: int) -> Iterator[bytes]:
        """Those of one instance."""
        state, own = self._of(bucket)
        return state.deltas(own)


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where an instance stood: its app, the cut of its last commit, the running maxima of log times after it."""

    spec: AppSpec
    app: App
    cut: Cut
    highs: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Left:
    """What instances of a group leave to those after them: their app, their states with the fingerprints of its elements, the latest of their clocks (ms)."""

    app: App
    states: Sequence[State]
    fingerprints: Mapping[str, str]
    clock: int


def inherit(text: AppText, app: App, options: NodeOptions) -> None:
    """Have an instance that has not committed anything yet begin with what it inherits, if it does. The caller holds the state folder.

    Errors: INHERITANCE_MISSING, RESTORE_NOT_POSSIBLE, those of reading the states.
    """
    if not text.heritage:
        return
    heritage = Heritage.from_json(text.heritage)
    spec = spec_to_restore(text, app, options, os.cpu_count() or 1, 1)
    make_folders(spec.place.state)
    settle(spec)
    if open_commit_log(spec).recovered() is not None or (spec.place.state / FOLDER).exists():
        return
    copies = spec.place.state / "inherited"
    stands = [_stand(text, ancestor, options) for ancestor in heritage.ancestors]
    with ExitStack() as opened:
        states = [
            opened.enter_context(revision_of(stand.spec, copies / str(n), aside=False))
            for n, stand in enumerate(stands)
        ]
        beside = [_stand(text, ancestor, options) for ancestor in heritage.feeding]
        _begin(spec, app, heritage, stands, states, beside)
    shutil.rmtree(copies, ignore_errors=True)


def _stand(text: AppText, ancestor: Ancestor, options: NodeOptions) -> _Stand:
    """Where an ancestor stood. From here on no run of it goes on: whoever wakes late is refused. Errors: INHERITANCE_MISSING."""
    of_before = replace(text, text=ancestor.text, home=ancestor.home, owner=0, heritage="", drains=False)
    engine: Engine = import_module(options.engine)
    app = of_before.planned(engine)
    # state and logs are where all workers reach them; sinks kept what they had to know there, too
    spec = replace(spec_to_restore(of_before, app, options, os.cpu_count() or 1, 1), owner=text.owner)
    make_folders(spec.place.state)
    take_over(replace(spec, owner=0))
    found = open_commit_log(spec).recovered()
    cut = None if found is None else open_cut_log(spec).at(found.n)
    if found is None or cut is None:
        reason = "it has committed nothing" if found is None else f"its cut log does not have cut {found.n}"
        raise error("INHERITANCE_MISSING", app=app.name, ancestor=ancestor.home, reason=reason)
    check_newest(app.name, cut)
    highs = {**cut.highs, **{(ordinal, partition): high for ordinal, partition, high in found.highs}}
    return _Stand(spec, app, cut, highs)


def _begin(
    spec: AppSpec,
    app: App,
    heritage: Heritage,
    stands: Sequence[_Stand],
    states: Sequence[StoredRevision],
    beside: Sequence[_Stand],
) -> None:
    """Write what the instance begins with, and put it into its place."""
    numbers = first_numbers(spec.user_sources(app))
    cut, highs = _cut_of(spec, app, numbers, [*stands, *beside])
    if spec.travels:
        _hand_on(spec, app, numbers, [*stands, *beside])
    fresh = fresh_folder(spec.place.state)
    left = Left(stands[0].app, states, states[0].revision.meta.fingerprints, cut.clock)
    parts = parts_left(spec, app, left, heritage.number, heritage.firsts)
    for bucket in range(spec.buckets):
        write_bucket(fresh, bucket, parts.parts(heritage.number * spec.buckets + bucket))
    write_note(fresh, "", cut, [(o, p, high) for (o, p), high in sorted(highs.items())])
    put_in_place(spec, Shape(app.sharding.kind, spec.buckets, numbers, spec.text).to_json())


def parts_left(spec: AppSpec, app: App, left: Left, number: int, firsts: tuple[int, ...]) -> Restored:
    """The state of all new instances of a group, of which `firsts` has the first key-groups; bucket b of number n is `n * spec.buckets + b` there."""
    old, joined = left.app, JoinedState(left.states)
    columns = written_on_columns(joined, old)
    to_rows = spec.properties.get(KERNEL, "rows") == "rows"
    planned = plan_restore(old, app, default_registry(), left.fingerprints, None, columns, to_rows)
    make, heritage = kernel_maker(spec), Heritage((), number, firsts)

    def home(group: int) -> int:
        return heritage.home(group) * spec.buckets + bucket_of_group(group, spec.buckets)

    several = len(left.states) > 1 or len(firsts) > 1
    return Restored(
        joined,
        planned,
        old,
        app,
        len(firsts) * spec.buckets,
        left.clock,
        lambda of, bucket: make(of, bucket % spec.buckets),
        home if several else None,
    )


def _cut_of(
    spec: AppSpec, app: App, numbers: Mapping[str, int], stands: Sequence[_Stand]
) -> tuple[Cut, dict[Place, int]]:
    """The cut to begin after: the latest number and clock of all, and of inputs that others keep the positions; the running maxima of log times."""
    ends: dict[Place, int] = {}
    highs: dict[Place, int] = {}
    mine = [c for c in spec.user_sources(app) if not keeps_own(c)]
    for stand in stands:
        sources = stand.spec.user_sources(stand.app)
        known = first_numbers(sources)
        for source in mine:
            before = _same(source, sources)
            if before is None:
                continue
            old, new = known[identity_in(before, sources)], numbers[identity_in(source, spec.user_sources(app))]
            for into, found in ((ends, stand.cut.ends), (highs, stand.highs)):
                for (ordinal, partition), value in found.items():
                    if ordinal == old:
                        into[new, partition] = max(value, into.get((new, partition), value))
    last = max(stands, key=lambda stand: stand.cut.n).cut
    clock = max(stand.cut.clock for stand in stands)
    started = min(stand.cut.started for stand in stands)
    return Cut(last.n, 1, clock, started, ends), highs


def _hand_on(spec: AppSpec, app: App, numbers: Mapping[str, int], stands: Sequence[_Stand]) -> None:
    """Have sources take over what those before have noted. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    all_mine = spec.user_sources(app)
    for source in all_mine:
        if source.type not in SOURCES:
            continue
        before = []
        for stand in stands:
            sources = stand.spec.user_sources(stand.app)
            old = _same(source, sources)
            if old is not None:
                ordinal = first_numbers(sources)[identity_in(old, sources)]
                before.append((replace(old, ordinal=ordinal), stand.spec.place))
        mine = replace(source, ordinal=numbers[identity_in(source, all_mine)])
        source_kind(source.type).take_over(mine, spec.place, before)


def identity_in(source: Connector, sources: Sequence[Connector]) -> str:
    """The name that a source has among those of its app."""
    return identities(sources)[[c.ordinal for c in sources].index(source.ordinal)]


def _same(source: Connector, before: Sequence[Connector]) -> Connector | None:
    """The source of the app before that reads the same log. A receiver group calls the stream otherwise, so that where there is no other one of its kind with
    the same options, the stream does not matter."""
    alike = [c for c in before if (c.type, _log_of(c)) == (source.type, _log_of(source))]
    named = [c for c in alike if c.stream == source.stream]
    return named[0] if named else alike[0] if len(alike) == 1 else None


def _log_of(source: Connector) -> tuple[tuple[str, str], ...]:
    wanted = source_kind(source.type).identity if source.type in SOURCES else ()
    return tuple((name, source.options[name]) for name in wanted if name in source.options)
