"""Patterns that are a chain of plain elements: `A -> B -> C`, with `every` around the first element, around all of them, or not at all.

The same rules as those of `machine` (semantics/patterns.md#the-machine), for the shape that most patterns have: a match waits for one element at a time
and binds one event there, so that it needs no lists of places, and no copies. Tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nadi.kernel.rows.events import CURRENT, RESET, Chunk, Event, Group, event_of
from nadi.kernel.rows.patterns.conditions import Conditions, make_conditions, rebound
from nadi.kernel.rows.patterns.matches import Match, Matches
from nadi.plan.chains import Chain
from nadi.plan.nodes import StateInput

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable
    from nadi.kernel.rows.flow import Flow


@dataclass(frozen=True, slots=True)
class _Step:
    """One element at work."""

    slot: int
    last: bool
    conditions: Conditions


class ChainRuntime:
    """Takes the events of the streams that a chain reads; see `nadi.kernel.rows.patterns.runtime.StateRuntime`, which has the same face."""

    def __init__(
        self,
        chain: Chain,
        plan: StateInput,
        flow: Flow,
        tables: Mapping[str, Searchable],
        registry: Registry,
        emit: Callable[[Group], None],
    ) -> None:
        self._flow = flow
        self._emit = emit
        self._within = plan.within
        self._every = chain.every
        width = len(chain.elements)
        self._state = flow.store.element(plan.id, {"matches": partial(Matches, width)})
        self._steps: dict[str, tuple[_Step, ...]] = {}
        for slot, element in enumerate(chain.elements):
            conditions = make_conditions(element.steps, slot, False, width, flow, tables, registry)
            step = _Step(slot, slot == width - 1, conditions)
            # events are offered to the last element first, so that none is bound twice
            self._steps[element.source] = (step, *self._steps.get(element.source, ()))
        self._unbound: Match = (None,) * width

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams that are read, each once."""
        return tuple(self._steps)

    def begin(self) -> None:
        """Start under the current flow key: the first element may match. Once per key; more calls do nothing."""
        self._matches()

    def _matches(self) -> Matches:
        matches: Matches = self._state.at(self._flow.key)["matches"]
        if matches.starts is None:
            matches.start(1)
        return matches

    def receive(self, source: str, chunk: Chunk) -> None:
        """A chunk of one of the streams. Each event is taken by itself; results are emitted after the whole chunk."""
        matches = self._matches()
        steps, within = self._steps[source], self._within
        groups: list[Group] = []
        for event in chunk:
            kind, ts, _row = event
            if kind >= RESET:
                continue
            if within is not None and (late := matches.expire(ts, within)) and self._every == "all":
                matches.start((matches.starts or 0) + late)
            starts = matches.starts or 0  # those of this event's own making take the next one
            for step in steps:
                if step.slot == 0:
                    self._open(matches, step, event, starts)
                elif matches.places[step.slot - 1].held and (done := self._go_on(matches, step, event)):
                    groups.append(done)
        if groups:
            self._hand_over(groups, len(steps) == 1)

    def _open(self, matches: Matches, step: _Step, event: Event, starts: int) -> None:
        """The first element: each match that has bound nothing binds the event."""
        if not starts:
            return
        conditions = step.conditions
        bound = event if conditions.alone is None else conditions.prepare(event)
        if bound is None:
            return
        unbound = self._unbound
        if conditions.rest is not None:
            bound = rebound(bound, conditions.rest(unbound, bound.row, bound.ts))
            if bound is None:
                return
        match = ((bound,), *unbound[1:])
        for _ in range(starts):
            matches.put(1, match)
        if self._every != "first":
            matches.start((matches.starts or 0) - starts)

    def _go_on(self, matches: Matches, step: _Step, event: Event) -> Group | None:
        """A later element: the matches that wait for it and whose conditions the event meets bind it; the complete ones come back."""
        slot, place = step.slot, matches.places[step.slot - 1]
        if place.has_new:
            matches.move(place, slot)
        alone, rest = step.conditions.alone, step.conditions.rest
        prepared = event if alone is None else step.conditions.prepare(event)
        if prepared is None:
            return None
        if rest is None:
            found = [(number, match, prepared) for number, match in place.held.items()]
        else:
            _kind, ts, row = prepared
            found = []
            for number, match in place.held.items():
                fitting = rest(match, row, ts)
                if fitting is row:
                    found.append((number, match, prepared))
                elif fitting is not None:
                    found.append((number, match, event_of((prepared.kind, ts, fitting))))
            if not found:
                return None
        matches.take(place, [number for number, _match, _bound in found])
        return self._bind(matches, step, found, prepared.ts)

    def _bind(self, matches: Matches, step: _Step, found: list[tuple[int, Match, Event]], ts: int) -> Group | None:
        slot = step.slot
        if step.last:
            if self._every == "all":
                matches.start((matches.starts or 0) + len(found))
            return [[event_of((CURRENT, ts, (*match[:slot], (bound,))))] for _number, match, bound in found]
        rest = self._unbound[slot + 1 :]
        for _number, match, bound in found:
            matches.put(slot + 1, (*match[:slot], (bound,), *rest))
        return None

    def _hand_over(self, groups: list[Group], alone: bool) -> None:
        for group in groups:
            if alone:
                for match in group:
                    self._emit([match])
            else:
                self._emit(group)
