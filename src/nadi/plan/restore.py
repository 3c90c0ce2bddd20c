"""What becomes of the state of an app when another version of it is to go on with it: planned before anything is done.

Each element of the old app is *kept*, *migrated* (the same after a change that is known to be right) or *reset* (dropped); elements that only the new app has
are *new*. State that hangs together goes together: a sum over a window cannot be kept without the window whose events will be taken out of it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from nadi.errors import error
from nadi.plan.catalog import Catalog
from nadi.plan.columns.islands import islands
from nadi.plan.columns.keptattributes import goes_on, missing, of_table
from nadi.plan.elements import Stateful, of_element, of_query, stateful
from nadi.plan.migration import AS_IS, KEPT, MIGRATED, NEW, RESET, Change, verdict
from nadi.plan.nodes import App, JoinInput, Partition, Query, SingleInput, StateInput, WindowCall
from nadi.plan.owners import keys_id, purged
from nadi.plan.querymatches import Matches, given_name, match


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one element. `old` is its id in the old app ("": it is new), `new` in the new one ("": it is gone); `keys` how many flow keys the state
    has, None where that is not known; `kind` as in `Stateful`.
    """

    old: str
    new: str
    owner: str
    what: str
    fate: str
    reason: str
    kind: str
    change: Change = AS_IS
    keys: int | None = None

    @property
    def drops(self) -> bool:
        """Whether something that is or may be there would be lost."""
        return self.fate == RESET and bool(self.old) and self.keys != 0


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The fates of all elements: those of the new app in its order, then what is gone. `clock` is what clocks become: "kept", or "apart"
    and "one" where @app:playback came or went. `on_columns` are the queries and tables of the new app that go on, or begin, on the columns kernel; all others
    are on rows, whoever wrote their state."""

    app: str
    fates: tuple[Fate, ...]
    clock: str = "kept"
    on_columns: frozenset[str] = frozenset()

    @property
    def unchanged(self) -> bool:
        """Whether the state can be loaded as it is."""
        return self.clock == "kept" and all(f.fate == KEPT and f.old == f.new for f in self.fates)

    @property
    def dropped(self) -> tuple[Fate, ...]:
        """Where state would be lost."""
        return tuple(f for f in self.fates if f.drops)

    def check(self, reset: bool = False) -> RestorePlan:
        """This plan, if it may be carried out: with `reset` always.

        Raises:
            CannotRestoreSiddhiAppStateException: RESTORE_DROPS_STATE.
        """
        if self.dropped and not reset:
            what = "; ".join(f"{f.old} ({f.what}): {f.reason}" for f in self.dropped)
            raise error("RESTORE_DROPS_STATE", app=self.app, what=what)
        return self

    def emptied(self, reason: str) -> RestorePlan:
        """The plan under which all that is kept is reset."""
        fates = (
            replace(f, fate=RESET, reason=reason, change=AS_IS) if f.fate in (KEPT, MIGRATED) else f for f in self.fates
        )
        return replace(self, fates=tuple(fates))

    def table(self) -> tuple[tuple[str, str, str, str], ...]:
        """Rows for people: element, what it keeps, fate, why."""
        return tuple((_shown(f), f.what, f.fate, f.reason) for f in self.fates)


def _shown(fate: Fate) -> str:
    if fate.old and fate.new and fate.old != fate.new:
        return f"{fate.old} → {fate.new}"
    return fate.new or fate.old


def plan_restore(
    old: App,
    new: App,
    catalog: Catalog,
    fingerprints: Mapping[str, str] | None = None,
    held: Mapping[str, int] | None = None,
    columns: Collection[str] = (),
    to_rows: bool = False,
) -> RestorePlan:
    """Plan how the state of `old` becomes that of `new`.

    Args:
        old: the app that made the state, planned from the text that is kept with it.
        new: the app that is to go on.
        catalog: the functions and windows of both.
        fingerprints: those that were kept with the state; an element whose own is another one than that of `old` was made by a nadi that kept
            something else under the same text.
        held: how many flow keys each element has in the state, by old id; None: not known.
        columns: the queries of the old app whose state the columns kernel wrote.
        to_rows: let all queries go on on rows.
    """
    planner = _Planner(old, new, catalog, fingerprints or {}, frozenset(columns), to_rows)
    fates = planner.fates()
    if held is not None:
        fates = [replace(f, keys=held.get(f.old, 0)) if f.old else f for f in fates]
    return RestorePlan(new.name, tuple(fates), planner.clock, planner.on_columns)


class _Planner:
    """The work of `plan_restore`, by new id."""

    def __init__(
        self,
        old: App,
        new: App,
        catalog: Catalog,
        fingerprints: Mapping[str, str],
        columns: frozenset[str],
        to_rows: bool,
    ) -> None:
        self.old, self.new = old, new
        self._catalog = catalog
        self._fingerprints = fingerprints
        self._matches: Matches = match(old, new)
        self._before = {e.id: e for e in stateful(old)}
        self._queries = {q.id: q for q in old.queries}
        self._columns = columns
        self._movable = bool(columns) and not to_rows
        self.on_columns: frozenset[str] = frozenset()
        self.clock = "kept"
        if (old.playback is None) != (new.playback is None):
            self.clock = "one" if new.playback is None else "apart"

    def fates(self) -> list[Fate]:
        found = {e.id: self._fate(e, partner) for e, partner in self._pairs()}
        if self._movable:
            self.on_columns = self._staying(found)
        for query in self.new.queries:
            self._to_rows(query, found)
            self._together(query, found)
        taken = {f.old for f in found.values()}
        gone = [
            Fate(e.id, "", e.owner, e.what, RESET, self._why_gone(e), e.kind)
            for e in self._before.values()
            if e.id not in taken
        ]
        return [*found.values(), *gone]

    # ---- kernels

    def _staying(self, found: Mapping[str, Fate]) -> frozenset[str]:
        """The queries and tables that go on on columns with what they keep, or begin there."""
        moved = []
        for query in self.new.queries:
            partner = self._queries.get(self._matches.queries.get(query.id, ""))
            if partner is None:
                continue
            kept = any(found[e.id].fate in (KEPT, MIGRATED) for e in of_query(self.new, query))
            if partner.id not in self._columns or (kept and not goes_on(partner, self.old, query, self.new)):
                moved.append(query.id)
        for table in self.new.tables.values():
            before = self.old.tables.get(table.name)
            if before is None or table.id not in found or found[table.id].fate not in (KEPT, MIGRATED):
                continue
            if before.id not in self._columns or of_table(before) != of_table(table):
                moved.append(table.id)
        for partition in purged(self.new):
            keys = self._matches.partitions.get(partition.id)
            if keys is not None and f"{keys}/keys" not in self._columns:  # nobody has noted when they were seen
                moved.append(keys_id(partition))
        return islands(self.new, moved).owners

    def _to_rows(self, query: Query, found: dict[str, Fate]) -> None:
        """What columns have kept of a query that goes to rows may not be enough for it there."""
        partner = self._queries.get(self._matches.queries.get(query.id, ""))
        if partner is None or partner.id not in self._columns or query.id in self.on_columns:
            return
        lacking = missing(partner, self.old, query, self.new)
        for e in of_query(self.new, query):
            fate = found[e.id]
            if fate.fate not in (KEPT, MIGRATED):
                continue
            if lacking:
                found[e.id] = replace(fate, fate=RESET, reason=lacking, change=AS_IS)
            else:
                found[e.id] = replace(fate, reason=f"{fate.reason}; it goes from columns to rows")

    # ---- partners

    def _pairs(self) -> Iterator[tuple[Stateful, Stateful | None]]:
        """The elements of the new app with those of the old one that they are."""
        inside = {e.id for element in self.new.elements for e in of_element(self.new, element)}
        for e in stateful(self.new):
            if e.id not in inside:
                yield e, self._before.get(e.id)
        for element in self.new.elements:
            partition = self._matches.partitions.get(element.id)
            for e in of_element(self.new, element):
                if e.kind == "keys":
                    yield e, self._before.get(f"{partition}/keys")
            for query in element.queries if isinstance(element, Partition) else (element,):
                yield from self._of_query(query, [e for e in of_element(self.new, element) if _belongs(e, query)])

    def _of_query(self, query: Query, elements: list[Stateful]) -> Iterator[tuple[Stateful, Stateful | None]]:
        partner = self._matches.queries.get(query.id)
        for e in elements:
            yield e, None if partner is None else self._before.get(partner + e.id.removeprefix(query.id))

    def _fate(self, new: Stateful, old: Stateful | None) -> Fate:
        if old is None:
            return Fate("", new.id, new.owner, new.what, NEW, "it begins empty", new.kind)
        fate = Fate(old.id, new.id, new.owner, new.what, RESET, "", new.kind)
        if self.clock != "kept":
            came = "came" if self.clock == "apart" else "went"
            return replace(fate, reason=f"@app:playback {came}, its times are those of another clock")
        if self.old.compat != self.new.compat:
            return replace(fate, reason=f"@app:compat was {self.old.compat}, now it is {self.new.compat}")
        if self._fingerprints.get(old.id, old.fingerprint) != old.fingerprint:
            return replace(fate, reason="it was made by a nadi that keeps something else here")
        found = verdict(old, new)
        reason = found.reason
        if found.fate == KEPT and old.id != new.id:
            reason = "the same under another name"
        return replace(fate, fate=found.fate, reason=reason, change=found.change)

    def _why_gone(self, element: Stateful) -> str:
        again = any(given_name(q) == element.owner for q in self.new.queries)
        return "its query reads something else" if again else "it is not there any more"

    # ---- what goes together

    def _together(self, query: Query, found: dict[str, Fate]) -> None:
        """Where events that leave a window are taken out of aggregates (or of a snapshot), all is kept or nothing."""
        members = [found[e.id] for e in of_query(self.new, query) if _in_step(e, query)]
        partner = self._queries.get(self._matches.queries.get(query.id, ""))
        if partner is None:
            self._warn(query, [f for f in members if f.kind == "selector"], found)
            return
        before, after = self._removes(self.old, partner), self._removes(self.new, query)
        broken = [f for f in members if f.fate in (RESET, NEW)]
        reason = f"it goes with {broken[0].new}" if broken else ""
        if not broken and before != after and any(f.kind == "selector" for f in members):
            reason = "events that leave the window reach its aggregates now" if after else "they no longer reach it"
        if not broken and (upstream := self._lost_window(query, found)) is not None:
            reason = f"it goes with {upstream}, whose events it has"
        if not reason or not (before or after) or (len(members) == 1 and broken):
            return
        for f in members:
            if f.fate in (KEPT, MIGRATED):
                found[f.new] = replace(f, fate=RESET, reason=reason, change=AS_IS)

    def _warn(self, query: Query, selectors: list[Fate], found: dict[str, Fate]) -> None:
        """A new query may read a named window that holds events already."""
        for source in _inputs(query):
            window = self.new.windows.get(source.source)
            if window is not None and found[window.window.id].fate in (KEPT, MIGRATED):
                for f in selectors:
                    reason = f"it begins empty, and will see events leave {window.window.id} that it has not seen come"
                    found[f.new] = replace(f, reason=reason)

    def _lost_window(self, query: Query, found: Mapping[str, Fate]) -> str | None:
        """A named window that the query reads and that does not keep its events."""
        for source in _inputs(query):
            window = self.new.windows.get(source.source)
            if window is not None and found[window.window.id].fate in (RESET, NEW):
                return window.window.id
        return None

    def _removes(self, app: App, query: Query) -> bool:
        """Whether events that leave a window reach the selector (semantics/selection.md#the-selector)."""
        calls = [s.window for s in _inputs(query) if s.window is not None]
        if any(s.source in app.windows for s in _inputs(query)) or (isinstance(query.input, JoinInput) and calls):
            return True
        return any(query.keeps_expired or self._sends_expired(call) for call in calls)

    def _sends_expired(self, call: WindowCall) -> bool:
        entry = self._catalog.window(call.name)
        return entry is None or not entry.batch or entry.cancels


def _belongs(element: Stateful, query: Query) -> bool:
    return element.id.startswith(f"{query.id}/")


def _in_step(element: Stateful, query: Query) -> bool:
    """Whether an element holds what leaves a window again."""
    snapshot = query.rate is not None and query.rate.kind == "snapshot"
    return element.kind in ("window", "selector") or (element.kind == "rate" and snapshot)


def _inputs(query: Query) -> tuple[SingleInput, ...]:
    match query.input:
        case SingleInput() as source:
            return (source,)
        case JoinInput(left=left, right=right):
            return (left.input, right.input)
        case StateInput():
            return ()
