"""A pattern or sequence of a query at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nadi.kernel.rows.events import RESET, Chunk, Group
from nadi.kernel.rows.patterns.absence import ABSENT, ABSENT_OPERAND, begin_waiting
from nadi.kernel.rows.patterns.conditions import make_conditions
from nadi.kernel.rows.patterns.counted import COUNT
from nadi.kernel.rows.patterns.elements import Layout, Node, Rules, in_turn, lay_out
from nadi.kernel.rows.patterns.logical import LOGICAL
from nadi.kernel.rows.patterns.machine import ONE, Machine, begin, ready_pattern, ready_sequence, results
from nadi.kernel.rows.patterns.partials import CELLS, Waiting
from nadi.plan.nodes import StateInput

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable
    from nadi.kernel.rows.flow import Flow

RULES: Mapping[str, Rules] = {
    "one": ONE,
    "count": COUNT,
    "logical": LOGICAL,
    "absent": ABSENT,
    "absent logical": ABSENT_OPERAND,
}
_BEGUN = "begun"


class StateRuntime:
    """Takes the events of the streams that a pattern or sequence reads; completed matches go to `emit`.

    `emit` gets groups: each chunk of a group is one match (an event whose row is the tuple of slots, each a list of events or None), the matches of
    a group are delivered together.
    """

    def __init__(
        self,
        plan: StateInput,
        flow: Flow,
        tables: Mapping[str, Searchable],
        registry: Registry,
        emit: Callable[[Group], None],
    ) -> None:
        self._flow = flow
        self._emit = emit
        layout = lay_out(plan)
        self._machine = _machine(plan, layout, flow)
        self._ready = ready_sequence if plan.sequence else ready_pattern
        self._elements = len(plan.schemas)
        self._state = flow.store.element(plan.id, CELLS)
        self._live: dict[str, Waiting] = {}
        self._sweep_at = 64
        self._start = _plain_start(plan, layout)
        self._readers = _readers(layout)
        for node in layout.nodes:
            node.rules = RULES[node.kind]
            node.conditions = make_conditions(
                node.steps, node.slot, node.kind == "count", self._elements, flow, tables, registry
            )
            readers = self._readers[node.source][0]
            node.heard = len(readers) == 1 or readers[-1].last

        for node in in_turn(layout.nodes):
            if node.waiting is not None:
                node.timer = flow.timers.timer(f"{plan.id}/{node.slot}", self._waking(node))

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams that are read, each once."""
        return tuple(self._readers)

    def begin(self) -> None:
        """Start counting under the current flow key: the first element may match, leading absences begin to wait. Once per key; more calls do nothing."""
        self._waiting()

    def receive(self, source: str, chunk: Chunk) -> None:
        """A chunk of one of the streams. Each event is taken by itself; results are emitted after the whole chunk."""
        waiting = self._waiting()
        machine = self._machine
        machine.done = []  # an event that failed may have left something
        readers, offered = self._readers[source]
        alone = len(readers) == 1
        groups: list[Group] = []
        shown: dict[int, Chunk] = {}
        for event in chunk:
            if event.kind >= RESET:
                continue
            self._ready(machine, waiting, readers, event)
            for node in offered:
                if not waiting.lists[node.pending]:
                    continue
                node.rules.offer(machine, waiting, node, event)
                if machine.done and not alone:
                    groups.append(results(machine, machine.done, shown))
                    machine.done = []
        if alone:  # what a match holds after the whole chunk
            groups = [[match] for match in results(machine, machine.done, shown)]
        for group in groups:
            if group:
                self._emit(group)

    def _waiting(self) -> Waiting:
        """The matches of the current flow key, begun if they were not."""
        key = self._flow.key
        cells = self._state.at(key)
        found = self._live.get(key)
        if found is None or found.cells is not cells:
            found = self._view(key)
            if not found.flags.get(_BEGUN):
                found.flags.set(_BEGUN, True)
                self._begin(found)
        return found

    def _view(self, key: str) -> Waiting:
        live = self._live
        if len(live) >= self._sweep_at:  # views of keys that were dropped are of no use
            known = self._state.flow_keys()
            for gone in [k for k in live if k not in known]:
                del live[gone]
            self._sweep_at = 2 * len(live) + 64
        found = live[key] = Waiting(self._state.at(key), self._elements, self._start)
        return found

    def _begin(self, waiting: Waiting) -> None:
        for node in self._machine.layout.nodes:
            begin(self._machine, waiting, node)
        for node in reversed(self._machine.layout.nodes):
            begin_waiting(self._machine, waiting, node)

    def _waking(self, node: Node) -> Callable[[int], None]:
        def woken(due: int) -> None:
            machine = self._machine
            machine.done = []
            assert node.rules.fire is not None  # only elements with a waiting time have timers
            node.rules.fire(machine, self._waiting(), node, due)
            for match in results(machine, machine.done, {}):
                self._emit([match])

        return woken


def _machine(plan: StateInput, layout: Layout, flow: Flow) -> Machine:
    absent = tuple(n.slot for n in layout.nodes if n.kind.startswith("absent"))
    starts = tuple(n.slot for n in layout.nodes if n.start)
    plain = _plain_start(plan, layout)
    aging = tuple(n for n in layout.nodes if plain is None or n.slot != plain)
    return Machine(layout, plan.sequence, plan.within, flow, absent, starts, aging, plain, flow.compat == 4)


def _plain_start(plan: StateInput, layout: Layout) -> int | None:
    """The slot from which `within` counts, where matches bind it once and for all before they go on."""
    starts = [n for n in layout.nodes if n.start]
    plain = plan.within is not None and len(starts) == 1 and starts[0].kind == "one"
    return starts[0].slot if plain else None


def _readers(layout: Layout) -> dict[str, tuple[tuple[Node, ...], tuple[Node, ...]]]:
    """By stream the elements that read it: in order, and in the opposite one, in which events are offered."""
    found: dict[str, list[Node]] = {}
    for node in layout.nodes:
        found.setdefault(node.source, []).append(node)
    return {source: (tuple(nodes), tuple(reversed(nodes))) for source, nodes in found.items()}
