"""Batches of keys, whose events all go on: the windows `lengthBatch`, `timeBatch` and `externalTimeBatch` in a partition (semantics/windows.md#batch-windows).

A stage, for queries of which `batching` cannot keep one row per key: without aggregators, with groups in each key, or `distinctCount`. Events wait in the chain
of their key. What the end of a batch lets go on of a key is one chunk, and behind it stands the operator of the window `batch`. Batches of a time end for all
keys at once, and come in the order of the keys' texts, as their timers would on rows; `due` is when those of a key end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import values
from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.endings import BOUNDARY, ENDINGS, KEYED, NEVER, NO_CLOCK
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups, by_turn
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.stretch import Array, Stretch, empty
from nadi.kernel.columns.wholerows import WholeRows, looked_at
from nadi.plan.nodes import Query, SingleInput, WindowCall

_ENDS = ("ends_now", "ends_turn", "ends_key")


class Gathering:
    """See the module's text."""

    letters = frozenset({"c", "g", "k"})

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        assert given.key is not None
        self.element = window.id
        self._key, self._sharded = given.key, given.sharded
        self._timed = ENDINGS[window.name].timed
        arrays = {"due": "int64"} if self._timed else KEYED[window.name]
        self._keys = Groups(window.id, (given.key,), (given.types[given.key],), arrays, given.sharded)
        self._rows = WholeRows(given.types, looked_at(query) | {given.key}, given.sharded)
        columns = {"ts": "int64", **self._rows.columns}
        self._queue = Chains(window.id, columns, self._keys, None, dict.fromkeys(self._rows.texts, self._rows.table))
        self._nothing = empty(given.types, given.sharded)
        self._loop = self._written(window, given, arrays).compiled("gathering")
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._queue.clear()
        self._rows.table.clear()
        self._clock = np.array(NO_CLOCK, np.int64)
        self._told = self._clock.copy()
        self._members = np.zeros(0, np.int64)  # the keys of a batch of a time
        self._seen = np.zeros(1, np.int64)  # how many they are
        self._loaded = False

    def __len__(self) -> int:
        return len(self._queue)

    # ---- the loop

    def _written(self, window: WindowCall, given: Input, arrays: Mapping[str, str]) -> LoopText:
        text = LoopText(given.types)
        line = text.writer.line
        write_filters(text, given)
        ending = ENDINGS[window.name](window, text.writer, lambda now: self._end(text, now), not self._timed)
        if self._timed:  # an end is one of other keys
            ending.before()
            line("g = groups[i]")
            line("if count[g] == 0:")
            line("    members[seen] = g")
            line("    seen += 1")
            line("due[g] = boundary")
        else:
            line("g = groups[i]")
            ending.before()
        for one in (*self._queue.append, "h_ts[j] = ts[i]", "touched[g] = True"):
            line(one)
        self._rows.keep(text.writer)
        ending.after()
        with text.apart("    ") as behind:
            ending.end()
        text.before += (*self._queue.before, "k = 0", "e = 0", "turn = 0", "seen = many[0]", *ending.opened())
        text.after += (one.removeprefix("    ") for one in behind)
        text.after += (*self._queue.after, *ending.closed(), "many[0] = seen", "made[0] = k", "made[1] = e")
        text.own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]", "until": "int64"}
        text.own |= {**self._queue.parameters, **self._rows.parameters, "groups": "const int32[]"}
        text.own |= dict.fromkeys(("made", "of", "ots", "clock", "members", "many", *_ENDS), "int64[]")
        return text

    def _end(self, text: LoopText, now: str) -> None:
        """The lines for the end of a batch: of the key at hand, or of all keys that have events."""
        line = text.writer.line
        line("turn += 1")
        if not self._timed:
            self._release(text, now)
            return
        line("for q in range(seen):")
        with text.writer.indented():
            line("g = members[q]")
            self._release(text, now)
            line("due[g] = 0")
            line("touched[g] = True")
        line("seen = 0")

    def _release(self, text: LoopText, now: str) -> None:
        """The lines that let the events of key `g` go on, as one chunk."""
        line = text.writer.line
        line(f"if {self._queue.any_left}:")
        for name, value in zip(_ENDS, (now, "turn", "g"), strict=True):
            line(f"    {name}[e] = {value}")
        line("    e += 1")
        line(f"while {self._queue.any_left}:")
        with text.writer.indented():
            for one in (*self._queue.take, "of[k] = e - 1", "ots[k] = h_ts[j]"):
                line(one)
            self._rows.put_out(text.writer)

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The events of the batches that end."""
        stretch = (taking_part(given, self._key) if given else None) or self._nothing
        keys, n = self._keys, len(stretch)
        numbers = keys.numbers(stretch) if n else _NO_GROUPS
        self._queue.room(n)
        self._put_together(n)
        room = len(self._queue) + n
        own: dict[str, Array | int] = {name: np.empty(room, np.int64) for name in ("of", "ots", *_ENDS)}
        own |= {"until": until, "made": np.zeros(2, np.int64), "groups": numbers, "clock": self._clock}
        own |= {"members": self._members, "many": self._seen, "touched": keys.touched}
        own |= {**keys.arrays, **self._queue.own, **self._rows.given(stretch, room)}
        self._loop(stretch, own)
        found = self._gone_on(own)
        if keys.may_sweep:
            keys.sweep(self._queue.held_keys())
        self._rows.table.sweep(self._held_texts())
        return found

    def _put_together(self, more: int) -> None:
        """The list of keys that have events, with room for so many more, and after a load the end of their batch."""
        if not self._timed:
            return
        if self._loaded:
            self._members = self._queue.held_keys()
            self._seen[0] = len(self._members)
            if len(self._members):
                self._clock[BOUNDARY] = self._keys.arrays["due"][self._members].max()
            self._loaded = False
        size = int(self._seen[0]) + more
        if size > len(self._members):
            self._members = longer(self._members, 2 * size)

    def _held_texts(self) -> Iterator[Array]:
        """The ids of strings that are held."""
        places, _keys = self._queue.places() if self._rows.texts else (_NO_GROUPS, _NO_GROUPS)
        for name in self._rows.texts:
            yield self._queue.arrays[name][places]

    def _gone_on(self, own: Mapping[str, Array | int]) -> Stretch | None:
        """What went on, in order."""
        made, of, ts, now, turn, key = (np.asarray(own[name]) for name in ("made", "of", "ots", *_ENDS))
        k, ends = made.tolist()
        if not k:
            return None
        chunk, rows = of[:k], np.arange(k)
        if self._timed and ends > 1:
            place = np.empty(ends, np.int64)
            place[by_turn(self._keys, turn[:ends], key[:ends])] = np.arange(ends)
            rows = np.argsort(place[chunk], kind="stable")
            now, chunk = now[chunk[rows]], place[chunk[rows]]
        else:
            now = now[chunk]
        found = self._rows.stretch(own, rows, now, chunk)
        return Stretch(found.columns, ts[rows], now, chunk, found.group)

    def next_timer(self) -> int | None:
        """When the batch that is open ends by itself."""
        self._put_together(0)
        waits = self._timed and self._seen[0] > 0 and self._clock[BOUNDARY] != NEVER
        return int(self._clock[BOUNDARY]) if waits else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The window's clock, what went on and what came, the keys that were touched."""
        if (self._clock != self._told).any():
            yield self._told_clock()
        yield from self._queue.changes()
        yield from self._keys.changes()

    def contents(self) -> Iterator[Block]:
        """The clock, all events, all keys."""
        yield self._told_clock()
        yield from self._queue.contents(self._sharded)
        yield from self._keys.contents()

    def _told_clock(self) -> Block:
        self._told = self._clock.copy()
        return Block(self.element, 0, "c", {"clock": self._told})

    def apply(self, block: Block) -> None:
        """Put back the clock, events or keys."""
        match block.letter:
            case "c":
                self._clock = values(block.arrays, "clock", np.int64, len(NO_CLOCK)).copy()
                self._told = self._clock.copy()
            case "g":
                self._keys.apply(block)
            case _:
                self._queue.apply(block)
        self._loaded = True


_NO_GROUPS = np.zeros(0, np.int32)
