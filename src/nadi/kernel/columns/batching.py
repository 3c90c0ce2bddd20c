"""The operator of batch windows with aggregators or groups (semantics/windows.md#batch-windows).

Only current events come out, so that of a batch nothing is held but what its end shows: what the aggregators have come to, and the row of each group that is
to come out. An end puts out the rows in the order in which their groups came, and lets all groups be as if they had seen nothing.

Of a group, beside what `accumulating` and `rowing` hold: `at`, its place among those of the batch, from 1; `row`, its place among those that have a row. In
partitions the groups are the keys. Batches of a length are then each key's own (`held` has how many events are in it); those of a time end for all keys at
once,
and what comes out is put into the order of the keys' texts, as their timers would on rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow.compute as pc

from nadi.kernel.columns.accumulating import accumulators
from nadi.kernel.columns.bounds import check_numbers, values
from nadi.kernel.columns.code import Term
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.distinct import Distinct, Pairs
from nadi.kernel.columns.endings import BOUNDARY, ENDINGS, KEYED, NEVER, NO_CLOCK
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.keytable import longer, texts_of
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.rowing import RowText
from nadi.kernel.columns.stretch import Array, Column, Longs, Stretch, empty
from nadi.kernel.columns.texts import Texts
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Query, SingleInput, WindowCall

SEEN, ROWS = range(2)


class Batching:
    """`from S[…]#window.timeBatch(…) select …, sum(x) … group by …`; also `lengthBatch` and `batch`."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window, selection = query.input.window, query.selection
        assert window is not None  # as operators says
        self._key, self._sharded = given.key, given.sharded
        self._kind = Type.STRING if given.key is None else given.types[given.key]
        self._window, self._ending = window.id, window.name
        self._own = given.key is not None and window.name in KEYED
        self._accumulators, self._arguments = accumulators(selection.aggregates, removes=False)
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr))
        by = by if given.key is None else (given.key, *by)
        self._apart = given.key is not None and len(by) > 1  # groups for each key
        self._each = selection.having is None  # each group has a row, from its first event on
        self._text = LoopText(given.types)
        self._texts = Texts()
        self._grouped = bool(by)
        self._timed = ENDINGS[window.name].timed
        self._due = self._timed and self._sharded
        distinct = [a for a in self._accumulators if isinstance(a, Distinct)]
        self._pairs = Pairs(distinct, query.selector_id, by, given.types, given.sharded, batches=True)
        with self._text.apart() as body:
            write_filters(self._text, given)
            self._text.writer.line("g = groups[i]" if by else "g = 0")
            kept = " and ".join(self._text.writer.truth(condition) for condition in given.behind)
            for argument in window.args:  # what tells the end of batches stands before what follows
                self._text.writer.term(argument)
            with self._text.apart(_DEEPER if kept else _BODY) as entering:
                self._list()
                self._enter()
                self._rows = RowText(self._text, selection, by[0] if len(by) == 1 else None, given.sharded)
                self._keep()
            self._frame(window, [f"{_BODY}if {kept}:", *entering] if kept else entering)
        self._text.writer.lines += body
        arrays = self._arrays()
        kinds = tuple(given.types[p] for p in by)
        self._strings = (*self._rows.texts, *(["tkey"] if self._apart else []))
        texts = dict.fromkeys(self._strings, self._texts)
        # without aggregators there is no such element: a restore would not know whose these groups are
        element = query.selector_id if selection.aggregates else f"{window.id}/groups"
        self.groups = Groups(element, by, kinds, arrays, given.sharded, texts)
        self._telling = tuple(KEYED[window.name]) if self._own else ("at",)
        self._declare(arrays)
        self._loop = self._text.compiled("batching")
        self._nothing = empty(given.types, given.sharded)
        self.elements = (self._window, self.groups.element)
        self._reset()

    def _reset(self) -> None:
        self._clock = np.array(NO_CLOCK, np.int64)
        self._told = self._clock.copy()
        self._counts = np.zeros(2, np.int64)
        self._members, self._order = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ends = np.zeros(2, np.int64)
        # arrays are buffers; an int of one is made faster here
        self._listed, self._ended = memoryview(self._counts), memoryview(self._ends)  # type: ignore[arg-type]
        self._held: dict[str, Array | int] = {}  # what loops get, call after call
        self._room = 0
        self._loaded = False  # whether the lists are to be made of what was loaded

    def _arrays(self) -> dict[str, str]:
        arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        arrays |= self._rows.arrays
        arrays |= {**KEYED[self._ending], "row": "int64"} if self._own else {"at": "int64", "row": "int64"}
        arrays |= {"tkey": "int32"} if self._apart else {}
        return arrays | ({"due": "int64"} if self._due else {})

    # ---- the loop

    def _list(self) -> None:
        """The lines that note which groups are in the batch."""
        line = self._text.writer.line
        if self._own:
            return
        line("if at[g] == 0:")
        line("    members[seen] = g")
        line("    seen += 1")
        line("    at[g] = seen")
        if self._each:
            self._row("    ")
        if self._due:
            line("    due[g] = boundary")
        if self._apart:
            line("    tkey[g] = keys[i]")

    def _enter(self) -> None:
        """The lines for an event of the batch: the aggregators."""
        write, line = self._text.writer, self._text.writer.line
        values = tuple(write.term(argument) for argument in self._arguments)
        for one in self._accumulators:
            one.add(write, _NO_TERM if one.argument is None else values[one.argument], "g")
        line("touched[g] = True")
        write.aggregates = {one.number: one.shown(write) for one in self._accumulators}

    def _keep(self) -> None:
        """The lines that keep its row, if it has one."""
        write, line = self._text.writer, self._text.writer.line
        line(f"if {self._rows.test or 'True'}:")
        with write.indented():
            if self._own:
                line("row[g] = 1")
            elif not self._each:
                line("if row[g] == 0:")
                self._row("    ")
            self._rows.keep("g")

    def _row(self, indent: str) -> None:
        """The lines that note that a group has a row."""
        for text in ("order[rows] = g", "rows += 1", "row[g] = rows"):
            self._text.writer.line(indent + text)

    def _frame(self, window: WindowCall, entering: list[str]) -> None:
        """The lines around those of an event: where batches end, which groups are in them."""
        text = self._text
        ending = ENDINGS[window.name](window, text.writer, self._flush_key if self._own else self._flush, self._own)
        ending.before()
        if self._own:
            text.writer.line("touched[g] = True")
        text.writer.lines += entering
        ending.after()
        with text.apart("    ") as behind:
            ending.end()
        text.before += ("k = 0", "e = 0", "seen = counts[0]", "rows = counts[1]", *ending.opened())
        text.after += (line.removeprefix("    ") for line in behind)
        text.after += (*ending.closed(), "counts[0] = seen", "counts[1] = rows", "made[0] = k", "made[1] = e")

    def _flush(self, now: str) -> None:
        """The lines for the end of a batch: rows come out, groups begin anew."""
        line = self._text.writer.line
        line("if rows > 0:")
        line("    for q in range(rows):")
        line("        h = order[q]")
        if self._apart:
            line("        okey[k] = tkey[h]")
        for text in self._rows.put_out("h"):
            line(f"        {text}")
        line(f"    flushed[e] = {now}")
        line("    e += 1")
        line("    rows = 0")
        line("for q in range(seen):")
        line("    h = members[q]")
        for text in ("at[h] = 0", "row[h] = 0", "touched[h] = True", *self._cleared("h")):
            line(f"    {text}")
        line("seen = 0")
        for one in self._accumulators:
            for text in one.clear_pairs() if isinstance(one, Distinct) else ():
                line(text)

    def _flush_key(self, now: str) -> None:
        """The same for the batch of one key."""
        line = self._text.writer.line
        line("if row[g] > 0:")
        for text in self._rows.put_out("g"):
            line(f"    {text}")
        line(f"    flushed[e] = {now}")
        line("    e += 1")
        for text in ("row[g] = 0", *self._cleared("g")):
            line(text)

    def _cleared(self, group: str) -> Iterator[str]:
        for one in self._accumulators:
            yield from one.clear(group)

    def _declare(self, arrays: Mapping[str, str]) -> None:
        """The operator's parameters."""
        own = self._text.own
        own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]", "until": "int64"}
        own |= dict.fromkeys(("members", "order", "counts", "clock", "flushed", "made"), "int64[]")
        own |= {**self._rows.parameters, **self._pairs.parameters}
        if self._grouped:
            own["groups"] = "const int32[]"
        if self._apart:
            own |= {"keys": "const int32[]", "okey": "int32[]"}

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The rows of the batches that end."""
        stretch = (taking_part(given, self._key) if given else None) or self._nothing
        groups, n = self.groups, stretch.size
        numbers = groups.numbers(stretch) if self._grouped and n else _NO_GROUPS
        if self._loaded:
            self._put_together()
        own: dict[str, Array | int] = {"groups": numbers, "until": until}
        if self._rows.strings or stretch.group is not None:
            own |= self._rows.given(stretch, self._texts)
        if self._pairs:
            own |= self._pairs.given(stretch)
        if self._apart:
            own["keys"] = self._texts.ids(self._key_texts(stretch))
        self._make_room(n)
        self._loop(stretch, own, groups.own, self._held)
        found = self._made(self._held, self._ended[0]) if self._ended[0] else None
        if groups.may_sweep:
            groups.sweep(_NO_GROUPS, self._telling)
        if self._pairs:
            self._pairs.sweep()
        if self._strings:
            self._texts.sweep(groups.arrays[name] for name in self._strings)
        return found

    def _make_room(self, more: int) -> None:
        """The lists of groups, and room for what may come out with so many events more: the same arrays until something comes out."""
        groups, room = len(self.groups.touched), self._listed[ROWS] + more
        if self._held and self._room >= room + 2 and len(self._members) >= groups:
            return
        self._room = 2 * (room + 2)
        self._members, self._order = (longer(a, max(groups, len(a))) for a in (self._members, self._order))
        self._held = {"members": self._members, "order": self._order, "counts": self._counts, "clock": self._clock}
        self._held |= {"made": self._ends, "flushed": np.empty(self._room, np.int64), **self._rows.room(self._room)}
        if self._apart:
            self._held["okey"] = np.empty(self._room, np.int32)

    def _made(self, own: Mapping[str, Array | int], k: int) -> Stretch:
        self._held = {}  # what comes out is not to be written again
        of, og, flushed = own["of"], own["og"], own["flushed"]
        assert not isinstance(flushed, int)
        assert not isinstance(of, int)
        assert not isinstance(og, int)
        rows: Longs | slice = slice(k)
        chunk = of[:k]
        now = flushed[chunk]
        if self._key is not None and self._timed:
            keys = own["okey"] if self._apart else og
            assert not isinstance(keys, int)
            rows = self._by_key(keys[:k], chunk)
            now, chunk = now[rows], self._chunks(keys[rows], chunk[rows])
        return self._rows.stretch(own, rows, chunk, now, self.groups, self._texts)

    def _by_key(self, keys: Longs, ends: Longs) -> Longs:
        """The rows in the order of their batches' ends and their keys' texts."""
        different, found = np.unique(keys, return_inverse=True)
        texts = self._texts.column(different).array() if self._apart else self.groups.keys.array(different)
        rank = np.empty(len(different), np.int64)
        rank[pc.sort_indices(texts).to_numpy()] = np.arange(len(different))
        return np.lexsort((rank[found], ends))

    def _chunks(self, keys: Longs, ends: Longs) -> Longs:
        """What comes out of one key at one end is one chunk."""
        return np.concatenate([[0], np.cumsum((np.diff(keys) != 0) | (np.diff(ends) != 0))])

    def _key_texts(self, stretch: Stretch) -> Column:
        assert self._key is not None
        return Column(texts_of((stretch.columns[self._key],), (self._kind,)))

    def next_timer(self) -> int | None:
        """When the batch that is open ends by itself."""
        if self._loaded:
            self._put_together()
        waits = self._timed and self._counts[SEEN] > 0 and self._clock[BOUNDARY] != NEVER
        return int(self._clock[BOUNDARY]) if waits else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The window's clock, the groups that were touched."""
        if (self._clock != self._told).any():
            yield self._told_clock()
        yield from self.groups.changes()
        yield from self._pairs.changes()

    def contents(self) -> Iterator[Block]:
        """The window's clock, all groups."""
        yield self._told_clock()
        yield from self.groups.contents()
        yield from self._pairs.contents()

    def _told_clock(self) -> Block:
        self._told = self._clock.copy()
        return Block(self._window, 0, "w", {"clock": self._clock.copy()})

    def apply(self, block: Block) -> None:
        """Put back the clock or groups."""
        if block.letter == "w":
            self._clock[:] = values(block.arrays, "clock", np.int64, len(NO_CLOCK))
            self._told = self._clock.copy()
        elif self._pairs.is_of(block):
            self._pairs.apply(block)
        else:
            self._check_places(self.groups.put(block))
            self._loaded = True

    def _check_places(self, ids: Longs) -> None:
        """Raises ValueError where a group has a row and is in no batch: the lists have room for each group once."""
        arrays = {name: self.groups.arrays[name][ids] for name in (("row",) if self._own else ("at", "row"))}
        for name, places in arrays.items():
            check_numbers(places, f"'{name}'")
        if self._own:
            return
        batched, shown = arrays["at"] > 0, arrays["row"] > 0
        if (shown & ~batched).any() or (self._each and (batched & ~shown).any()):
            raise ValueError("a group has a row and is in no batch, or is in one and has none")

    def _put_together(self) -> None:
        """The lists of groups, from their places."""
        self._loaded = False
        if self._own:
            self._counts[ROWS] = int((self.groups.arrays["row"] > 0).sum())
            return
        lists = []
        for number, name in enumerate(("at", "row")):
            places = self.groups.arrays[name]
            held = np.flatnonzero(places)
            found = held[np.argsort(places[held], kind="stable")]
            self._counts[number] = len(found)
            places[found] = np.arange(1, len(found) + 1)
            lists.append(longer(found, len(places)))
        self._members, self._order = lists
        self._held = {}
        if self._due and self._counts[SEEN]:
            self._clock[BOUNDARY] = self.groups.arrays["due"][self._members[: self._counts[SEEN]]].max()

    def clear(self) -> None:
        """Forget all."""
        self.groups.clear()
        self._pairs.clear()
        self._texts.clear()
        self._reset()

    def size(self) -> dict[str, int]:
        """Groups of the batch, groups known."""
        return {self._window: int(self._counts[SEEN]), self.groups.element: self.groups.size()}


_BODY, _DEEPER = " " * 8, " " * 12
_NO_TERM = Term("")
_NO_GROUPS = np.zeros(0, np.int32)
