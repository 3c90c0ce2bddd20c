"""`session(gap [, key])` in a partition: each key of it, a *home*, has sessions and timers of its own (semantics/windows.md#session).

On rows the timers of a home are a FIFO, in which one that is due later holds up those that were set after it: a session ends with the first timer that is
not before its end. `t_…` are the chains of those that make a difference, which ascend. All homes share one heap: a session is looked at when its end has
come, and once more at the first timer of its home behind that, if none was due then. `fired` is the clock at which a timer fired last since the last
event of a home: one that was due already when it was set fires at the clock of the arrival that set it, and ends all sessions that are over by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow.compute as pc

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.homes import Homes
from nadi.kernel.columns.keytable import BETWEEN, texts_of
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.columns.windows.contract import Holding
from nadi.kernel.columns.windows.sessions import SESSION, Sessions
from nadi.kernel.columns.windows.watches import LINES, NAMES, watches
from nadi.lang.tree import Type
from nadi.plan.nodes import WindowCall


class KeyedSessions(Sessions):
    """See the module's text. A *unit* is a key of the window in a home; without a key in the window it is the home."""

    calls: Mapping[str, object] = LINES
    _held: Mapping[str, str] = SESSION
    _flags: tuple[str, ...] = ("active",)

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        self._home_by = -1 if given.key is None else given.key
        self._home_type = Type.STRING if given.key is None else given.types[given.key]
        super().__init__(window, given, holding)
        self._entering = (f"t_g = {self._home('w_homes[i]')}", f"fired[t_g] = {LONG_MIN}")
        self._watching = tuple(self._watch("end[p]", "session[p]"))

    def _made_keys(self, given: Input) -> Groups:
        self._keyed = given.key is not None
        self._apart = self._keyed and bool(self._by)  # units and homes are not the same
        by = (self._home_by, *self._by) if self._keyed else self._by
        kinds = (self._home_type, Type.STRING) if self._keyed else (Type.STRING,)
        return Groups(self._element, by, kinds[: len(by)], self._held, given.sharded, parts=self._apart)

    def _made_timers(self, given: Input) -> None:
        self._homes = Homes(self._keys, self._home_by, self._home_type, given.sharded)
        alone = Groups(self._element, (), (), {})
        self._waiting = self._homes.groups if self._apart else self._keys if self._keyed else alone
        self._timers = Chains(self._element, {"ts": "int64"}, self._waiting, mark="t_", letter="t")

    def _home(self, apart: str) -> str:
        """The text of the home of unit `p`, `apart` where homes are others than units."""
        return apart if self._apart else "p" if self._keyed else "0"

    @property
    def _told(self) -> str:
        """The text that notes that a home has other timers."""
        return f"{'w_touched' if self._waiting is self._keys else 'homes_touched'}[t_g] = True"

    def _watch(self, due: str, session: str) -> Iterator[str]:
        """The lines that set a timer for the end of a session of unit `p`."""
        yield f"push_watch(watch, watch_end, watch_rank, watch_key, watch_size, {due}, {due}, {session}, p)"
        yield f"if t_count[t_g] == 0 or t_h_ts[t_last[t_g]] < {due}:"
        for text in (*self._timers.append, f"t_h_ts[t_j] = {due}", self._told):
            yield f"    {text}"

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._homes.clear()
        self._waiting.clear()
        self._events.clear()
        self._timers.clear()
        self._heap = watches(_NONE, _NONE, _NONE, _NONE, 1)
        self._next = np.zeros(1, np.int64)
        self._fired = np.zeros(1, np.int64)
        self._loaded = False

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets."""
        own = {**self._events.parameters, **self._timers.parameters, "w_next": "int64[]", "w_origin": "const int64[]"}
        own |= dict.fromkeys((*NAMES, "fired"), "int64[]") | {name: f"{dtype}[]" for name, dtype in self._held.items()}
        own |= {"w_touched": "bool[]", "homes_touched": "bool[]"}
        own |= {"w_keys": "const int32[]"} if self._keys.grouped else {}
        return own | ({"w_homes": "const int32[]", "home": "int64[]"} if self._apart else {})

    @property
    def before(self) -> tuple[str, ...]:
        """Lines before the loop."""
        return (*self._events.before, *self._timers.before, "w_opened = -1", f"w_clock = {LONG_MIN}")

    @property
    def after(self) -> tuple[str, ...]:
        """Lines behind it."""
        return (*self._events.after, *self._timers.after)

    def _fire(self, write: Writer, limit: str, taken: Callable[[], None]) -> None:
        """The lines for the timers that are due up to a time."""
        line = write.line
        line(f"while watch_size[0] > 0 and watch[0] <= {limit}:")
        with write.indented():
            self._look(write)
            line("w_over = p >= 0 and active[p] and end[p] == w_end and session[p] == w_session")
            self._wait(write, "w_over")
            self._leave(write, "w_over", taken)
            line("if w_over:")
            line("    active[p] = False")
            line("    w_touched[p] = True")

    def _look(self, write: Writer) -> None:
        """The lines that take the next session to be looked at, or a timer that was told and stands for its home alone, and the timers that fire."""
        line = write.line
        line("w_due, w_end, w_session, p = watch[0], watch_end[0], watch_rank[0], watch_key[0]")
        line("pop_watch(watch, watch_end, watch_rank, watch_key, watch_size)")
        line(f"t_g = -1 - p if p < 0 else {self._home('home[p]')}")
        line("while t_count[t_g] > 0 and t_h_ts[t_first[t_g]] <= w_due:")
        for text in (*self._timers.take, "fired[t_g] = max(fired[t_g], t_h_ts[t_j], w_clock)", self._told):
            line(f"    {text}")

    def _wait(self, write: Writer, *over: str) -> None:
        """The lines for a session that is over, if none of the timers was one for its end: it waits for the next one."""
        line = write.line
        line(f"if ({' or '.join(over)}) and fired[t_g] < w_end:")
        for name in over:
            line(f"    {name} = False")
        line("    if t_count[t_g] > 0:")
        later = "t_h_ts[t_first[t_g]], w_end, w_session, p"
        line(f"        push_watch(watch, watch_end, watch_rank, watch_key, watch_size, {later})")

    # ---- a batch

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch."""
        n, keys = len(stretch), self._keys
        own: dict[str, Array | int] = {}
        if self._apart:
            units = self._numbers(stretch)
            own |= {"w_keys": units, "w_homes": self._homes.numbers(stretch, units)}
        elif self._keyed:
            own["w_keys"] = keys.numbers(stretch)
        elif self._by:
            own["w_keys"] = super()._numbers(stretch)
        if self._loaded:
            self._put_together()
        watched, timers = self._room(n)
        self._events.room(n)
        self._timers.room(timers)
        self._fired = _longer(self._fired, self._waiting.room)
        if self._loaded or self._heap[4][0] + watched > len(self._heap[0]):
            self._wake(watched)
            self._loaded = False
        own |= {**self._events.own, **self._timers.own, "w_next": self._next, "w_touched": keys.touched, **keys.arrays}
        own |= {"home": self._homes.of, "homes_touched": self._waiting.touched, "fired": self._fired}
        own |= dict(zip(NAMES, self._heap, strict=True))
        return own | {"w_origin": stretch.chunk if stretch.origin is None else stretch.origin}

    def _room(self, more: int) -> tuple[int, int]:
        """How many sessions may have to be looked at, and how many timers be set, with so many events more."""
        return more, more

    def _put_together(self) -> None:
        """What follows from what was loaded: the number of the next session, homes."""
        arrays = self._keys.arrays
        self._next[0] = max(int(self._next[0]), int(arrays["session"].max()) + 1)
        if self._apart:
            self._homes.find(np.flatnonzero(self._active()))

    def _numbers(self, stretch: Stretch) -> Array:
        """The unit of each event; no key is null."""
        homes = texts_of((stretch.columns[self._home_by],), (self._home_type,))
        keys = pc.binary_join_element_wise("=", stretch.columns[self._by[0]].array(), "").fill_null("")
        found = self._keys.number(pc.binary_join_element_wise(homes, keys, BETWEEN))
        self._keys.arrays["prefix"][found] = pc.binary_length(homes).to_numpy()
        return found

    def _wake(self, more: int) -> None:
        """The heap of the ends of all sessions and of the timers that are left, with room for more."""
        places, homes = self._timers.places()
        timers = self._timers.arrays["ts"][places]
        parts = [*self._ends(), (timers, np.full(len(timers), -1), -1 - homes.astype(np.int64))]
        times, ranks, keys = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self._heap = watches(times, times, ranks, keys, 2 * (len(times) + more) + 1024)

    def _ends(self) -> Iterator[tuple[Array, Array, Array]]:
        """When sessions are looked at, their numbers and units."""
        arrays = self._keys.arrays
        held = np.flatnonzero(arrays["active"])
        yield arrays["end"][held], arrays["session"][held], held

    def sweep(self) -> None:
        """Forget units that have no session, and homes that have no timer."""
        if self._keys.may_sweep:
            waiting = self._timers.held_keys() if self._waiting is self._keys else _NONE
            self._keys.sweep(waiting, self._flags)
        if self._apart and self._waiting.may_sweep:
            self._waiting.sweep(self._timers.held_keys())

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, timers, sessions."""
        yield from self._events.changes()
        yield from self._timers.changes()
        self._settle()
        yield from self._keys.changes()

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, timers and sessions."""
        yield from self._events.contents(sharded)
        yield from self._timers.contents(sharded)
        self._settle()
        yield from self._keys.contents()

    def _settle(self) -> None:
        if self._waiting is not self._keys:
            self._waiting.touched[:] = False

    def apply(self, block: Block) -> None:
        """Put back what was told."""
        part: Chains | Groups = self._keys if block.letter == "g" else self._events
        part = self._timers if block.letter == "t" else part
        part.apply(block)
        self._loaded = True


def _longer(array: Longs, room: int) -> Longs:
    """With room for so many; what is new is less than any time."""
    if room <= len(array):
        return array
    made = np.full(room, LONG_MIN, np.int64)
    made[: len(array)] = array
    return made


_NONE = np.zeros(0, np.int64)
