"""The machine that patterns and sequences share (semantics/patterns.md#the-machine): how a match goes on, how elements get ready for an event and take it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.patterns.conditions import rebound
from nadi.kernel.rows.patterns.elements import Layout, Node, Rules
from nadi.kernel.rows.patterns.partials import EMPTY_TS, EXPIRED, ID, SLOTS, TS, Partial, Waiting


@dataclass(slots=True)
class Machine:
    """A pattern or sequence in motion. `done` collects the completed matches."""

    layout: Layout
    sequence: bool
    within: int | None
    flow: Flow
    absent: tuple[int, ...]
    """The slots of absent elements: they stay null in results, whatever marks stand in them meanwhile."""
    starts: tuple[int, ...]
    """The slots of the first element (two where it is logical), from which `within` counts."""
    aging: tuple[Node, ...]
    """The elements in which a match may run out of `within`: not a plain first one, whose matches have bound nothing."""
    plain_start: int | None
    """The slot from which `within` counts, where it is bound once and for all before a match goes on."""
    lazy: bool
    """Siddhi 4: `within` is looked at only when the element of a match gets an event."""
    done: list[Partial] = field(default_factory=list)


# ---- matches on their way ------------------------------------------------------------------------------------------


def begin(machine: Machine, waiting: Waiting, node: Node) -> None:
    """Give a first element a match that has bound nothing, if it may start (again)."""
    if not node.start:
        return
    follows_absent = node.next is not None and node.next.kind.startswith("absent")
    if node.every is not None or (machine.sequence and follows_absent) or not waiting.flags.get(node.flag("begun")):
        node.rules.enter(machine, waiting, node, waiting.fresh())
        if not waiting.flags.get(node.flag("begun")):
            waiting.flags.set(node.flag("begun"), True)


def admit(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """Put a match among the new ones of an element. Sequences take one per round."""
    if not (machine.sequence and waiting.lists[node.new]):
        waiting.put(node.new, partial)


def go_on(machine: Machine, waiting: Waiting, node: Node, partial: Partial, lost: bool = False) -> None:
    """An element is done with a match: it is complete, or goes to the next element; and the scope that ends here is re-armed."""
    if node.last and not lost:
        machine.done.append(partial)
    if node.next is not None:
        node.next.rules.enter(machine, waiting, node.next, partial)
    if node.every is not None:
        node.every.rules.rearm(machine, waiting, node.every, partial)
    if node.starts_over is not None:
        start_over(waiting, node)


def results(machine: Machine, partials: list[Partial], shown: dict[int, Chunk]) -> list[Chunk]:
    """What completed matches hold now, each once. One that ran out of `within` at another element is an expired event to Siddhi, and not put out.

    `shown` has by number what was completed before and is still to be put out: a match that an end without an event completes once more is one and the
    same event to Siddhi.
    """
    found: list[Chunk] = []
    for number, partial in {partial[ID]: partial for partial in partials}.items():
        if not partial[EXPIRED]:
            held = [None if one is None else list(one) for one in partial[SLOTS]]
            for slot in machine.absent:
                held[slot] = None
            chunk = shown.setdefault(number, [])
            chunk[:] = [Event(CURRENT, partial[TS], tuple(held))]
            found.append(chunk)
    return found


def hears(machine: Machine, waiting: Waiting) -> bool:
    """Whether a match has come to an end that needs no event since this was asked last. Only the elements that ask may."""
    end = machine.layout.open_end
    assert end is not None  # there are such elements only with such an end
    if not waiting.flags.get(end.flag("reached")):
        return False
    waiting.flags.pop(end.flag("reached"))
    return True


def answer(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """If a match has come to the end, put out the one at hand: that may be another one, as with Siddhi."""
    if hears(machine, waiting) and node.heard:
        machine.done.append(partial)


def start_over(waiting: Waiting, node: Node) -> None:
    if node.starts_over is not None:
        waiting.flags.set(node.starts_over.flag("over"), True)


def expired(machine: Machine, partial: Partial, now: int) -> bool:
    """Whether the first event of a match is more than `within` away. The mark that nothing came is an event without a time."""
    slots, limit = partial[SLOTS], machine.within
    if limit is not None:
        for start in machine.starts:
            bound = slots[start]
            if bound is not None and abs((bound[0][1] if bound else EMPTY_TS) - now) > limit:
                return True
    return False


def drop_if_late(machine: Machine, waiting: Waiting, node: Node, partial: Partial, now: int) -> bool:
    """Siddhi 4's `within`, at the moment at which a match would get an event."""
    if node.start or not machine.lazy or not expired(machine, partial, now):
        return False
    waiting.take(node.pending, partial)
    if node.scope is not None:
        node.scope.rules.rearm(machine, waiting, node.scope, partial)
        node.scope.rules.update(machine, waiting, node.scope)
    return True


# ---- an event ------------------------------------------------------------------------------------------------------


def expire(machine: Machine, waiting: Waiting, now: int) -> None:
    """Drop the matches that ran out of `within`; each scope in which some did is re-armed with a copy of the last one."""
    lists, start, limit = waiting.lists, machine.plain_start, machine.within
    assert limit is not None  # asked for before
    for node in machine.aging:
        pending, new = lists[node.pending], lists[node.new]
        if not (pending or new) or (start is not None and none_late(waiting, node, start, now, limit)):
            continue
        found = late(machine, waiting, node, now)
        if not found:
            continue
        last: Partial | None = None
        for place, partial in found:
            if not partial[EXPIRED]:  # it may wait in several elements, and re-arms once
                partial[EXPIRED] = True
                last = partial
            waiting.take(place, partial)
        if last is not None and node.scope is not None:
            node.scope.rules.rearm(machine, waiting, node.scope, last)
            node.scope.rules.update(machine, waiting, node.scope)


def none_late(waiting: Waiting, node: Node, start: int, now: int, limit: int) -> bool:
    """Whether a look at the first matches, from whose slot `start` `within` counts, tells that none is late: what is so before nearly every event."""
    for partial in waiting.lists[node.pending].values():
        if abs(partial[SLOTS][start][0][1] - now) > limit:
            return False
        break
    for partial in waiting.lists[node.new].values():
        return abs(partial[SLOTS][start][0][1] - now) <= limit and waiting.in_order(node.new, now + limit)
    return True


def late(machine: Machine, waiting: Waiting, node: Node, now: int) -> list[tuple[int, Partial]]:
    """The late matches of an element: pending ones up to the first that is not, and all new ones."""
    found: list[tuple[int, Partial]] = []
    for partial in waiting.lists[node.pending].values():
        if not expired(machine, partial, now):
            break
        found.append((node.pending, partial))
    new = waiting.lists[node.new]
    if new:
        assert machine.within is not None
        in_order = waiting.in_order(node.new, now + machine.within)
        for partial in new.values():
            if expired(machine, partial, now):
                found.append((node.new, partial))
            elif in_order:
                break
    return found


def ready_pattern(machine: Machine, waiting: Waiting, readers: tuple[Node, ...], event: Event) -> None:
    """Before an event: `within`, then new matches of the elements that read the stream become pending."""
    if machine.within is not None and not machine.lazy:
        expire(machine, waiting, event.ts)
    lists = waiting.lists
    for node in readers:
        if node.kind == "one":
            if lists[node.new]:
                waiting.move(node.slot)
        elif lists[node.new] or node.partner is not None:
            node.rules.update(machine, waiting, node)


def ready_sequence(machine: Machine, waiting: Waiting, readers: tuple[Node, ...], event: Event) -> None:
    """Before an event, whatever stream it came from: what is pending is broken off, what is new becomes pending, in all elements."""
    if machine.within is not None and not machine.lazy:
        expire(machine, waiting, event.ts)
    lists = waiting.lists
    for node in reversed(machine.layout.units):
        if lists[node.pending] or node.start or node.partner is not None:
            node.rules.reset(machine, waiting, node)
    for node in machine.layout.units:
        if lists[node.new] or node.start or node.partner is not None:
            node.rules.update(machine, waiting, node)


# ---- plain elements ------------------------------------------------------------------------------------------------


def rearm(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    waiting.put(node.new, waiting.copy(partial, node.slot))


def reset(machine: Machine, waiting: Waiting, node: Node) -> None:
    waiting.clear(node.pending)
    if node.start and not waiting.lists[node.new] and may_restart(machine, waiting, node):
        begin(machine, waiting, node)


def may_restart(machine: Machine, waiting: Waiting, node: Node) -> bool:
    """A sequence without `every` does not start again while the next element holds a match."""
    held = node.every is None and node.next is not None and waiting.lists[node.next.pending]
    return not (machine.sequence and held)


def update(machine: Machine, waiting: Waiting, node: Node) -> None:
    waiting.move(node.slot)


def offer(machine: Machine, waiting: Waiting, node: Node, event: Event) -> None:
    ts = event.ts
    for partial, bound in binding(machine, waiting, node, event):
        if bound is not None:
            partial[SLOTS][node.slot] = [bound]
            partial[TS] = ts
            if node.hops and node.next is not None:
                waiting.hop(node.pending, node.next.new, partial)
                if node.every is not None:
                    node.every.rules.rearm(machine, waiting, node.every, partial)
            else:
                go_on(machine, waiting, node, partial)
                waiting.take(node.pending, partial)
        else:
            unbound(machine, waiting, node, partial)
            if machine.sequence:
                start_over(waiting, node)
        if node.asks:
            answer(machine, waiting, node, partial)


def unbound(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """An event did not fit: a sequence is broken off, a pattern waits on."""
    if partial[SLOTS][node.slot] is not None and node.empties:
        partial[SLOTS][node.slot] = None
        waiting.changed(partial)
    if machine.sequence:
        waiting.take(node.pending, partial)


def binding(machine: Machine, waiting: Waiting, node: Node, event: Event) -> list[tuple[Partial, Event | None]]:
    """The pending matches of an element, each with the event as it is to be bound, or None where the filters reject it.

    A pattern's matches that stay as they are are left out where that makes no difference.
    """
    pending = waiting.lists[node.pending]
    if not pending:
        return []
    partials = list(pending.values())
    if machine.lazy:
        partials = [p for p in partials if not drop_if_late(machine, waiting, node, p, event.ts)]
    conditions, all_of_them = node.conditions, machine.sequence or node.asks or node.empties
    prepared = event if conditions.alone is None else conditions.prepare(event)
    if prepared is None:
        return [(partial, None) for partial in partials] if all_of_them else []
    check = conditions.rest
    if check is None:
        return [(partial, prepared) for partial in partials]
    _kind, ts, row = prepared
    found: list[tuple[Partial, Event | None]] = []
    for partial in partials:
        fitting = check(partial[SLOTS], row, ts)
        if fitting is row:
            found.append((partial, prepared))
        elif fitting is not None or all_of_them:
            found.append((partial, rebound(prepared, fitting)))
    return found


ONE = Rules(admit, rearm, offer, reset, update)
