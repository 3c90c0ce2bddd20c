"""`session(gap [, key])`: the events of a key that follow each other within a gap (semantics/windows.md#session).

They pass at once, and leave together at the end.

A session ends when a timer fires at its end or later, or before an event that lies behind it. On rows timers are a FIFO, in which one that is due later holds
up those that were set after it: `pending` has those that make a difference, which ascend. Ends lie in a heap, in which those that have moved on mean
nothing any more. Nobody sees events leave, so that timers are played before the next event; what was due already when it was set fires behind its arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow.compute as pc

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.bounds import check_numbers
from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.heaps import LINES, NAMES, heap
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.kernel.columns.windows.contract import Holding
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Const, WindowCall

SESSION = {"start": "int64", "end": "int64", "session": "int64", "active": "bool"}
"""What is held of the session of a key."""


class Sessions:
    """See the module's text. By key `active` tells whether there is a session, `start` and `end` when, `session` its number."""

    passing = False
    calls: Mapping[str, object] = LINES
    _entering: tuple[str, ...] = ()
    _watching: tuple[str, ...] = (
        "push(due, due_rank, due_key, due_size, end[p], session[p], p)",
        "if head == tail or pending[(tail - 1) & mask] < end[p]:",
        "    pending[tail & mask] = end[p]",
        "    tail += 1",
    )

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        first = window.args[0]
        assert isinstance(first, Const)  # as islands says
        assert isinstance(first.value, int)
        self._gap: int = first.value
        self._element = window.id
        self._by = tuple(a.position for a in window.args if isinstance(a, Attr))
        self._keys = self._made_keys(given)
        self._events = self._made_events(holding)
        self._made_timers(given)
        self.names = frozenset(holding.columns)
        self.clear()

    def _made_keys(self, given: Input) -> Groups:
        return Groups(self._element, self._by, (Type.STRING,) * len(self._by), SESSION)

    def _made_events(self, holding: Holding) -> Chains:
        return Chains(self._element, holding.columns, self._keys, holding.groups, holding.named, fronts=True)

    def _made_timers(self, given: Input) -> None:
        self._pending = Ring(self._element, {"ts": "int64"}, Groups(self._element, (), (), {}))

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._events.clear()
        self._pending.clear()
        self._heap = heap(_NONE, _NONE, _NONE, 1)
        self._next = np.zeros(1, np.int64)
        self._loaded = False

    def __len__(self) -> int:
        return len(self._events)

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets."""
        events = self._events.parameters
        own = {**events, "ends": "int64[]", "pending": "int64[]", "w_next": "int64[]", "w_origin": "const int64[]"}
        own |= dict.fromkeys((*NAMES, "start", "end", "session"), "int64[]") | {
            "active": "bool[]",
            "w_touched": "bool[]",
        }
        return own | ({"w_keys": "const int32[]"} if self._keys.grouped else {})

    @property
    def before(self) -> tuple[str, ...]:
        """Lines before the loop."""
        return (
            *self._events.before,
            *self._pending.before,
            "w_opened = -1",
            f"w_clock = {LONG_MIN}",
        )

    @property
    def after(self) -> tuple[str, ...]:
        """Lines behind it."""
        return (*self._events.after, *self._pending.after)

    def write(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines for an event that comes."""
        self._enter(write, taken)
        line, gap = write.line, write.number(self._gap)
        line("w_ts = int(ts[i])")
        line("w_front = False")
        line("if active[p] and w_ts < start[p]:")
        line(f"    if w_ts < start[p] - {gap}: continue")
        line("    w_front = True")
        line("w_over = active[p] and w_ts > end[p]")
        self._leave(write, "w_over", taken)
        line("w_touched[p] = True")
        line("if w_front:")
        line("    start[p] = w_ts")
        for text in self._events.prepend:
            line(f"    {text}")
        line("else:")
        with write.indented():
            line("w_opens = not active[p] or w_over")
            line("if w_opens:")
            line("    active[p] = True")
            line("    start[p] = w_ts")
            line("    session[p] = w_next[0]")
            line("    w_next[0] += 1")
            line(f"if w_opens or end[p] != w_ts + {gap}:")
            line(f"    end[p] = w_ts + {gap}")
            for text in self._watching:
                line(f"    {text}")
            for text in self._events.append:
                line(text)

    def _enter(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines that play the timers and find the key of an event."""
        line = write.line
        line("if w_origin[i] != w_opened:")
        with write.indented():
            line("w_opened = w_origin[i]")
            self._fire(write, "now[i]", taken)
        line("w_clock = now[i]")
        line("p = w_keys[i]" if self._keys.grouped else "p = 0")
        for text in self._entering:
            line(text)

    def write_end(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines behind the last event."""
        self._fire(write, "w_clock", taken)

    def _fire(self, write: Writer, limit: str, taken: Callable[[], None]) -> None:
        """The lines for the timers that are due up to a time."""
        line = write.line
        # Where no timer fires, no session ends: the end of one may have moved back behind a timer that has fired before.
        line(f"w_fire = {LONG_MIN}")
        line(f"while head < tail and pending[head & mask] <= {limit}:")
        line("    w_fire = pending[head & mask] if pending[head & mask] > w_clock else w_clock")
        line("    head += 1")
        line("while due_size[0] > 0 and due[0] <= w_fire:")
        with write.indented():
            line("p = due_key[0]")
            line("w_over = active[p] and end[p] == due[0] and session[p] == due_rank[0]")
            line("pop(due, due_rank, due_key, due_size)")
            self._leave(write, "w_over", taken)
            line("if w_over:")
            line("    active[p] = False")
            line("    w_touched[p] = True")

    def _leave(self, write: Writer, test: str, taken: Callable[[], None]) -> None:
        write.line(f"while {test} and {self._events.any_left}:")
        with write.indented():
            for text in self._events.take:
                write.line(text)
            taken()

    # ---- a batch

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch."""
        n, own = len(stretch), dict[str, Array | int]()
        if self._by:
            own["w_keys"] = self._numbers(stretch)
        self._events.room(n)
        self._pending.room(n)
        keys = self._keys
        if self._loaded:
            self._next[0] = max(int(self._next[0]), int(keys.arrays["session"].max()) + 1)
        if self._loaded or self._heap[3][0] + n > len(self._heap[0]):
            held = np.flatnonzero(keys.arrays["active"])
            room = 2 * (len(held) + n) + 1024
            self._heap = heap(keys.arrays["end"][held], keys.arrays["session"][held], held, room)
            self._loaded = False
        own |= {**self._events.own, "ends": self._pending.ends, "pending": self._pending.arrays["ts"]}
        own |= {"w_next": self._next, "w_touched": keys.touched, **keys.arrays}
        own |= dict(zip(NAMES, self._heap, strict=True))
        return own | {"w_origin": stretch.chunk if stretch.origin is None else stretch.origin}

    def _numbers(self, stretch: Stretch) -> Array:
        """The key of each event; null is one, and none that a string can be."""
        array = stretch.columns[self._by[0]].array()
        return self._keys.number(pc.binary_join_element_wise("=", array, "").fill_null(""))

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        return self._events.held_groups()

    def sweep(self) -> None:
        """Forget keys that have no session."""
        if self._keys.may_sweep:
            self._keys.sweep(_NONE, ("active",))

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, timers, sessions."""
        yield from self._events.changes()
        yield from self._pending.changes()
        yield from self._keys.changes()

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, timers and sessions."""
        yield from self._events.contents(sharded)
        yield from self._pending.contents(False)
        yield from self._keys.contents()

    def apply(self, block: Block) -> None:
        """Put back what was told."""
        part: Chains | Ring | Groups = self._keys if block.letter == "g" else self._events
        part = self._pending if block.letter == "q" else part
        part.apply(block)
        self._loaded = True

    def check(self) -> None:
        """Keys that have a session hold events, others none. Raises ValueError where that is not so."""
        held = np.zeros(self._keys.room, np.bool_)
        held[self._events.held_keys()] = True
        if (held != self._active()).any():
            raise ValueError("a session has no events, or events have no session")
        self._check_numbers("session")

    def _active(self) -> Array:
        """Whether a key has a session."""
        return self._keys.arrays["active"]

    def _check_numbers(self, name: str) -> None:
        check_numbers(self._keys.arrays[name], "the number of a session")


_NONE = np.zeros(0, np.int64)
