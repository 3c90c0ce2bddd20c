"""`output all every …` in a partition: the rows of each key wait in a chain, until they are n or the key's tick comes (semantics/selection.md#output-rates)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.heaps import LINES, NAMES, NEXT_DUE
from nadi.kernel.columns.keyticks import ENDS, NEVER, KeyTicks
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.stretch import Array, Stretch, empty
from nadi.kernel.columns.wholerows import WholeRows
from nadi.lang.tree import Type
from nadi.plan.nodes import Rate


class AllOfKeys:
    """See the module's text. What one chunk completes is one chunk, also where that is several times n."""

    def __init__(self, rate: Rate, types: tuple[Type, ...], keys: tuple[Type, ...], sharded: bool) -> None:
        self._width, self._sharded = len(types), sharded
        self._count, self._every = rate.events or 0, rate.every or 0
        self._ticks = KeyTicks(rate, keys[0], {}, sharded, "g")
        self._rows = WholeRows(types, range(len(types)), sharded=False)
        named = dict.fromkeys(self._rows.texts, self._rows.table)
        self._queue = Chains(rate.id, {"ts": "int64", **self._rows.columns}, self._ticks.keys, None, named)
        self._nothing = empty((*types, *keys), grouped=False)
        self._loop = self._written(types).compiled("keeping")

    def clear(self) -> None:
        """Forget all."""
        self._ticks.clear()
        self._queue.clear()
        self._rows.table.clear()

    def begin(self, now: int) -> None:
        """Each key begins by itself."""

    def came(self, given: Stretch, position: int) -> None:
        """Events came, whose keys begin with them."""
        self._ticks.came(given, position)

    # ---- the loop

    def _written(self, types: tuple[Type, ...]) -> LoopText:
        text = LoopText(types)
        line, queue = text.writer.line, self._queue
        if self._every:
            self._fire(text, "now[i]")
        line("g = groups[i]")
        for one in (*queue.append, "h_ts[j] = ts[i]"):
            line(one)
        self._rows.keep(text.writer)
        line("touched[g] = True")
        if self._every:
            line("if count[g] == 1:")
            every = text.writer.number(self._every)
            line(f"    tick[g] = start[g] + ((now[i] - start[g]) // {every} + 1) * {every}")
            line("    push(due, due_rank, due_key, due_size, tick[g], 0, g)")
        else:
            line(f"if count[g] == {text.writer.number(self._count)}:")
            with text.writer.indented():
                self._release(text, "i")
        with text.apart("    ") as behind:
            if self._every:
                self._fire(text, "until")
        text.before += (*queue.before, "k = 0", "e = 0", "turn = 0", f"fired = {NEVER}")
        text.after += (one.removeprefix("    ") for one in behind)
        text.after += (*queue.after, "made[0] = k", "made[1] = e")
        text.own |= {**queue.parameters, **self._rows.parameters, "groups": "const int32[]", "touched": "bool[]"}
        text.own |= dict.fromkeys(("made", "of", "ots"), "int64[]")
        if self._every:
            text.names |= LINES
            text.own |= {**dict.fromkeys(("start", "tick", *NAMES, *ENDS), "int64[]"), "until": "int64"}
        return text

    def _fire(self, text: LoopText, limit: str) -> None:
        """The lines for the ticks up to a time."""
        line = text.writer.line
        line(f"while due_size[0] > 0 and due[0] <= {limit}:")
        with text.writer.indented():
            for one in NEXT_DUE:
                line(one)
            for name, value in zip(ENDS, ("f", "turn", "g"), strict=True):
                line(f"{name}[e] = {value}")
            self._release(text, "e")
            line("e += 1")
            line("tick[g] = 0")
            line("touched[g] = True")

    def _release(self, text: LoopText, of: str) -> None:
        """The lines that let the rows of key `g` go on."""
        line = text.writer.line
        line(f"while {self._queue.any_left}:")
        with text.writer.indented():
            for one in (*self._queue.take, f"of[k] = {of}", "ots[k] = h_ts[j]"):
                line(one)
            self._rows.put_out(text.writer)

    # ---- a batch

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that go on."""
        keys, n = self._ticks.keys, 0 if rows is None else len(rows)
        groups = _NO_KEYS if rows is None else self._ticks.numbers(rows, self._width)
        self._queue.room(n)
        self._ticks.wake()
        room = len(self._queue) + n
        given = self._nothing if rows is None else rows
        own: dict[str, Array | int] = {name: np.empty(room, np.int64) for name in ("of", "ots", *ENDS)}
        own |= {"until": until, "made": np.zeros(2, np.int64), "groups": groups, "touched": keys.touched}
        own |= {**keys.arrays, **self._queue.own, **self._rows.given(given, room)}
        own |= dict(zip(NAMES, self._ticks.heap, strict=True))
        self._loop(given, own)
        found = self._gone_on(given, own)
        if not self._every and keys.may_sweep:
            keys.sweep(self._queue.held_keys())
        self._rows.table.sweep(self._held_texts())
        return found

    def _gone_on(self, given: Stretch, own: dict[str, Array | int]) -> Stretch | None:
        made, of, ts, now, turn, key = (np.asarray(own[name]) for name in ("made", "of", "ots", *ENDS))
        k, ends = made.tolist()
        if not k:
            return None
        at = of[:k]
        if self._every:
            rows, clock, chunk, group = self._ticks.in_order(at, now[:ends], turn[:ends], key[:ends])
            found = self._rows.stretch(own, rows, clock, chunk)
            return Stretch(found.columns, ts[rows], clock, chunk, group)
        found = self._rows.stretch(own, slice(k), given.now[at], given.chunk[at])
        group, origin = (None if marks is None else marks[at] for marks in (given.group, given.origin))
        return Stretch(found.columns, ts[:k], found.now, found.chunk, group, origin)

    def _held_texts(self) -> Iterator[Array]:
        """The ids of strings that are held."""
        places, _keys = self._queue.places() if self._rows.texts else (_NO_KEYS, _NO_KEYS)
        for name in self._rows.texts:
            yield self._queue.arrays[name][places]

    def next_timer(self) -> int | None:
        """The tick at which rows go on."""
        return self._ticks.next()

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What went on and what came, the ticks of the keys that were touched."""
        yield from self._queue.changes()
        if self._every:
            yield from self._ticks.keys.changes()
        self._ticks.keys.touched[:] = False

    def contents(self) -> Iterator[Block]:
        """All rows, all keys."""
        yield from self._queue.contents(self._sharded)
        if self._every:
            yield from self._ticks.keys.contents()
        self._ticks.keys.touched[:] = False

    def apply(self, block: Block) -> None:
        """Put back rows or keys."""
        if block.letter == "g":
            self._ticks.keys.apply(block)
            self._ticks.loaded = True
        else:
            self._queue.apply(block)

    def check(self) -> None:
        """Keys of which rows wait have a tick, others none. Raises ValueError where that is not so."""
        waits = np.zeros(self._ticks.keys.room, np.bool_)
        waits[self._queue.held_keys()] = True
        self._ticks.check(waits)

    def size(self) -> int:
        """Rows that wait."""
        return len(self._queue)


_NO_KEYS = np.zeros(0, np.int32)
