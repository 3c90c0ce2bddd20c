"""Whether the state of one element of an old app fits the same element of a new one, as it is or after a change: pure, from the two plans.

What is not known to fit is reset: a wrong result later is worse than a question now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nadi.plan.elements import Stateful, shown
from nadi.plan.nodes import Const, FilterStep, Schema
from nadi.plan.querymatches import by_name
from nadi.plan.windowtraits import Attributes, Resized

KEPT, MIGRATED, RESET, NEW = "kept", "migrated", "reset", "new"

Positions = tuple[int | None, ...]
"""For each value of a new row its place in the old one; None: the attribute is new, its value is null."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done to kept state: `rows` are the positions by slot (empty: rows stay), `later` how many ms timers move."""

    rows: tuple[Positions | None, ...] = ()
    later: int = 0


AS_IS = Change()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an element's state, and why."""

    fate: str
    reason: str
    change: Change = AS_IS


def verdict(old: Stateful, new: Stateful) -> Verdict:
    """What becomes of the state of `old` in `new`, both of one kind and in the same place of their query.

    Only the two elements are looked at; what their neighbours do to them is `nadi.plan.restore`'s business.
    """
    if old.kind != new.kind:
        return Verdict(RESET, f"it was {old.what}, now it is {new.what}")
    old_keys, old_shape = _split(old)
    new_keys, new_shape = _split(new)
    if by_name(old_keys, old.partition) != by_name(new_keys, new.partition):
        return Verdict(RESET, "its partition has other keys")
    changed = _widened(old, new)
    if isinstance(changed, str):
        return Verdict(RESET, changed)
    found = _RULES[old.kind](_Pair(old, new, old_shape, new_shape))
    if found.fate == RESET or not any(changed):
        return found
    if not _movable(new):
        return Verdict(RESET, "attributes were added, and its state cannot take them")
    added = _added(old, new)
    reason = f"{added} {'is' if ',' not in added else 'are'} null in what was kept"
    reasons = [reason] if found.fate == KEPT else [found.reason, reason]
    return Verdict(MIGRATED, "; ".join(reasons), Change(changed, found.change.later))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two elements and their shapes without the keys of their partitions."""

    old: Stateful
    new: Stateful
    before: Any
    after: Any

    def same(self, before: object, after: object) -> bool:
        """Whether two parts of the shapes are equal, attributes by name."""
        return by_name(before, self.old.partition) == by_name(after, self.new.partition)


def _split(element: Stateful) -> tuple[object, Any]:
    """The keys of the partition, and the shape proper."""
    if element.partition is None or element.kind == "keys":
        return (), element.shape
    assert isinstance(element.shape, tuple)  # `of_element` makes it so
    return element.shape[0], element.shape[1]


# ---- rows ------------------------------------------------------------------------------------------------------------


def _widened(old: Stateful, new: Stateful) -> tuple[Positions | None, ...] | str:
    """The positions of old values in new rows by slot, None where rows are the same; a sentence where they do not fit."""
    if old.kind in ("selector", "keys", "trigger"):
        return ()
    if len(old.schemas) != len(new.schemas):
        return "it has another number of elements"
    found: list[Positions | None] = []
    for before, after in zip(old.schemas, new.schemas, strict=True):
        if before == after:
            found.append(None)
            continue
        types = {c.name: c.type for c in after.columns}
        for column in before.columns:
            if column.name not in types:
                return f"the attribute '{column.name}' is gone"
            if types[column.name] is not column.type:
                return f"the attribute '{column.name}' was {column.type}, now it is {types[column.name]}"
        found.append(tuple(before.position(c.name) for c in after.columns))
    return tuple(found)


def _added(old: Stateful, new: Stateful) -> str:
    """The names of new attributes."""

    def fresh(before: Schema, after: Schema) -> list[str]:
        return [f"'{n}'" for n in after.names if n not in before.names]

    names = dict.fromkeys(n for b, a in zip(old.schemas, new.schemas) for n in fresh(b, a))
    return ", ".join(names) or "their order"


def _movable(element: Stateful) -> bool:
    """Whether rows in the state of an element can be given more attributes."""
    if element.kind == "window":
        return element.traits is not None and element.traits.attributes is Attributes.TAKEN
    if element.kind == "function":
        return str(_split(element)[1][0]) == "unique:deduplicate"  # keeps keys and no rows
    return element.kind in ("table", "pattern", "aggregation")


# ---- kinds -----------------------------------------------------------------------------------------------------------

_UNCHANGED = Verdict(KEPT, "what shapes it is unchanged")


def _whole(pair: _Pair) -> Verdict:
    """All of the shape counts."""
    return _UNCHANGED if pair.same(pair.before, pair.after) else Verdict(RESET, f"{pair.new.what}: it was another one")


def _selector(pair: _Pair) -> Verdict:
    if not pair.same(pair.before[1], pair.after[1]):
        return Verdict(RESET, "it groups by something else")
    return _UNCHANGED if pair.same(pair.before[0], pair.after[0]) else Verdict(RESET, "its aggregators are others")


def _keys(pair: _Pair) -> Verdict:
    if not pair.same(pair.before, pair.after):
        return Verdict(RESET, "the partition has other keys")
    if pair.old.timed == pair.new.timed:
        return _UNCHANGED
    return Verdict(MIGRATED, "purging begins" if pair.new.timed else "purging ends")


def _table(pair: _Pair) -> Verdict:
    old, new = pair.old.schemas[0], pair.new.schemas[0]
    keys = [tuple(s.names[i] for i in shape[1]) for s, shape in ((old, pair.before), (new, pair.after))]
    if keys[0] != keys[1]:
        return Verdict(RESET, "its primary key is another one")
    indexes = [tuple(s.names[i] for i in shape[2]) for s, shape in ((old, pair.before), (new, pair.after))]
    if indexes[0] != indexes[1]:
        return Verdict(MIGRATED, "its indexes are made anew")
    return _UNCHANGED


def _trigger(pair: _Pair) -> Verdict:
    if pair.before == pair.after:
        return _UNCHANGED
    return Verdict(MIGRATED, "it fires once more as it would have, then in the new rhythm")


def _function(pair: _Pair) -> Verdict:
    if pair.same(pair.before[:2], pair.after[:2]):
        return _UNCHANGED
    return Verdict(RESET, f"#{pair.new.what.split('#')[-1].split()[0]} has other parameters")


def _rate(pair: _Pair) -> Verdict:
    (kind, every, events, selection), (kind2, every2, events2, selection2) = pair.before, pair.after
    if kind != kind2 or (every is None) != (every2 is None):
        return Verdict(RESET, "the output rate is of another kind")
    if events is not None and events2 < events:
        return Verdict(RESET, "fewer events are waited for than may have come")
    if (kind == "snapshot" or pair.old.schemas != pair.new.schemas) and not pair.same(selection, selection2):
        return Verdict(RESET, "something else is selected")
    if events != events2 or every != every2:
        return Verdict(MIGRATED, "what waits stays; the new rate holds from the next output on")
    if not pair.same(selection, selection2):
        return Verdict(MIGRATED, "what waits was selected before the change")
    return _UNCHANGED


def _pattern(pair: _Pair) -> Verdict:
    (root, within), (root2, within2) = pair.before, pair.after
    if pair.same(root, root2):
        if within == within2:
            return _UNCHANGED
        return Verdict(MIGRATED, "partial matches stay, the new 'within' holds for them")
    if not pair.same(_bare(root), _bare(root2)):
        return Verdict(RESET, "its elements are others")
    return Verdict(MIGRATED, "partial matches stay, the new conditions hold from now on")


def _bare(node: Any) -> Any:
    """A pattern without the conditions of its elements: they decide what comes in, not what is kept."""
    if isinstance(node, tuple):
        return tuple(_bare(n) for n in node if not isinstance(n, FilterStep))
    fields = getattr(node, "__dataclass_fields__", None)
    if fields is None or not any(name in fields for name in ("element", "elements", "left", "steps")):
        return node
    return (type(node).__name__, tuple((name, _bare(getattr(node, name))) for name in fields if name != "reference"))


def _aggregation(pair: _Pair) -> Verdict:
    (steps, selection, moment, durations), (steps2, selection2, moment2, durations2) = pair.before, pair.after
    if not pair.same((selection, moment), (selection2, moment2)):
        return Verdict(RESET, "it adds up something else")
    if not pair.same(_bare(steps), _bare(steps2)):
        return Verdict(RESET, "what comes in is made by other functions")
    if gone := [d for d in durations if d not in durations2]:
        return Verdict(RESET, f"the buckets per {', '.join(gone)} are gone")
    if more := [d for d in durations2 if d not in durations]:
        return Verdict(MIGRATED, f"the buckets per {', '.join(more)} begin empty")
    if not pair.same(steps, steps2):
        return Verdict(MIGRATED, "what was added up stays, the new filter holds from now on")
    return _UNCHANGED


# ---- windows ---------------------------------------------------------------------------------------------------------


def _window(pair: _Pair) -> Verdict:
    (name, args, _schema), (name2, args2, _schema2) = pair.before, pair.after
    if name != name2:
        return Verdict(RESET, f"it was {shown(name, args)}")
    traits = pair.new.traits
    assert traits is not None  # it is a window
    if pair.same(args, args2):
        if traits.attributes is Attributes.KEYS and pair.old.schemas != pair.new.schemas:
            return Verdict(RESET, "its keys are made of all attributes")
        return _UNCHANGED
    was = f"it was {shown(name, args)}"
    rule = _RESIZED[traits.resized]
    moved = _numbers(pair, args, args2)
    if rule is None or moved is None:
        return Verdict(RESET, was)
    found = rule(*moved) if moved else None
    if found is None:
        return Verdict(RESET, f"{was}; it may hold more than fits")
    return Verdict(MIGRATED, was, found)


Numbers = list[tuple[int, int]]
"""Constants that are numbers, before and after, in order."""


def _numbers(pair: _Pair, args: tuple[Any, ...], args2: tuple[Any, ...]) -> Numbers | None:
    """As the only parameter of a rule; None where anything else differs."""
    if len(args) != len(args2):
        return None
    found: Numbers = []
    for one, two in zip(args, args2, strict=True):
        if _is_number(one) and _is_number(two):
            found.append((one.value, two.value))
        elif not pair.same(one, two):
            return None
    return found


def _is_number(arg: object) -> bool:
    return isinstance(arg, Const) and type(arg.value) is int


def _time(first: tuple[int, int], *more: tuple[int, int]) -> Change | None:
    """Each event has a timer: they move with the time. A number after it bounds how many are held."""
    if any(two < one for one, two in more):
        return None
    return Change(later=first[1] - first[0])


def _room(first: tuple[int, int]) -> Change | None:
    """A window that gives one for each that comes would never get back to a smaller size."""
    return Change() if first[1] >= first[0] else None


def _period(first: tuple[int, int], *start: tuple[int, int]) -> Change | None:
    """The batch under way ends when it would have; with a start time its boundaries are then others than those asked for."""
    return None if start else Change()


_RESIZED: dict[Resized, Callable[..., Change | None] | None] = {
    Resized.RESET: None,
    Resized.ANY: lambda _first: Change(),
    Resized.ROOM: _room,
    Resized.TIME: _time,
    Resized.PERIOD: _period,
}
"""What a change of numbers comes to; None where the state may not fit."""

_RULES: dict[str, Callable[[_Pair], Verdict]] = {
    "window": _window,
    "table": _table,
    "trigger": _trigger,
    "aggregation": _aggregation,
    "function": _function,
    "pattern": _pattern,
    "selector": _selector,
    "rate": _rate,
    "keys": _keys,
}
