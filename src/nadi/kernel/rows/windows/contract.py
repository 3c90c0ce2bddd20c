"""What every window is made from, and what every window can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nadi.kernel.rows.compile import Searchable, compile_row
from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Cell, Element
from nadi.plan.nodes import Attr, Const, Expr, Schema, WindowCall

Held = tuple[int, Row]
"""An event as windows keep it in cells: timestamp (ms) and row."""


class WindowProcessor(Protocol):
    """A window. All three look at the state of `flow.key`."""

    def process(self, chunk: Chunk) -> None:
        """Take C events; other kinds are passed over. What comes out goes to `emit`, a chunk at a time."""
        ...

    def content(self) -> Iterable[Event]:
        """What joins and `in` find: the current content, of batch windows the last batch that was emitted."""
        ...

    def begin(self) -> None:
        """Called once per flow key, before its first event."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What a window is made from.

    `keeps_expired`: the query's output wants X events. `searched`: a join or `in` looks into the window. Batch windows keep the
    previous batch only for one of them. `shown`: the values that the query of the window puts out; None of a window that is no query's alone.
    """

    call: WindowCall
    flow: Flow
    emit: Callable[[Chunk], None]
    schema: Schema
    keeps_expired: bool
    searched: bool
    tables: Mapping[str, Searchable]
    shown: tuple[Expr, ...] | None = None

    def element(self, **cells: type[Cell]) -> Element:
        """The window's state."""
        return self.flow.store.element(self.call.id, cells)

    def constant(self, index: int, default: Any = None) -> Any:
        """The constant at a place, `default` where there are fewer arguments."""
        if index >= len(self.call.args):
            return default
        argument = self.call.args[index]
        return argument.value if isinstance(argument, Const) else default

    def position(self, index: int) -> int | None:
        """Which column the attribute at a place is; None where there is no attribute."""
        if index >= len(self.call.args):
            return None
        argument = self.call.args[index]
        return argument.position if isinstance(argument, Attr) else None

    def value(self, index: int) -> Callable[[Row, int], Any]:
        """The argument at a place as a function of the row and its timestamp."""
        return compile_row(self.call.args[index], self.flow, self.tables)


def current(held: Held) -> Event:
    return Event(CURRENT, held[0], held[1])


def expired(held: Held, ts: int) -> Event:
    return Event(EXPIRED, ts, held[1])


def reset(ts: int) -> Event:
    return Event(RESET, ts, ())
