"""What every stream processor is made from, and what it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nadi.kernel.rows.compile import Searchable, compile_row
from nadi.kernel.rows.events import Chunk, Row
from nadi.kernel.rows.flow import Flow, Timer, Woken
from nadi.kernel.rows.state import Cell, Element
from nadi.plan.nodes import Const, FunctionStep


class Processor(Protocol):
    """A stream processor, working on the state of `flow.key`."""

    def process(self, chunk: Chunk) -> None:
        """Take C and X events; R and T pass. What comes out goes to `emit`, a chunk at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What a stream processor is made from."""

    step: FunctionStep
    flow: Flow
    emit: Callable[[Chunk], None]
    tables: Mapping[str, Searchable]

    def element(self, **cells: type[Cell]) -> Element:
        """The processor's state."""
        return self.flow.store.element(self.step.id, cells)

    def timer(self, woken: Woken) -> Timer:
        """The processor's timer, on the app's clock."""
        return self.flow.timers.timer(self.step.id, woken)

    def value(self, index: int) -> Callable[[Row, int], Any]:
        """The argument at a place as a function of the row and its timestamp."""
        return compile_row(self.step.args[index], self.flow, self.tables)

    def constant(self, index: int, default: Any = None) -> Any:
        """The constant at a place, `default` where there are fewer arguments."""
        if index >= len(self.step.args):
            return default
        argument = self.step.args[index]
        return argument.value if isinstance(argument, Const) else default
