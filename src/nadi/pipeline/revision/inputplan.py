"""What becomes of each input of an app when it goes on from a revision, maybe changed: which goes on at its position, which begins, which is dropped.

plan = plan_inputs(before, now, cut, last)
plan.check("1700000000000__Orders", reset=False)
plan.numbers                                      # of the inputs from now on

Logs are only asked for what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from nadi.errors import NadiError, error
from nadi.io.contract import Connector, Log
from nadi.io.identity import OWN, identities, more_numbers
from nadi.io.registry import SOURCES, source_kind
from nadi.io.retention import Kept
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App

GOES_ON, BEGINS, DROPPED = "goes on", "begins", "dropped"


@dataclass(frozen=True, slots=True)
class InputFate:
    """What becomes of one input (`nadi.io.identity`). `loses` is whether messages would be left unread or may be; `missing` how many it needs are gone."""

    name: str
    fate: str
    reason: str
    loses: bool = False
    missing: int = 0


@dataclass(frozen=True, slots=True)
class InputPlan:
    """The fates of the inputs that users know of, those of the new text first; the numbers of all inputs of the new text."""

    app: str
    fates: tuple[InputFate, ...]
    numbers: Mapping[str, int]

    @property
    def losing(self) -> tuple[InputFate, ...]:
        return tuple(f for f in self.fates if f.loses)

    def check(self, revision: str, reset: bool = False) -> InputPlan:
        """This plan, if it may be carried out.

        Raises:
            CannotRestoreSiddhiAppStateException: MESSAGES_GONE, which no `reset` changes; RESTORE_DROPS_INPUT without it.
        """
        if missing := sum(f.missing for f in self.fates):
            what = "; ".join(f"{f.name}: {f.reason}" for f in self.fates if f.missing)
            raise error("MESSAGES_GONE", app=self.app, revision=revision, missing=f"{missing:,}", what=what)
        if self.losing and not reset:
            what = "; ".join(f"{f.name}: {f.reason}" for f in self.losing)
            raise error("RESTORE_DROPS_INPUT", app=self.app, what=what)
        return self


@dataclass(frozen=True, slots=True)
class Side:
    """A text of the app, with the numbers of its inputs in `spec.inputs`."""

    spec: AppSpec
    app: App

    def sources(self) -> dict[str, Connector]:
        """All inputs by name."""
        found = self.spec.sources(self.app)
        return dict(zip(identities(found), found, strict=True))


def plan_inputs(before: Side, now: Side, cut: Cut, last: Cut | None) -> InputPlan:
    """Plan what becomes of the inputs.

    Args:
        before: the app of the revision, with the numbers that the revision tells.
        now: the app that is to go on; its numbers are those of the state folder (empty: it has none).
        cut: that of the revision.
        last: the last one of the cut log: cuts up to it are taken again.
    """
    return _Planner(before, now, cut, last if last is not None and last.n > cut.n else None).plan()


class _Planner:
    """The work of `plan_inputs`."""

    def __init__(self, before: Side, now: Side, cut: Cut, again: Cut | None) -> None:
        self._before, self._now = before, now
        self._cut, self._again = cut, again
        self._known, self._current = before.spec.inputs, now.spec.inputs
        taken = {ordinal for each in (cut, again) if each is not None for ordinal, _partition in each.ends}
        self._free = 1 + max({*self._known.values(), *self._current.values(), *taken}, default=-1)

    def plan(self) -> InputPlan:
        users = self._now.spec.user_sources(self._now.app)
        numbers = more_numbers(users, {**self._current, **self._known}, self._free)
        self._free = 1 + max(*numbers.values(), self._free - 1)
        now = Side(replace(self._now.spec, inputs=numbers), self._now.app)
        fates = []
        for name, source in now.sources().items():
            if name not in self._known:
                fates.append(self._begins(name, source))
                continue
            fate = self._goes_on(name, now.spec, source)
            if fate.fate == BEGINS:  # another log under the same name: old positions mean nothing in it
                numbers[name], self._free = self._free, self._free + 1
            fates.append(fate)
        fates += self._dropped(numbers)
        shown = tuple(f for f in fates if f.name not in OWN or f.missing)
        return InputPlan(self._now.app.name, shown, numbers)

    # ---- those that stay

    def _goes_on(self, name: str, spec: AppSpec, source: Connector) -> InputFate:
        positions = self._positions(source.ordinal)
        at = _places(positions)
        if name in OWN:
            return self._own(name, spec, source, positions)
        if not positions:
            return InputFate(name, GOES_ON, "nothing of it was read before")
        missing = waiting = 0
        try:
            with _opened(spec, source) as log:
                if not isinstance(log, Kept):
                    return InputFate(name, GOES_ON, f"at position {at}")
                count = log.partitions()
                for partition, position in positions.items():
                    end = log.end(partition) if partition < count else -1
                    if end < position:
                        return self._another_log(name, source, position, end)
                    missing += max(0, log.oldest(partition) - position)
                    waiting += end - position
        except NadiError as problem:
            return InputFate(name, GOES_ON, f"at position {at}; it cannot be asked now: {problem.diagnostic.message}")
        if missing:
            reason = f"it goes on at position {at}, and {missing:,} messages from there on are gone"
            return InputFate(name, GOES_ON, reason, missing=missing)
        return InputFate(name, GOES_ON, f"at position {at}, {waiting:,} messages wait")

    def _own(self, name: str, spec: AppSpec, source: Connector, positions: Mapping[int, int]) -> InputFate:
        """What nadi keeps in the state folder, which may be another one now."""
        position = positions.get(0, 0)
        with _opened(spec, source) as log:
            if log.end(0) < position:
                return InputFate(name, BEGINS, "")
            missing = max(0, log.oldest(0) - position) if isinstance(log, Kept) and positions else 0
        reason = f"it goes on at position {position}, and {missing:,} lines from there on are gone"
        return InputFate(name, GOES_ON, reason if missing else "", missing=missing)

    def _another_log(self, name: str, source: Connector, position: int, end: int) -> InputFate:
        there = f"its log ends at {end}" if end >= 0 else "its log has fewer partitions"
        reason = f"{there}, the revision stands at {position}: it is another log; it begins {_begin(source)}"
        return InputFate(name, BEGINS, reason, loses=True)

    def _begins(self, name: str, source: Connector) -> InputFate:
        if self._again is not None and any(ordinal == source.ordinal for ordinal, _partition in self._again.ends):
            return InputFate(name, BEGINS, "as the cuts that are taken again have it")
        return InputFate(name, BEGINS, _begin(source))

    # ---- those that go

    def _dropped(self, numbers: Mapping[str, int]) -> Iterator[InputFate]:
        for name, source in self._before.sources().items():
            if name not in numbers:
                yield self._unread(name, source)
        for name, number in self._current.items():
            if name not in numbers and name not in self._known and self._again is not None:
                read = any(o == number for o, _partition in self._again.ends)
                reason = "cuts that are taken again have read messages of it" if read else "nothing of it was read"
                yield InputFate(name, DROPPED, reason, loses=read)

    def _unread(self, name: str, source: Connector) -> InputFate:
        positions = self._positions(source.ordinal)
        try:
            with _opened(self._before.spec, source) as log:
                unread = 0
                for p in range(log.partitions()):
                    unread += max(0, log.end(p) - (positions[p] if p in positions else log.beginning(p)))
        except NadiError as problem:
            said = f"whether messages wait there cannot be told: {problem.diagnostic.message}"
            return InputFate(name, DROPPED, said, loses=True)
        if unread:
            reason = f"{unread:,} messages from position {_places(positions)} on have not been read"
            return InputFate(name, DROPPED, reason, loses=True)
        return InputFate(name, DROPPED, "all that it has was read")

    def _positions(self, ordinal: int) -> dict[int, int]:
        return {partition: end for (of, partition), end in sorted(self._cut.ends.items()) if of == ordinal}


@contextmanager
def _opened(spec: AppSpec, source: Connector) -> Iterator[Log]:
    log = spec.open_log(source)
    try:
        yield log
    finally:
        log.close()


def _begin(source: Connector) -> str:
    return source_kind(source.type).begins(source) if source.type in SOURCES else "with its oldest message"


def _places(positions: Mapping[int, int]) -> str:
    """Positions by partition, for people.

    >>> _places({0: 7}), _places({0: 7, 1: 9})
    ('7', '7, 9 (of 2 partitions)')
    """
    shown = [str(position) for _partition, position in sorted(positions.items())]
    if len(shown) == 1:
        return shown[0]
    listed = ", ".join(shown) if len(shown) <= 8 else f"{', '.join(shown[:8])} …"
    return f"{listed} (of {len(shown)} partitions)"
