"""A window alone: what goes in at which clock, and what comes out, without engine and plan."""

from __future__ import annotations

from nadi.kernel.rows.events import CURRENT, EXPIRED, RESET, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.windows import make_window
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Column, Const, Expr, Schema, WindowCall
from nadi.plan.windowtraits import OF_BATCH

SCHEMA = Schema((Column("v", Type.INT), Column("at", Type.LONG), Column("key", Type.STRING)))
LETTERS = {CURRENT: "C", EXPIRED: "X", RESET: "R"}


def attr(name: str) -> Attr:
    position = SCHEMA.position(name)
    assert position is not None
    return Attr(0, position, SCHEMA.columns[position].type, None, name)


def argument(value: object) -> Expr:
    """A constant; names of columns stand for attributes."""
    if isinstance(value, str) and SCHEMA.position(value) is not None:
        return attr(value)
    kinds = {bool: Type.BOOL, int: Type.LONG, float: Type.DOUBLE, str: Type.STRING}
    return Const(value, kinds[type(value)])  # type: ignore[arg-type]


class Rig:
    """One window on a playback clock (`live=True`: timers at their due times)."""

    def __init__(
        self,
        name: str,
        *args: object,
        keeps: bool = True,
        searched: bool = False,
        live: bool = False,
        compat: int = 5,
        shown: tuple[Expr, ...] | None = None,
    ) -> None:
        self.flow = Flow(lambda key: 0, playback=not live, compat=compat)
        self.live = live
        self.out: list[tuple[int, str]] = []
        call = WindowCall("q/window", name, tuple(argument(a) for a in args), OF_BATCH)  # rows do not look at traits
        self.window = make_window(call, self.flow, self._emit, SCHEMA, keeps, searched, {}, shown)

    def _emit(self, chunk: Chunk) -> None:
        self.out.append((self.flow.now, shown(chunk)))

    def clock(self, now: int) -> None:
        if self.live:
            self.flow.timers.run_until(now)
        else:
            self.flow.timers.jump_to(now)

    def send(self, ts: int, *values: int, at: int = 0, key: str = "") -> None:
        """Events of one chunk, after the clock has come to `ts`."""
        self.clock(ts)
        self.window.process([Event(CURRENT, ts, (v, at, key)) for v in values])

    def take(self) -> list[str]:
        """The chunks since the last call, as text: `C1@5` is value 1 with timestamp 5."""
        out, self.out = self.out, []
        return [text for _now, text in out]

    def content(self) -> list[int]:
        return [int(str(e.row[0])) for e in self.window.content()]

    def reload(self) -> Rig:
        """Go on with what a dump brings back."""
        segments = list(self.flow.store.dump())
        self.flow.store.load(segments)
        self.flow.timers.rebuild()
        return self


def shown(chunk: Chunk) -> str:
    return " ".join(LETTERS[kind] + (f"{row[0]}@{ts}" if row else "") for kind, ts, row in chunk)
