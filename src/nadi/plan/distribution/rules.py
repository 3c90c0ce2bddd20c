"""What cannot be cut so: rules over groups and flows, each a function that raises the first error that it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nadi.errors import NOWHERE, NadiError, Span
from nadi.lang.tree import Annotation
from nadi.plan.annotations import first, found
from nadi.plan.context import Context
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import Flow
from nadi.plan.distribution.parts import Part
from nadi.plan.elements import of_query
from nadi.plan.nodes import App, JoinInput, SingleInput, StateInput, Table
from nadi.plan.sharding import kept_over_events


@dataclass(frozen=True, slots=True)
class Cut:
    """What the rules look at."""

    context: Context
    plan: App
    drafts: tuple[Draft, ...]
    flows: Mapping[str, Flow]

    def wide(self) -> list[Draft]:
        """The groups with several instances."""
        return [d for d in self.drafts if d.parallel > 1]

    def fail(self, condition: str, span: Span, /, **parameters: object) -> NadiError:
        return self.context.fail(condition, span, **parameters)


def tables(cut: Cut) -> None:
    """Rows that are kept in the state of a group are there for one instance of one group."""
    for table in cut.plan.tables.values():
        if _in_memory(table):
            _sole(cut, table.name, "DIST_TABLE_PARALLEL", "DIST_TABLE_SHARED", "table")


def windows(cut: Cut) -> None:
    """So are the events of a named window."""
    for name in cut.plan.windows:
        _sole(cut, name, "DIST_WINDOW_PARALLEL", "DIST_WINDOW_SHARED", "window")


def _in_memory(table: Table) -> bool:
    return table.storage is None


def _sole(cut: Cut, name: str, several: str, shared: str, what: str) -> None:
    users = [(d, _place(cut, d, name)) for d in cut.drafts if d.touches(name)]
    for draft, at in users:
        if draft.parallel > 1:
            raise cut.fail(several, at, group=draft.name)
    if len(users) > 1:
        (one, _), (two, at) = users[:2]
        raise cut.fail(shared, at, group=two.name, other=one.name, **{what: name})


def _place(cut: Cut, draft: Draft, name: str) -> Span:
    """Where a group touches something: at the part that does, or where the app is named if it is an aggregation."""
    return next((p.span for p in draft.parts if name in p.touched), app_span(cut.plan))


def partitions(cut: Cut) -> None:
    """Partitions by ranges have one instance; no two partitions that the app puts into one group by its name split a stream by one key."""
    for draft in cut.drafts:
        seen: set[tuple[str, str, str]] = set()
        for part in draft.parts:
            for stream, key in part.keys.items():
                if key is None and draft.parallel > 1:
                    raise cut.fail("DIST_RANGE_PARTITION", part.span, group=draft.name)
                together = draft.kind == "user" and part.exec_group  # not where a cycle made one group of several
                if together and key is not None and (part.exec_group, stream, key.text) in seen:
                    raise cut.fail("DIST_PARTITION_TWICE", part.span, group=draft.name, stream=stream, key=key.text)
                if key is not None:
                    seen.add((part.exec_group, stream, key.text))


def keys(cut: Cut) -> None:
    """Who makes the events of a stream that several instances share by key can tell the key of one."""
    for draft in cut.wide():
        for part in draft.parts:
            for stream, reason in part.unfit.items():
                key = part.keys[stream]
                assert key is not None  # ranges are refused before
                raise cut.fail("DIST_KEY_INVALID", part.span, key=key.text, stream=stream, reason=reason)


def own_streams(cut: Cut) -> None:
    """What several instances make and give to a partition of their own group would stay with the instance that made it."""
    for draft in cut.wide():
        made = draft.writes(cut.plan)
        for part in draft.parts:
            for stream in sorted(set(part.keys) & made):
                raise cut.fail("DIST_PARTITION_OF_OWN_STREAM", part.span, group=draft.name, stream=stream)
            for stream in sorted(part.streams & made if part.in_partition else ()):
                raise cut.fail("DIST_BROADCAST_OF_OWN_STREAM", part.span, group=draft.name, stream=stream)


def state(cut: Cut) -> None:
    """Outside of partitions several instances keep no state: each would see a part of the events."""
    for draft in cut.wide():
        for part in draft.parts:
            if not part.in_partition:
                _outside(cut, draft, part)
            elif cut.plan.playback is not None and any(e.timed for q in part.queries for e in of_query(cut.plan, q)):
                what = "waits by the clock of @app:playback, which the events of all keys move"
                raise cut.fail("DIST_STATE_PARALLEL", part.span, query=part.id, group=draft.name, what=what)


def _outside(cut: Cut, draft: Draft, part: Part) -> None:
    for query in part.queries:
        match query.input:
            case StateInput() as matched:
                kind = "SEQUENCE" if matched.sequence else "PATTERN"
                raise cut.fail("DIST_PATTERN_OUTSIDE_PARTITION", part.span, group=draft.name, kind=kind)
            case JoinInput(left=left, right=right):
                sides = [s for s in (left, right) if s.kind not in ("table", "aggregation")]
                if len(sides) > 1 or any(s.input.window is not None for s in sides):
                    raise cut.fail("DIST_JOIN_OUTSIDE_PARTITION", part.span, group=draft.name)
            case SingleInput() as single if single.window is not None:
                raise cut.fail("DIST_WINDOW_OUTSIDE_PARTITION", part.span, group=draft.name)
        if what := kept_over_events(cut.plan, query):
            raise cut.fail("DIST_STATE_PARALLEL", part.span, query=query.name, group=draft.name, what=what)


def faults(cut: Cut) -> None:
    """Who reads a fault stream gets the failures of its own group; there must be no other ones."""
    for draft in cut.drafts:
        for part in draft.parts:
            for fault in sorted(s for s in part.streams if s.startswith("!")):
                stream = fault[1:]
                failing = [d.name for d in cut.drafts if d is not draft and _may_fail(cut, d, stream)]
                if failing:
                    raise cut.fail(
                        "DIST_FAULT_STREAM", part.span, fault=fault, group=draft.name, others=", ".join(failing)
                    )


def _may_fail(cut: Cut, draft: Draft, stream: str) -> bool:
    """Whether events of a stream may fail in a group: a query that reads them, a sink, or the mapper of a source."""
    if stream in draft.reads(cut.plan) or draft.receives == stream:
        return True
    sinks = found(cut.plan.streams[stream].annotations, "sink")
    return stream in draft.writes(cut.plan) and any(_goes_back(s) for s in sinks)


def _goes_back(sink: Annotation) -> bool:
    return (sink.get("on.error") or "").upper() == "STREAM"


RULES: tuple[Callable[[Cut], None], ...] = (tables, windows, partitions, keys, own_streams, state, faults)


def app_span(plan: App) -> Span:
    """Where the name of an app stands."""
    name = first(plan.annotations, "app:name")
    return NOWHERE if name is None else name.span
