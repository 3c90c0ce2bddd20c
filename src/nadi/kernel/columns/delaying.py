"""The window `delay(t)`: events go on t after their own time (semantics/windows.md#delay). `expiring` inherits from it: events that expire wait alike.

Each key of a partition (one where there is none) has a queue. Its first event goes on when it is due: by a timer, or before the next event of the key comes.
Only an event that is later than all before sets a timer, so that the next timer of a key is that of the first event that is not due yet, if it was such
a one; `timer` and `armed` tell it, `latest` and `seen` the latest time. What was due already when it came goes on behind the chunk it came with.

What goes on at one time of several keys is put in the order of the keys' texts, as their timers would fire on rows: `turn` tells what is to be ordered so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups, by_turn
from nadi.kernel.columns.heaps import LINES, NAMES, NEXT_DUE, heap
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.stretch import Array, Longs, Stretch, empty
from nadi.kernel.columns.wholerows import WholeRows, looked_at
from nadi.plan.nodes import Attr, Const, Query, SingleInput

_NEVER = 2**63 - 1
_ENDS = ("ends_now", "ends_turn", "ends_key")


class Delaying:
    """See the module's text."""

    letters = frozenset({"g", "k", "q"})
    _timed = True
    _marked: Mapping[str, str] = {}

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        self.element = window.id
        numbers = [a.value for a in window.args if isinstance(a, Const) and isinstance(a.value, int)]
        self._time = numbers[-1]
        self._key, self._sharded = given.key, given.sharded
        by = () if given.key is None else (given.key,)
        arrays = {"latest": "int64", "timer": "int64", "seen": "bool", "armed": "bool"}
        self._groups = Groups(window.id, by, tuple(given.types[p] for p in by), arrays, given.sharded)
        clocks = {a.position for a in window.args if isinstance(a, Attr)}
        self._rows = WholeRows(given.types, looked_at(query) | clocks | set(by), given.sharded)
        named = dict.fromkeys(self._rows.texts, self._rows.table)
        columns = {"ts": "int64", **self._rows.columns}
        self._queue: Ring | Chains = (
            Chains(window.id, columns, self._groups, None, named)
            if by
            else Ring(window.id, columns, self._groups, named)
        )
        self._nothing = empty(given.types, given.sharded)
        self._loop = self._written(given, arrays).compiled("delaying")
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._groups.clear()
        self._queue.clear()
        self._rows.table.clear()
        self._heap = heap(_NONE, _NONE, _NONE, 1)
        self._loaded = False

    def __len__(self) -> int:
        return len(self._queue)

    # ---- the loop

    def _written(self, given: Input, arrays: Mapping[str, str]) -> LoopText:
        text = LoopText(given.types)
        text.names |= LINES
        write, queue = text.writer, self._queue
        write_filters(text, given)
        if self._timed:
            write.line("if origin[i] != opened:")
            with write.indented():
                self._fire(text, "now[i]")
                write.line("opened = origin[i]")
        self._take_in(text)
        with text.apart("    ") as behind:
            if self._timed:
                self._fire(text, "until")
        text.before += (*queue.before, "k = 0", "e = 0", "turn = 0", "opened = -1", "fresh = -1", "e_open = -1")
        text.before += ("clock = -9223372036854775807", f"fired = {_NEVER}")
        text.after += (line.removeprefix("    ") for line in behind)
        text.after += (*queue.after, "made[0] = k", "made[1] = e")
        text.own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]", "until": "int64"}
        text.own |= {**queue.parameters, **self._rows.parameters, "origin": "const int64[]"}
        text.own |= dict.fromkeys((*NAMES, "made", "of", *_ENDS), "int64[]") | dict(self._marked)
        if self._groups.grouped:
            text.own["groups"] = "const int32[]"
        return text

    def _fire(self, text: LoopText, limit: str) -> None:
        """The lines for the timers that are due up to a time."""
        write = text.writer
        line = write.line
        line(f"while due_size[0] > 0 and due[0] <= {limit}:")
        with write.indented():
            for one in NEXT_DUE:
                line(one)
            line("x = f if f > clock else clock")
            line("e_open = -1")
            self._release(text, "x")
            line("touched[g] = True")
            line(f"armed[g] = {self._queue.any_left}")
            line("if armed[g]:")
            line(f"    timer[g] = h_ts[{self._queue.oldest}] + {text.writer.number(self._time)}")
            line("    push(due, due_rank, due_key, due_size, timer[g], 0, g)")

    def _release(self, text: LoopText, clock: str) -> None:
        """The lines that let events of key `g` go on, as one chunk."""
        self._let_go(text, f"h_ts[{self._queue.oldest}] + {text.writer.number(self._time)} <= {clock}", clock)

    def _let_go(self, text: LoopText, test: str, clock: str, ts: str = "") -> None:
        """The lines that let the oldest events of key `g` go on at a clock while a test holds; `ts` is their timestamp, where it is another one."""
        write, queue = text.writer, self._queue
        write.line(f"while {queue.any_left} and {test}:")
        with write.indented():
            for one in queue.take:
                write.line(one)
            self._put_out(text, clock, ts or clock, "True")

    def _put_out(self, text: LoopText, clock: str, ts: str, left: str) -> None:
        """The lines that let the event at place `j` go on, in the chunk that is open; `left`: whether it has left the window."""
        write = text.writer
        for one in ("if e_open < 0:", "    e_open = e", "    e += 1"):
            write.line(one)
        for name, value in zip(_ENDS, (clock, "turn", "g"), strict=True):
            write.line(f"{name}[e_open] = {value}")
        write.line("of[k] = e_open")
        self._mark(write, ts, left)
        self._rows.put_out(write)

    def _mark(self, write: Writer, ts: str, left: str) -> None:
        """What goes on is stamped with the clock."""

    def _make_way(self, text: LoopText) -> None:
        """The lines for what goes on before an event comes."""
        self._release(text, "now[i]")

    def _pass_on(self, text: LoopText) -> None:
        """The lines for an event that has come: it waits."""

    def _take_in(self, text: LoopText) -> None:
        """The lines for an event."""
        write, queue = text.writer, self._queue
        line = write.line
        line("g = groups[i]" if self._groups.grouped else "g = 0")
        line("clock = now[i]")
        line("if chunk[i] != fresh:")
        line("    fresh = chunk[i]")
        line("    e_open = -1")
        line("    turn += 1")
        line(f"    fired = {_NEVER}")
        self._make_way(text)
        for one in queue.append:
            line(one)
        line("h_ts[j] = ts[i]")
        self._rows.keep(write)
        line("touched[g] = True")
        self._pass_on(text)
        if not self._timed:
            return
        line("if not seen[g] or ts[i] > latest[g]:")
        line("    seen[g] = True")
        line("    latest[g] = ts[i]")
        line("    if not armed[g]:")
        line("        armed[g] = True")
        line(f"        timer[g] = ts[i] + {text.writer.number(self._time)}")
        line("        push(due, due_rank, due_key, due_size, timer[g], 0, g)")

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The events that go on."""
        stretch = (taking_part(given, self._key) if given else None) or self._nothing
        groups, n = self._groups, len(stretch)
        own: dict[str, Array | int] = {"until": until, "made": np.zeros(2, np.int64)}
        if groups.grouped:
            own["groups"] = groups.numbers(stretch) if n else _NO_GROUPS
        self._queue.room(n)
        self._wake()
        room = self._room(len(self._queue), n)
        own |= {name: np.empty(room, np.int64) for name in ("of", *_ENDS)}
        own |= {**groups.arrays, "touched": groups.touched, **self._queue.own, **self._rows.given(stretch, room)}
        own |= {"origin": stretch.chunk if stretch.origin is None else stretch.origin}
        own |= dict(zip(NAMES, self._heap, strict=True))
        own |= self._marks(room)
        self._loop(stretch, own)
        found = self._gone_on(own)
        self._rows.table.sweep(self._held_texts())
        return found

    def _room(self, held: int, more: int) -> int:
        """How many events may go on."""
        return held + more

    def _marks(self, room: int) -> dict[str, Array | int]:
        """What the loop writes beside the events that go on."""
        return {}

    def _wake(self) -> None:
        """The heap of timers, made of what was loaded, with room for all keys."""
        room = len(self._groups.touched)
        if len(self._heap[0]) < room or self._loaded:
            armed = np.flatnonzero(self._groups.arrays["armed"])
            self._heap = heap(self._groups.arrays["timer"][armed], np.zeros(len(armed), np.int64), armed, room)
            self._loaded = False

    def _held_texts(self) -> Iterator[Array]:
        """The ids of strings that are held."""
        places, _keys = self._queue.places()
        for name in self._rows.texts:
            yield self._queue.arrays[name][places]

    def _gone_on(self, own: Mapping[str, Array | int]) -> Stretch | None:
        """What went on, in order."""
        made, of, now, turn, key = (own[name] for name in ("made", "of", *_ENDS))
        assert not isinstance(made, int)
        assert not isinstance(of, int)
        assert not isinstance(now, int)
        assert not isinstance(turn, int)
        assert not isinstance(key, int)
        k, ends = made.tolist()
        if not k:
            return None
        chunk, rows = of[:k], slice(k)
        if not self._groups.grouped or ends == 1:
            return self._stretch(own, rows, now[chunk], chunk)
        place = np.empty(ends, np.int64)
        place[by_turn(self._groups, turn[:ends], key[:ends])] = np.arange(ends)
        moved = np.argsort(place[chunk], kind="stable")
        return self._stretch(own, moved, now[chunk[moved]], place[chunk[moved]])

    def _stretch(self, own: Mapping[str, Array | int], rows: Longs | slice, now: Longs, chunk: Longs) -> Stretch:
        return self._rows.stretch(own, rows, now, chunk)

    def next_timer(self) -> int | None:
        """When the next event goes on by itself."""
        self._wake()
        return int(self._heap[0][0]) if self._heap[3][0] else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What went on and what came, and the timers of the keys that were touched."""
        yield from self._queue.changes()
        yield from self._groups.changes()

    def contents(self) -> Iterator[Block]:
        """All events, all keys."""
        yield from self._queue.contents(self._sharded)
        yield from self._groups.contents()

    def apply(self, block: Block) -> None:
        """Put back events or keys."""
        if block.letter == "g":
            self._groups.apply(block)
            self._loaded = True
        else:
            self._queue.apply(block)


_NO_GROUPS = np.zeros(0, np.int32)
_NONE = np.zeros(0, np.int64)
