"""Patterns and sequences (semantics/patterns.md): elements numbered in textual order, filters that see each other's events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nadi.lang import tree
from nadi.plan.context import Context
from nadi.plan.inputs import Steps
from nadi.plan.nodes import (
    AbsentElement,
    CountElement,
    EveryElement,
    LogicalElement,
    NextElement,
    StateElement,
    StateInput,
    StreamElement,
)
from nadi.plan.scopes import Place, Scope

_NO_WINDOW = "elements of patterns and sequences read streams, they take no window"


def bind_state(context: Context, node: tree.StateInput, path: str) -> tuple[StateInput, Scope]:
    """The elements, and the scope of a selection over them (slot k is element k).

    Raises:
        INVALID_QUERY: absence, counts or `every` stand where they must not.
    """
    places = [_place(context, slot, leaf) for slot, leaf in enumerate(_leaves(node.state))]
    binder = _Binder(context, node, path, places)
    root = binder.bind(node.state, True)
    made = StateInput(
        f"{path}sequence" if node.kind == "sequence" else f"{path}pattern",
        node.kind == "sequence",
        root,
        tuple(p.schema for p in binder.places),
        tuple(p.counted for p in binder.places),
        node.within.milliseconds if node.within is not None else None,
    )
    return made, Scope((tuple(binder.places),), lists=True, indexed=True)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An element as written: what it reads, its reference, whether a count stands behind it."""

    input: tree.SingleInput
    reference: str | None
    counted: bool


def _leaves(state: tree.State, counted: bool = False) -> Iterator[_Leaf]:
    match state:
        case tree.StreamState(source, reference):
            yield _Leaf(source, reference, counted)
        case tree.AbsentState(source):
            yield _Leaf(source, None, False)
        case tree.CountState(inner):
            yield from _leaves(inner, True)
        case tree.LogicalState(_, left, right):
            yield from _leaves(left)
            yield from _leaves(right)
        case tree.EveryState(inner):
            yield from _leaves(inner)
        case tree.NextState(states):
            for s in states:
                yield from _leaves(s)


def _place(context: Context, slot: int, leaf: _Leaf) -> Place:
    source = leaf.input.source
    schema = context.schema_of(source)
    if context.key(source) in context.windows:
        raise context.fail("INVALID_QUERY", source.span, reason=f"'{source}' is a window: {_NO_WINDOW.split(',')[0]}")
    referred = leaf.reference is not None
    return Place(slot, (leaf.reference or str(source),), schema, leaf.counted, referred=referred)


@dataclass(slots=True)
class _Binder:
    context: Context
    node: tree.StateInput
    path: str
    places: list[Place]
    next_slot: int = field(default=0)

    @property
    def sequence(self) -> bool:
        return self.node.kind == "sequence"

    def bind(self, state: tree.State, first: bool) -> StateElement:
        """An element; `first` is whether nothing stands before it."""
        match state:
            case tree.StreamState():
                return self._stream(state.input, state.reference)
            case tree.CountState():
                return self._count(state)
            case tree.AbsentState():
                if state.waiting is None:
                    reason = "'not' without 'for' may only be an operand of 'and'"
                    raise self.context.fail("INVALID_QUERY", state.span, reason=reason)
                return self._absent(state)
            case tree.LogicalState():
                return self._logical(state)
            case tree.EveryState():
                if self.sequence and not first:
                    reason = "in a sequence 'every' stands only before the first element"
                    raise self.context.fail("INVALID_QUERY", state.span, reason=reason)
                return EveryElement(self.bind(state.state, first))
            case tree.NextState(states):
                return NextElement(tuple(self.bind(s, first and i == 0) for i, s in enumerate(states)))

    def _stream(self, node: tree.SingleInput, reference: str | None) -> StreamElement:
        slot = self.next_slot
        self.next_slot += 1
        own = replace(self.places[slot], own=True)
        others = tuple(p for p in self.places if p.slot != slot)
        steps = Steps(self.context, own, f"{self.path}e{slot}.", _NO_WINDOW, others)
        bound = steps.bind(node.handlers)
        self.places[slot] = replace(steps.place, own=False)
        return StreamElement(slot, self.context.key(node.source), bound, reference or "")

    def _count(self, state: tree.CountState) -> CountElement:
        if state.sign and not self.sequence:
            reason = f"'{state.sign}' counts elements of sequences; in a pattern write <m:n>"
            raise self.context.fail("INVALID_QUERY", state.span, reason=reason)
        if state.maximum is not None and state.maximum < max(state.minimum, 1):
            reason = f"a count of at least {state.minimum} and at most {state.maximum} cannot be met"
            raise self.context.fail("INVALID_QUERY", state.span, reason=reason)
        element = self._stream(state.state.input, state.state.reference)
        return CountElement(element, state.minimum, state.maximum)

    def _absent(self, state: tree.AbsentState) -> AbsentElement:
        waiting = state.waiting.milliseconds if state.waiting is not None else None
        return AbsentElement(self._stream(state.input, None), waiting)

    def _logical(self, state: tree.LogicalState) -> LogicalElement:
        for side in (state.left, state.right):
            if state.op == "or" and isinstance(side, tree.AbsentState) and side.waiting is None:
                reason = "'not' without 'for' may only be an operand of 'and', not of 'or'"
                raise self.context.fail("INVALID_QUERY", side.span, reason=reason)
        if all(isinstance(s, tree.AbsentState) and s.waiting is None for s in (state.left, state.right)):
            reason = "one operand of 'and' must be an event or have 'for' where the other is 'not' without it"
            raise self.context.fail("INVALID_QUERY", state.span, reason=reason)
        return LogicalElement(state.op, self._operand(state.left), self._operand(state.right))

    def _operand(self, state: tree.StreamState | tree.AbsentState) -> StreamElement | AbsentElement:
        if isinstance(state, tree.AbsentState):
            return self._absent(state)
        return self._stream(state.input, state.reference)
