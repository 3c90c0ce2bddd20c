"""`not A for t`, by itself and as an operand of `and` and `or` (semantics/patterns.md#absence)."""

from __future__ import annotations

from nadi.kernel.rows.events import Event
from nadi.kernel.rows.patterns import logical
from nadi.kernel.rows.patterns import machine as plain
from nadi.kernel.rows.patterns.elements import Node, Rules
from nadi.kernel.rows.patterns.logical import other
from nadi.kernel.rows.patterns.machine import Machine
from nadi.kernel.rows.patterns.partials import EMPTY_TS, SLOTS, TS, Partial, Waiting

# Flags of an element: "off" — it has been used up (a first element without `every`); "due" — when its wait ends (absent by itself);
# "seen" — timestamp of the last event that should have stayed away (operand of a logical element).


def wake_at(waiting: Waiting, node: Node, due: int) -> None:
    assert node.timer is not None  # every element with a waiting time has one: StateRuntime
    waiting.flags.set(node.flag("due"), due)
    node.timer.at(due)


def waits(node: Node) -> int:
    assert node.waiting is not None  # checked when the plan was made: only an operand of `and` may go without
    return node.waiting


def begin_waiting(machine: Machine, waiting: Waiting, node: Node) -> None:
    """The app, or a partition key, starts: so does the wait of a first element."""
    if node.start and node.waiting is not None:
        due = machine.flow.now + node.waiting
        if node.kind == "absent":
            wake_at(waiting, node, due)
        elif node.timer is not None:
            node.timer.at(due)


def send(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """Nothing came: the match goes on."""
    plain.go_on(machine, waiting, node, partial)
    if node.every is None and node.start:
        waiting.flags.set(node.flag("off"), True)
        partner = node.partner
        if partner is not None and node.op == "or" and partner.kind == "absent logical":
            waiting.flags.set(partner.flag("off"), True)


# ---- by itself -----------------------------------------------------------------------------------------------------


def enter(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    if waiting.flags.get(node.flag("off")):
        return
    if machine.sequence:
        waiting.clear(node.new)
    waiting.put(node.new, partial)
    if not node.start:
        wake_at(waiting, node, partial[TS] + waits(node))


def rearm(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    plain.rearm(machine, waiting, node, partial)
    wake_at(waiting, node, partial[TS] + waits(node))


def reset(machine: Machine, waiting: Waiting, node: Node) -> None:
    waiting.clear(node.pending)
    if node.start and plain.may_restart(machine, waiting, node):
        plain.begin(machine, waiting, node)


def offer(machine: Machine, waiting: Waiting, node: Node, event: Event) -> None:
    """What should stay away came: each match it passes the filters with is gone; a first element waits anew."""
    if waiting.flags.get(node.flag("off")):
        return
    if node.asks and waiting.lists[node.pending]:
        plain.hears(machine, waiting)  # and tells nobody
    for partial, bound in plain.binding(machine, waiting, node, event):
        if bound is None:
            if node.empties:
                partial[SLOTS][node.slot] = None
            plain.start_over(waiting, node)
            continue
        waiting.take(node.pending, partial)
        partial[SLOTS][node.slot] = [bound]  # a counted element in which it waits, too, sees that it is gone
        partial[TS] = event.ts
        waiting.changed(partial)
        if node.start and node.every is node:
            rearm(machine, waiting, node, partial)
        wake_at(waiting, node, event.ts + waits(node))


def fire(machine: Machine, waiting: Waiting, node: Node, now: int) -> None:
    flags = waiting.flags
    if flags.get(node.flag("off")):
        return
    due = flags.get(node.flag("due"), 0)
    nobody = not waiting.lists[node.new] and not waiting.lists[node.pending]
    if node.start and nobody and not (machine.sequence and node.every is None and due > 0):
        enter(machine, waiting, node, waiting.fresh())
    elif machine.sequence and waiting.lists[node.new]:
        reset(machine, waiting, node)
    waiting.move(node.slot)
    over = [p for p in waiting.at(node.pending) if not drop_late(machine, waiting, node, p, now)]
    over = [p for p in over if now >= (due if p[TS] == EMPTY_TS else p[TS] + waits(node))]
    for partial in over:
        partial[TS] = now
        waiting.changed(partial)
    if node.scope is not None:
        node.scope.rules.update(machine, waiting, node.scope)
    for partial in over:
        send(machine, waiting, node, partial)
        waiting.take(node.pending, partial)
    if machine.flow.now > waits(node) + now:
        flags.set(node.flag("due"), machine.flow.now + waits(node))
    if not over and flags.get(node.flag("due"), 0) < now:
        wake_at(waiting, node, now + waits(node))


def drop_late(machine: Machine, waiting: Waiting, node: Node, partial: Partial, now: int) -> bool:
    """`within`, when the timer runs."""
    if not plain.expired(machine, partial, now):
        return False
    waiting.take(node.pending, partial)
    if node.scope is not None and node.every is not None and node.every is not node:
        node.every.rules.rearm(machine, waiting, node.every, partial)
    return True


# ---- as an operand -------------------------------------------------------------------------------------------------


def enter_operand(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    if waiting.flags.get(node.flag("off")):
        return
    logical.enter(machine, waiting, node, partial)
    if not node.start:
        for operand in (node, other(node)):
            if operand.waiting is not None and operand.timer is not None:
                operand.timer.at(partial[TS] + operand.waiting)


def rearm_operand(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """Siddhi leaves what comes after the scope in the copy."""
    copy = waiting.copy(partial, len(partial[SLOTS]))
    copy[SLOTS][node.slot] = copy[SLOTS][other(node).slot] = None
    seen = partial[SLOTS][node.slot]
    if seen is not None:
        copy[TS] = seen[-1].ts if seen else EMPTY_TS
    waiting.put(node.new, copy)
    waiting.put(other(node).new, copy)


def offer_operand(machine: Machine, waiting: Waiting, node: Node, event: Event) -> None:
    """What should stay away came: the match no longer waits for its absence. Without a waiting time its slot remembers it."""
    flags, slot = waiting.flags, node.slot
    if flags.get(node.flag("off")):
        return
    logical.drop_decided(waiting, node)
    restores = node.waiting is not None or (machine.sequence and node.op == "and" and node.every is not None)
    for partial, bound in plain.binding(machine, waiting, node, event):
        if bound is not None:
            flags.set(node.flag("seen"), event.ts)
            if not restores:
                partial[SLOTS][slot] = [bound]
                waiting.changed(partial)
        elif machine.sequence:
            waiting.take(node.pending, partial)
        gone = node.asks and plain.hears(machine, waiting)
        if gone or (bound is not None and not node.silent):
            waiting.take(node.pending, partial)
            if machine.sequence:
                waiting.take(other(node).pending, partial)


def fire_operand(machine: Machine, waiting: Waiting, node: Node, now: int) -> None:
    flags, seen = waiting.flags, node.flag("seen")
    if flags.get(node.flag("off")):
        return
    sent = False
    if now >= flags.get(seen, 0) + waits(node):
        nobody = not waiting.lists[node.new] and not waiting.lists[node.pending]
        if node.start and machine.sequence and nobody:
            enter_operand(machine, waiting, node, waiting.fresh())
        elif machine.sequence and waiting.lists[node.new]:
            logical.reset(machine, waiting, node)
        logical.update(machine, waiting, node)
        sent = stay_away(machine, waiting, node, now)
        flags.pop(seen)
    if node.timer is not None and (node.every is not None or (not sent and node.start)):
        since = flags.get(seen, 0)
        node.timer.at((since or machine.flow.now) + waits(node))


def stay_away(machine: Machine, waiting: Waiting, node: Node, now: int) -> bool:
    """The wait of an operand is over: mark the matches that wait long enough, send those that lack nothing more. Whether any was sent."""
    slot, partner = node.slot, other(node).slot
    sending: list[Partial] = []
    late: Partial | None = None
    for partial in waiting.at(node.pending):
        if plain.expired(machine, partial, now):
            late = partial
            waiting.take(node.pending, partial)
            continue
        slots = partial[SLOTS]
        since = partial[TS] if slots[slot] is None else (slots[slot][-1].ts if slots[slot] else EMPTY_TS)
        if now < since + waits(node):
            continue
        complete = (slots[partner] is None) == (node.op == "or")
        if slots[slot] is None and slots[partner] is None:
            slots[slot] = []  # the mark that it stayed away
        if complete:
            sending.append(partial)
        else:
            waiting.take(node.pending, partial)
            waiting.changed(partial)
    if late is not None and node.scope is not None:
        node.scope.rules.rearm(machine, waiting, node.scope, late)
        node.scope.rules.update(machine, waiting, node.scope)
    for partial in sending:
        if machine.flow.compat != 4:
            partial[TS] = now
        send(machine, waiting, node, partial)
        waiting.take(node.pending, partial)
        waiting.changed(partial)
    return bool(sending)


ABSENT = Rules(enter, rearm, offer, reset, plain.update, fire)
ABSENT_OPERAND = Rules(enter_operand, rearm_operand, offer_operand, logical.reset, logical.update, fire_operand)
