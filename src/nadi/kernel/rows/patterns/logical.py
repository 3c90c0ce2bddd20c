"""`and`, `or` (semantics/patterns.md#and-or): one match waits in the lists of both operands."""

from __future__ import annotations

from nadi.kernel.rows.events import Event
from nadi.kernel.rows.patterns import machine as plain
from nadi.kernel.rows.patterns.elements import Node, Rules
from nadi.kernel.rows.patterns.machine import Machine
from nadi.kernel.rows.patterns.partials import SLOTS, TS, Partial, Waiting


def other(node: Node) -> Node:
    """The other operand."""
    assert node.partner is not None  # every operand has one: elements.lay_out
    return node.partner


def enter(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """Into both lists; the first element, and each element of a sequence, holds at most one new match per operand."""
    for operand in (node, other(node)):
        if not ((node.start or machine.sequence) and waiting.lists[operand.new]):
            waiting.put(operand.new, partial)


def rearm(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    copy = waiting.copy(partial, min(node.slot, other(node).slot))
    waiting.put(node.new, copy)
    waiting.put(other(node).new, copy)


def reset(machine: Machine, waiting: Waiting, node: Node) -> None:
    """A half-complete `and` is not broken off."""
    partner = other(node)
    if node.op == "and" and len(waiting.lists[node.pending]) != len(waiting.lists[partner.pending]):
        return
    waiting.clear(node.pending)
    waiting.clear(partner.pending)
    if node.start and not waiting.lists[node.new] and plain.may_restart(machine, waiting, node):
        plain.begin(machine, waiting, node)


def update(machine: Machine, waiting: Waiting, node: Node) -> None:
    waiting.move(node.slot)
    waiting.move(other(node).slot)


def drop_decided(waiting: Waiting, node: Node) -> None:
    """Forget the matches that went on through the other operand of an `or`."""
    if node.op == "or":
        partner = other(node).slot
        for partial in waiting.at(node.pending):
            if partial[SLOTS][partner] is not None:
                waiting.take(node.pending, partial)


def offer(machine: Machine, waiting: Waiting, node: Node, event: Event) -> None:
    drop_decided(waiting, node)
    for partial, bound in plain.binding(machine, waiting, node, event):
        if bound is not None:
            partial[SLOTS][node.slot] = [bound]
            if node.op == "or" or both(machine, waiting, node, partial):
                partial[TS] = event.ts
                plain.go_on(machine, waiting, node, partial, lost=node.silent and node.op == "and")
            waiting.take(node.pending, partial)
            waiting.changed(partial)
        else:
            plain.unbound(machine, waiting, node, partial)
        if node.asks:
            plain.answer(machine, waiting, node, partial)


def both(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> bool:
    """Whether the other operand of an `and` lets the match go on."""
    partner = other(node)
    if partner.kind == "absent logical":
        return stayed_away(machine, waiting, partner, partial)
    return partial[SLOTS][partner.slot] is not None


def stayed_away(machine: Machine, waiting: Waiting, absent: Node, partial: Partial) -> bool:
    """Whether what must be absent has been so far, or for as long as it has to be."""
    seen, flags = absent.flag("seen"), waiting.flags
    if machine.sequence and absent.every is None and flags.get(seen, 0) > 0:
        return False
    if absent.waiting is not None:
        return partial[SLOTS][absent.slot] is not None  # its timer has put a mark there
    if absent.every is None:
        return partial[SLOTS][absent.slot] is None
    if flags.get(seen, 0) > 0:
        flags.pop(seen)
        plain.begin(machine, waiting, absent)
        return False
    return True


LOGICAL = Rules(enter, rearm, offer, reset, update)
