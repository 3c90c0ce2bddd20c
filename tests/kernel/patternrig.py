"""A pattern or sequence on a virtual clock, written with a few words: what the tests of patterns and sequences drive."""

from __future__ import annotations

from nadi.kernel.rows.events import CURRENT, Event, Group
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.patterns import ChainRuntime, StateRuntime, state_runtime
from nadi.lang.tree import Type
from nadi.plan import nodes

SCHEMA = nodes.Schema((nodes.Column("v", Type.INT),))


def v(slot: int, index: int | None = None) -> nodes.Attr:
    """The value of element `slot`."""
    return nodes.Attr(slot, 0, Type.INT, index, "v")


def compare(left: nodes.Expr, op: str, right: nodes.Expr) -> nodes.Comparison:
    return nodes.Comparison(op, left, right, Type.INT)


def const(value: int) -> nodes.Const:
    return nodes.Const(value, Type.INT)


def one(slot: int, source: str, *conditions: nodes.Expr) -> nodes.StreamElement:
    return nodes.StreamElement(slot, source, tuple(nodes.FilterStep(c) for c in conditions), f"e{slot + 1}")


def many(element: nodes.StreamElement, minimum: int, maximum: int | None) -> nodes.CountElement:
    return nodes.CountElement(element, minimum, maximum)


def absent(slot: int, source: str, *conditions: nodes.Expr, t: int | None = None) -> nodes.AbsentElement:
    return nodes.AbsentElement(one(slot, source, *conditions), t)


def both(
    left: nodes.StreamElement | nodes.AbsentElement, right: nodes.StreamElement | nodes.AbsentElement
) -> nodes.LogicalElement:
    return nodes.LogicalElement("and", left, right)


def either(
    left: nodes.StreamElement | nodes.AbsentElement, right: nodes.StreamElement | nodes.AbsentElement
) -> nodes.LogicalElement:
    return nodes.LogicalElement("or", left, right)


def every(*elements: nodes.StateElement) -> nodes.EveryElement:
    return nodes.EveryElement(elements[0] if len(elements) == 1 else nodes.NextElement(elements))


class Rig:
    """Runs one pattern. `send` takes words such as "A1 B10": stream and value, one event each, 10 ms apart.

    Patterns that are chains run as such, unless `general` asks for the machine that runs everything.

    `seen` holds the groups as they were delivered: lists of matches, each "1 10" (values by slot, "1,2" for several, "-" for none).
    """

    def __init__(
        self,
        *elements: nodes.StateElement,
        sequence: bool = False,
        within: int | None = None,
        compat: int = 5,
        playback: bool = False,
        step: int = 10,
        general: bool = False,
    ) -> None:
        root = elements[0] if len(elements) == 1 else nodes.NextElement(elements)
        slots = _slots(root)
        plan = nodes.StateInput("q/state", sequence, root, (SCHEMA,) * slots, (False,) * slots, within)
        self.flow = Flow(lambda key: 0, playback=playback, compat=compat)
        self.seen: list[list[str]] = []
        self.times: list[int] = []
        self.step = step
        make = StateRuntime if general else state_runtime
        self.runtime: ChainRuntime | StateRuntime = make(plan, self.flow, {}, None, self._take)  # type: ignore[arg-type]  # no stream functions here
        self.runtime.begin()

    def _take(self, group: Group) -> None:
        self.seen.append([" ".join(_values(chunk[0])) for chunk in group])
        self.times.extend(chunk[0].ts for chunk in group)
        assert all(len(chunk) == 1 and chunk[0].kind == CURRENT for chunk in group)

    def send(self, words: str, key: str = "") -> list[str]:
        """Returns what came of these events."""
        before = len(self.seen)
        for word in words.split():
            self.until(self.flow.now + self.step)
            self.at(self.flow.now, word, key=key)
        return [match for group in self.seen[before:] for match in group]

    def at(self, ts: int, *words: str, key: str = "") -> None:
        """Events in one chunk, all with this timestamp; the clock is not moved. A stream that the pattern does not read is let by."""
        if words[0][0] not in self.runtime.sources:
            return
        self.flow.key = key
        self.runtime.begin()
        self.runtime.receive(words[0][0], [Event(CURRENT, ts, (int(w[1:] or 0),)) for w in words])
        self.flow.key = ""

    def until(self, time: int) -> list[str]:
        """Moves the clock; returns what came of it."""
        before = len(self.seen)
        if self.flow.playback:
            self.flow.timers.jump_to(time)
        else:
            self.flow.timers.run_until(time)
        return [match for group in self.seen[before:] for match in group]

    @property
    def waiting(self) -> int:
        """How many partial matches are kept, over all keys."""
        state = self.runtime._state
        if isinstance(self.runtime, ChainRuntime):
            cells = [state.at(key)["matches"] for key in state.flow_keys()]
            return sum(len(cell) + cell.starts for cell in cells)
        return sum(len(state.at(key)["partials"]) for key in state.flow_keys())

    def move_to(self, other: Rig) -> None:
        """Hands the state over by dump and load, and what was seen as well."""
        other.flow.store.load(list(self.flow.store.dump()))
        other.take_over(self)

    def take_over(self, before: Rig) -> None:
        self.flow.now = before.flow.now
        self.flow.timers.rebuild()
        self.seen, self.times = list(before.seen), list(before.times)


def _slots(element: object) -> int:
    if isinstance(element, nodes.StreamElement):
        return 1
    return sum(
        sum(_slots(p) for p in part) if isinstance(part, tuple) else _slots(part)
        for name in ("element", "elements", "left", "right")
        if (part := getattr(element, name, None)) is not None
    )


def _values(event: Event) -> list[str]:
    return ["-" if not bound else ",".join(str(e.row[0]) for e in bound) for bound in event.row]  # type: ignore[attr-defined, union-attr]
