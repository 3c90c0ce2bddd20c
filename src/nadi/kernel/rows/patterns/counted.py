"""Counted elements, `e1=A<m:n>` (semantics/patterns.md#counted-elements)."""

from __future__ import annotations

from nadi.kernel.rows.events import Event
from nadi.kernel.rows.patterns import machine as plain
from nadi.kernel.rows.patterns.elements import Node, Rules
from nadi.kernel.rows.patterns.machine import Machine
from nadi.kernel.rows.patterns.partials import SLOTS, TS, Partial, Waiting


def enter(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """A match arrives. If no event is needed it goes on at once; where nothing follows the elements that ask hear of it."""
    enough = node.minimum == 0 and partial[SLOTS][node.slot] is None
    if node.lingers or not enough:
        plain.admit(machine, waiting, node, partial)
    if enough:
        if node.last:
            waiting.flags.set(node.flag("reached"), True)
        reached(machine, waiting, node, partial)


def reached(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    """The least count is there."""
    if node.next is not None:
        node.next.rules.enter(machine, waiting, node.next, partial)
    if node.every is not None:
        node.every.rules.rearm(machine, waiting, node.every, partial)


def rearm(machine: Machine, waiting: Waiting, node: Node, partial: Partial) -> None:
    if machine.flow.compat != 4:  # Siddhi 4 never restarts a scope that begins with a counted element
        plain.rearm(machine, waiting, node, partial)


def offer(machine: Machine, waiting: Waiting, node: Node, event: Event) -> None:
    for partial in waiting.at(node.pending):
        slots = partial[SLOTS]
        if any(slots[slot] is not None for slot in node.ahead):  # the next element, or the one after it, was faster
            waiting.take(node.pending, partial)
    for partial, bound in plain.binding(machine, waiting, node, event):
        if bound is not None:
            collect(machine, waiting, node, partial, bound)
        elif machine.sequence:
            waiting.take(node.pending, partial)
        if node.asks:
            plain.answer(machine, waiting, node, partial)


def collect(machine: Machine, waiting: Waiting, node: Node, partial: Partial, bound: Event) -> None:
    slots, slot = partial[SLOTS], node.slot
    if slots[slot] is None:
        slots[slot] = [bound]
    else:
        slots[slot].append(bound)
    partial[TS] = bound.ts
    if not collected(machine, waiting, node, partial, len(slots[slot])):
        waiting.take(node.pending, partial)
    waiting.changed(partial)


def collected(machine: Machine, waiting: Waiting, node: Node, partial: Partial, count: int) -> bool:
    """What follows from the count; whether the match goes on collecting."""
    if count < node.minimum:
        return True
    if machine.sequence:
        if node.next is not None:
            node.next.rules.enter(machine, waiting, node.next, partial)
        if count != node.maximum:
            plain.admit(machine, waiting, node, partial)
    elif count == node.minimum:
        if node.last:
            machine.done.append(partial)
        reached(machine, waiting, node, partial)
        if node.last:
            return False
    return count != node.maximum


def update(machine: Machine, waiting: Waiting, node: Node) -> None:
    over = node.flag("over")
    if waiting.flags.get(over):
        waiting.flags.pop(over)
        plain.begin(machine, waiting, node)
    waiting.move(node.slot)


COUNT = Rules(enter, rearm, offer, plain.reset, update)
