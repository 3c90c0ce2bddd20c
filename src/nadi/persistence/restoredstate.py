"""A state put into another version of its app, or into another number of buckets: what `nadi.plan.restore` planned is done to segments and deltas.

Parts are read, changed and handed on one at a time. Deltas are changed entry by entry like segments, they need not be folded first.

State that each kernel has for itself (its clock, the numbers of outputs that have no key, the timers of triggers, purges and phases) is not bound to a key:
into another number of buckets, the greatest clock and numbers of all go to every one, and the timers of the first that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from nadi.kernel.contract import KEY_GROUPS, Segment
from nadi.kernel.keys import bucket_of_group, counted_group, flow_key_group
from nadi.kernel.rows.cells import Deque, Map, Value
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.payloads import Entry, encode_entries, entries_of, is_continued
from nadi.kernel.segments import Part
from nadi.persistence.columnstate import CLOCK, ColumnsState, Home, State, Wanted, everything, has_columns
from nadi.persistence.rewrites import Cells, Rewrite, rewrite_of
from nadi.plan.migration import MIGRATED, NEW, RESET
from nadi.plan.nodes import App
from nadi.plan.restore import RestorePlan

_NEVER = 1 << 60  # ms


@dataclass(frozen=True, slots=True)
class HeldState:
    """A state in memory."""

    parts: tuple[tuple[Part, ...], ...]

    @property
    def buckets(self) -> int:
        return len(self.parts)

    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        return (part for part in self.parts[bucket] if isinstance(part, Segment) and wanted(part.element))

    def deltas(self, bucket: int) -> Iterator[bytes]:
        return (part for part in self.parts[bucket] if not isinstance(part, Segment))


MakeKernel = Callable[[App, int], RowsKernel]
"""(plan, bucket) → a kernel without state; it is thrown away."""


class Restored:
    """The state for `buckets` buckets of the new app. `clock` is that of the cut (ms): what is new begins there. `home` says to which of them a key-group
    goes, where these are not even runs of key-groups: then those of the state need not be such runs either."""

    def __init__(
        self,
        state: State,
        plan: RestorePlan,
        old: App,
        new: App,
        buckets: int,
        clock: int,
        make_kernel: MakeKernel,
        home: Home | None = None,
    ) -> None:
        self._state, self._plan = state, plan
        self._old, self._new = old, new
        self._buckets, self._clock = buckets, clock
        self._anywhere = home is not None
        self._home: Home = partial(bucket_of_group, buckets=buckets) if home is None else home
        self._make_kernel = make_kernel
        self._fates = {f.old: f for f in plan.fates if f.old}
        self._to_keys = new.sharding.kind == "key"
        self._moves = self._anywhere or buckets != state.buckets or old.sharding.kind != new.sharding.kind
        self._targets: dict[str, _Target | None] = {}
        self._columns: ColumnsState | None = None
        if has_columns(state):
            self._columns = ColumnsState(state, plan, old, new, self._home, self._moves)
            self._state = self._columns.rows

    def parts(self, bucket: int) -> Iterator[Part]:
        """The state of one bucket: segments, then deltas; those of columns first."""
        if self._columns is not None:
            yield from self._columns.parts(bucket, tuple(self._sources(bucket)))
            if self._columns.alone:
                return
        yield from self._segments(bucket, everything)
        if self._begins:
            yield from self._begun(bucket)
        yield from self._deltas(bucket)

    @cached_property
    def _begins(self) -> frozenset[str]:
        """The elements that begin anew; purges may begin beside a state that stays."""
        return frozenset(
            f.new if f.fate in (NEW, RESET) else f"{f.new}/purge"
            for f in self._plan.fates
            if f.new
            and not self._is_on_columns(f.new)
            and (f.fate in (NEW, RESET) or (f.fate == MIGRATED and f.kind in ("keys", "aggregation")))
        )

    def _is_on_columns(self, element: str) -> bool:
        return self._columns is not None and self._columns.has(element)

    def _sources(self, bucket: int) -> Iterable[int]:
        if not self._moves:
            return (bucket,)
        if not self._to_keys and bucket:
            return ()
        if self._anywhere or not self._to_keys or self._old.sharding.kind != "key":
            return range(self._state.buckets)
        groups = [group for group in range(KEY_GROUPS) if self._home(group) == bucket]
        return sorted({bucket_of_group(group, self._state.buckets) for group in groups})

    # ---- segments and deltas

    def _segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """Those whose new element is wanted."""

        def leads_there(element: str) -> bool:
            target = self._target(element)
            return target is not None and wanted(target.id)

        for source in self._sources(bucket):
            for segment in self._state.segments(source, leads_there):
                target = self._target(segment.element)
                if target is not None and wanted(target.id):
                    yield from self._segment(segment, target, bucket)
        if self._moves:
            yield from (s for s in self._of_each_kernel(bucket) if wanted(s.element))

    def _segment(self, segment: Segment, target: _Target, bucket: int) -> Iterator[Segment]:
        regroups = self._to_keys and self._old.sharding.kind != "key"
        if self._to_keys and not regroups and self._moves and self._home(segment.group) != bucket:
            return
        if target.rewrite is None and not regroups and not (self._moves and target.of_each):
            yield Segment(target.id, segment.group, segment.payload)
            return
        groups: dict[int, list[Entry]] = {}
        first = None
        for _element, key, cells in entries_of(segment.payload):
            first = key if first is None else first
            if self._moves and target.is_of_each(key):
                continue
            group = _group_of(target.id, key) if self._to_keys else 0
            if not self._moves or not self._to_keys or self._home(group) == bucket:
                groups.setdefault(group, []).append(("", key, target.rewritten(cells)))
        for group, entries in sorted(groups.items()):
            continued = entries[0][1] == first and is_continued(segment.payload)
            yield Segment(target.id, group, encode_entries(entries, continued))

    def _deltas(self, bucket: int) -> Iterator[bytes]:
        for source in self._sources(bucket):
            for delta in self._state.deltas(source):
                entries = [
                    (target.id, key, target.rewritten(change))
                    for element, key, change in entries_of(delta)
                    if (target := self._target(element)) is not None and self._belongs(target, key, bucket)
                ]
                if entries:
                    yield encode_entries(entries)

    def _belongs(self, target: _Target, key: str, bucket: int) -> bool:
        if not self._moves:
            return True
        if target.is_of_each(key):
            return False
        return not self._to_keys or self._home(_group_of(target.id, key)) == bucket

    # ---- elements

    def _target(self, element: str) -> _Target | None:
        """Where the state of an element goes; None: nowhere."""
        if element not in self._targets:
            found = self._found(element)
            self._targets[element] = None if found is None or self._is_on_columns(found.id) else found
        return self._targets[element]

    def _found(self, element: str) -> _Target | None:
        if element == CLOCK:
            return _Target(element, self._clocks(), of_each=True)
        if element.startswith("app/"):
            return _Target(element, None, of_each=True)
        head = element
        while head and head not in self._fates:
            head = head.rpartition("/")[0]
        if not head:  # the numbers of an output; or of an element that no plan knows
            return _Target(element, None, of_each=True) if element.endswith("/output") else None
        fate, rest = self._fates[head], element[len(head) :]
        if fate.fate == RESET or not fate.new:
            return None
        of_each = rest in ("/phase", "/purge/timer") or fate.kind == "trigger"
        return _Target(fate.new + rest, rewrite_of(fate, rest), of_each)

    def _clocks(self) -> Rewrite | None:
        """The clocks of events and of arrivals where @app:playback came or went."""
        if self._plan.clock == "kept":
            return None
        apart = self._plan.clock == "apart"

        def rewritten(cells: Cells) -> Cells:
            kind, value = cells["now"]
            arrival = max(value) if apart else value[1]
            return {"now": [kind, (0 if apart else arrival, arrival)]}

        return rewritten

    # ---- what each kernel has for itself

    def _of_each_kernel(self, bucket: int) -> Iterator[Segment]:
        if not self._to_keys and bucket and self._new.sharding.kind != "partition":
            return
        for element, cells in self._merged.items():
            yield Segment(element, 0, encode_entries([("", "", cells)]))

    @cached_property
    def _merged(self) -> Mapping[str, dict[str, Any]]:
        """New id → cells under the key ""."""
        found: dict[str, dict[str, Any]] = {}
        for source in range(self._state.buckets):
            for element, cells in self._folded(source).items():
                if element not in found:
                    found[element] = cells
                elif element == CLOCK:
                    pairs = zip(found[element]["now"][1], cells["now"][1], strict=True)
                    found[element] = {"now": ["v", tuple(max(pair) for pair in pairs)]}
                elif element.endswith("/output") or element.startswith("app/"):
                    found[element] = {name: _greater(cell, cells[name]) for name, cell in found[element].items()}
        return found

    def _folded(self, source: int) -> dict[str, dict[str, Any]]:
        """What a kernel has for itself after its deltas."""
        live: dict[str, dict[str, Value | Deque | Map]] = {}

        def note(element: str, key: str, change: Any) -> None:
            target = self._target(element)
            if target is None or not target.is_of_each(key) or not isinstance(change, dict):
                return
            cells = live.setdefault(target.id, {})
            for name, what in target.rewritten(change).items():
                cells.setdefault(name, _KINDS[what[0]](_no_change)).apply(what)

        def of_each(element: str) -> bool:
            target = self._target(element)
            return target is not None and target.of_each

        for segment in self._state.segments(source, of_each):
            if of_each(segment.element) and segment.group == 0:
                for element, key, cells in entries_of(segment.payload, segment.element):
                    note(element, key, cells)
        for delta in self._state.deltas(source):
            for element, key, change in entries_of(delta):
                note(element, key, change)
        return {element: {name: cell.content() for name, cell in cells.items()} for element, cells in live.items()}

    # ---- what is new

    def _begun(self, bucket: int) -> Iterator[Segment]:
        """The state with which new elements begin: taken from a kernel that begins at the cut with the partition keys that are known."""
        kernel = self._make_kernel(_harmless(self._new), bucket)
        known = {f.new for f in self._plan.fates if f.kind == "keys" and f.new} | {CLOCK}
        kernel.load([*self._segments(bucket, known.__contains__), *self._only_deltas(known, self._deltas(bucket))])
        kernel.start(self._clock)
        kernel.begin_keys()
        purges = {s.element for s in self._segments(bucket, lambda element: element.endswith("/purge/timer"))}
        for segment in kernel.dump():
            head = segment.element
            while head and head not in self._begins:
                head = head.rpartition("/")[0]
            if head and segment.element not in purges:
                yield segment

    def _only_deltas(self, known: set[str], deltas: Iterable[bytes]) -> Iterator[bytes]:
        for delta in deltas:
            yield encode_entries(entry for entry in entries_of(delta) if entry[0] in known)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the state of an element goes. `of_each` is whether each kernel has it for itself, at least under the key ""."""

    id: str
    rewrite: Rewrite | None
    of_each: bool = False

    def is_of_each(self, key: str) -> bool:
        return self.of_each and key == ""

    def rewritten(self, cells: Any) -> Any:
        """Cells, or what says that a key was dropped, which stays."""
        return self.rewrite(cells) if self.rewrite is not None and isinstance(cells, dict) else cells


_KINDS: dict[str, type[Value] | type[Deque] | type[Map]] = {"v": Value, "d": Deque, "m": Map}


def _group_of(element: str, key: str) -> int:
    counted = counted_group(element, key)
    return flow_key_group(key) if counted is None else counted


def _no_change() -> None:
    """Nobody asks these cells for a delta."""


def _greater(one: list[Any], two: list[Any]) -> list[Any]:
    return ["v", max(one[1] or 0, two[1] or 0)]


def _harmless(app: App) -> App:
    """The same elements without effects outside: no store is opened, and what happens at the start of an app does not happen again."""
    tables = {name: replace(table, storage=None) for name, table in app.tables.items()}
    triggers = {
        name: replace(trigger, start=False, every=_NEVER) if trigger.start else trigger
        for name, trigger in app.triggers.items()
    }
    return replace(app, tables=tables, triggers=triggers)
