"""`session(gap [, key])` in a partition: each key of it, a *home*, has sessions and timers of its own (language text §6, §11).

On rows the timers of a home are a FIFO, in which one that is due later holds up those that were set after it: a session ends with the first timer that is
not before its end. `t_…` are the chains of those that make a difference, which ascend. All homes share one heap: a session is looked at when its end has
come, and once more at the first timer of its home behind that, if none was due then. `fired` is the last timer that fired since the last event of a home.
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
from nadi.plan.nodes import WindowCall


class KeyedSessions(Sessions):
    """See the module's text. A *unit* is a key of the window in a home; without a key in the window it is the home."""

    calls: Mapping[str, object] = LINES

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        assert given.key is not None  # as windows says
        self._home_by, self._home_type = given.key, given.types[given.key]
        super().__init__(window, given, holding)
        home = "t_g = w_homes[i]" if self._by else "t_g = p"
        self._entering = (home, f"fired[t_g] = {LONG_MIN}")
        self._watching = (
            "push_watch(watch, watch_end, watch_rank, watch_key, watch_size, end[p], end[p], session[p], p)",
            "if t_count[t_g] == 0 or t_h_ts[t_last[t_g]] < end[p]:",
            *(f"    {text}" for text in self._timers.append),
            "    t_h_ts[t_j] = end[p]",
            *(("    homes_touched[t_g] = True",) if self._by else ()),
        )

    def _made_keys(self, given: Input) -> Groups:
        assert given.key is not None
        if not self._by:
            return Groups(self._element, (given.key,), (self._home_type,), SESSION, given.sharded)
        by = (given.key, *self._by)
        return Groups(self._element, by, tuple(given.types[p] for p in by), SESSION, given.sharded, parts=True)

    def _made_timers(self, given: Input) -> None:
        self._homes = Homes(self._keys, self._home_by, self._home_type, given.sharded)
        homes = self._homes.groups if self._by else self._keys
        self._timers = Chains(self._element, {"ts": "int64"}, homes, mark="t_", letter="t")

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._homes.clear()
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
        own |= dict.fromkeys((*NAMES, "start", "end", "session", "fired"), "int64[]")
        own |= {"active": "bool[]", "w_touched": "bool[]", "w_keys": "const int32[]"}
        return own | ({"w_homes": "const int32[]", "home": "int64[]", "homes_touched": "bool[]"} if self._by else {})

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
            line("w_due, w_end, w_session, p = watch[0], watch_end[0], watch_rank[0], watch_key[0]")
            line("pop_watch(watch, watch_end, watch_rank, watch_key, watch_size)")
            # a timer that was told, and not what it was set for, stands for its home alone
            line(f"t_g = -1 - p if p < 0 else {'home[p]' if self._by else 'p'}")
            line("while t_count[t_g] > 0 and t_h_ts[t_first[t_g]] <= w_due:")
            for text in (*self._timers.take, "fired[t_g] = t_h_ts[t_j]"):
                line(f"    {text}")
            line(f"    {'homes_touched' if self._by else 'w_touched'}[t_g] = True")
            line("w_over = p >= 0 and active[p] and end[p] == w_end and session[p] == w_session")
            line("if w_over and fired[t_g] < w_end:")
            line("    w_over = False")
            line("    if t_count[t_g] > 0:")
            later = "t_h_ts[t_first[t_g]], w_end, w_session, p"
            line(f"        push_watch(watch, watch_end, watch_rank, watch_key, watch_size, {later})")
            self._leave(write, "w_over", taken)
            line("if w_over:")
            line("    active[p] = False")
            line("    w_touched[p] = True")

    # ---- a batch

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch."""
        n, own, keys = len(stretch), dict[str, Array | int](), self._keys
        if self._by:
            units = self._numbers(stretch)
            own |= {"w_homes": self._homes.numbers(stretch, units), "home": self._homes.of}
            own["homes_touched"] = self._homes.groups.touched
        else:
            units = keys.numbers(stretch)
        own["w_keys"] = units
        if self._loaded:
            self._next[0] = max(int(self._next[0]), int(keys.arrays["session"].max()) + 1)
            if self._by:
                self._homes.find(np.flatnonzero(keys.arrays["active"]))
                own |= {"home": self._homes.of, "homes_touched": self._homes.groups.touched}
        self._events.room(n)
        self._timers.room(n)
        self._fired = _longer(self._fired, len((self._homes.groups if self._by else keys).touched))
        if self._loaded or self._heap[4][0] + n > len(self._heap[0]):
            self._wake(n)
            self._loaded = False
        own |= {**self._events.own, **self._timers.own, "w_next": self._next, "w_touched": keys.touched, **keys.arrays}
        own |= {"fired": self._fired, **dict(zip(NAMES, self._heap, strict=True))}
        return own | {"w_origin": stretch.chunk if stretch.origin is None else stretch.origin}

    def _numbers(self, stretch: Stretch) -> Array:
        """The unit of each event; no key is null."""
        homes = texts_of((stretch.columns[self._home_by],), (self._home_type,))
        keys = pc.binary_join_element_wise("=", stretch.columns[self._by[0]].array(), "").fill_null("")
        found = self._keys.number(pc.binary_join_element_wise(homes, keys, BETWEEN))
        self._keys.arrays["prefix"][found] = pc.binary_length(homes).to_numpy()
        return found

    def _wake(self, more: int) -> None:
        """The heap of the ends of all sessions and of the timers that are left, with room for more."""
        held = np.flatnonzero(self._keys.arrays["active"])
        places, homes = self._timers.places()
        ends, timers = self._keys.arrays["end"][held], self._timers.arrays["ts"][places]
        times = np.concatenate([ends, timers])
        ranks = np.concatenate([self._keys.arrays["session"][held], np.full(len(timers), -1)])
        room = 2 * (len(times) + more) + 1024
        self._heap = watches(times, times, ranks, np.concatenate([held, -1 - homes]), room)

    def sweep(self) -> None:
        """Forget units that have no session, and homes that have no timer."""
        waiting = self._timers.held_keys()
        if self._keys.may_sweep:
            self._keys.sweep(_NONE if self._by else waiting, ("active",))
        if self._by and self._homes.groups.may_sweep:
            self._homes.groups.sweep(waiting)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, timers, sessions."""
        yield from self._events.changes()
        yield from self._timers.changes()
        self._homes.groups.touched[:] = False
        yield from self._keys.changes()

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, timers and sessions."""
        yield from self._events.contents(sharded)
        yield from self._timers.contents(sharded)
        self._homes.groups.touched[:] = False
        yield from self._keys.contents()

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
