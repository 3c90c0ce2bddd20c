"""The operator of aggregators over a sliding window, or over all events where there is none (semantics/windows.md#sliding-windows).

One loop does it all: filters, what leaves the window, what comes, the selection. Only what leaving events need is held: their timestamp, group and the
arguments of the aggregators. Only current events come out, so that a timer that lets events go would show nothing: they go before the next event instead,
in the same order. Of an argument that is computed its attributes are held, too: rows would compute it again (`asrows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.accumulating import InBags, accumulators, taken
from nadi.kernel.columns.asrows.aggregates import leaves_of
from nadi.kernel.columns.bags import CALLS, Bags
from nadi.kernel.columns.chains import Chains
from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.contract import Input, check
from nadi.kernel.columns.distinct import Distinct, Pairs
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.linking import Links
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.ranking import Different, Ranked
from nadi.kernel.columns.remembering import Extreme
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.selecting import Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import DTYPES, Array, Longs, Stretch
from nadi.kernel.columns.windows import HELD, Holding
from nadi.plan.nodes import Attr, Const, Query, SingleInput, WindowCall


class Queue(Protocol):
    """Where a window holds its events: `Ring`, or in partitions `Chains`. The texts and lines are those of a loop."""

    any_left: str
    oldest: str
    held: str
    arrays: dict[str, Array]
    version: int

    @property
    def before(self) -> tuple[str, ...]: ...
    @property
    def after(self) -> tuple[str, ...]: ...
    @property
    def take(self) -> tuple[str, ...]: ...
    @property
    def append(self) -> tuple[str, ...]: ...
    @property
    def parameters(self) -> dict[str, str]: ...
    @property
    def own(self) -> dict[str, Array | int]: ...

    def room(self, more: int) -> None: ...
    def held_groups(self) -> Array: ...
    def places(self) -> tuple[Longs, Array]: ...
    def changes(self) -> Iterator[Block]: ...
    def contents(self, sharded: bool) -> Iterator[Block]: ...
    def apply(self, block: Block) -> None: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...


class Sliding:
    """`from S[…]#window.time(…) select …, avg(x) … group by …`; also `length`, `timeLength`, no window, and those of `windows`."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window, selection = query.input.window, query.selection
        self._key, self._sharded = given.key, given.sharded
        self._behind = given.behind
        # the attribute that is the window's clock
        first = window.args[0] if window is not None and window.name == "externalTime" else None
        self._time = first if isinstance(first, Attr) else None
        self._window = "" if window is None else window.id
        made = HELD.get(window.name) if window is not None else None
        passing = window is None or window.name == "unique:first"
        bags = InBags.EXTREMES if made is not None and not passing else InBags.NONE
        self._accumulators, self._arguments = accumulators(selection.aggregates, not passing, bags)
        arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr))
        by = by if given.key is None else (given.key, *by)
        by = by if selection.aggregates or selection.group_by else ()
        kinds = tuple(given.types[p] for p in by)
        self.groups = Groups(query.selector_id, by, kinds, arrays, given.sharded, parts=given.purged)
        # in a partition its keys are the groups, unless there are groups for each key
        self._keys = self.groups
        if given.key is not None and len(by) > 1 and window is not None and made is None:
            self._keys = Groups(self._window, by[:1], (given.types[given.key],), {}, given.sharded)
        distinct = [a for a in self._accumulators if isinstance(a, Distinct)]
        self._pairs = Pairs(distinct, query.selector_id, by, given.types, given.sharded)
        ranked = [a for a in self._accumulators if isinstance(a, (Ranked, Different))]
        self._bags = Bags(ranked, query.selector_id, self.groups)
        self.queue = self._queue() if window is not None and made is None else None
        self._held = None
        if made is not None and window is not None:
            self._held = made(window, given, Holding(self._columns(), self.groups, self._pairs.named))
        self._store = self._held if self.queue is None else self.queue
        extremes = [a for a in self._accumulators if isinstance(a, Extreme)]
        self._links = Links(extremes, self.queue, self.groups) if self.queue is not None and extremes else None
        self._text = LoopText(given.types)
        self._write(given, window)
        rule = Rule.GROUP if selection.group_by else Rule.CHUNK if selection.aggregates else Rule.EACH
        self._selected = Selected(SelectionText(self._text, selection, rule).picked, given.types)
        self._declare(arrays)
        self._loop = self._text.compiled("sliding")
        self._grouped, self._paired = self.groups.grouped, bool(self._pairs)
        self._chunks = 0  # how many chunks there were, at least: `opened` of the groups has their numbers
        own = self.groups.element if selection.aggregates else ""
        self.elements = tuple(e for e in (self._window, own) if e)

    def _columns(self) -> dict[str, str]:
        """What is held of an event, whatever the window: its time, what aggregators take off."""
        held = {"ts": "int64"}
        for number, argument in enumerate(self._arguments):
            held |= {f"a{number}": DTYPES[argument.type], f"z{number}": "bool"}
        if self._behind:
            held["kept"] = "bool"
        return held | dict.fromkeys(self._pairs.named, "int32")

    def _queue(self) -> Queue:
        held = self._columns()
        for number, leaf in enumerate(leaves_of(self._arguments)):
            held |= {f"c{number}": DTYPES[leaf.type], f"y{number}": "bool"}
        if self._time is not None:
            held["time"] = "int64"
        named = self._pairs.named
        if self._key is None:
            return Ring(self._window, held, self.groups, named)
        if self._keys is self.groups:
            return Chains(self._window, held, self._keys, None, named)
        return Chains(self._window, held, self._keys, self.groups, named, apart=True)

    # ---- the loop

    def _write(self, given: Input, window: WindowCall | None) -> None:
        write, line = self._text.writer, self._text.writer.line
        write_filters(self._text, given)
        line("g = groups[i]" if self.groups.grouped else "g = 0")
        if self._keys is not self.groups:
            line("p = keys[i]")
        kept = " and ".join(write.truth(condition) for condition in self._behind)
        values = tuple(write.term(argument) for argument in self._arguments)
        if window is not None and self.queue is not None:
            self._leave(window, self.queue)
            for text in self.queue.append:
                line(text)
            for number, leaf in enumerate(leaves_of(self._arguments)):
                term = write.term(leaf)
                line(f"h_c{number}[j] = {term.text}")
                line(f"h_y{number}[j] = {term.null or 'False'}")
            if self._time is not None:
                line(f"h_time[j] = {write.term(self._time).text}")
        elif self._held is not None:
            self._held.write(write, self._taken)
        if self._store is not None and not (self._held is not None and self._held.passing):
            self._hold(write, values, kept)
        if self._accumulators:
            line("touched[g] = True")
        if self._keys is not self.groups:
            line("keys_touched[p] = True")
        if kept:
            line(f"if not ({kept}): continue")
        for one in self._accumulators:
            one.add(write, _NO_TERM if one.argument is None else values[one.argument], "g")
        write.aggregates = {one.number: one.shown(write) for one in self._accumulators}

    def _hold(self, write: Writer, values: Sequence[Term], kept: str) -> None:
        """The lines that keep what is held of the event at hand at place `j`."""
        line = write.line
        line("h_ts[j] = ts[i]")
        for number, value in enumerate(values):
            line(f"h_a{number}[j] = {value.text}")
            line(f"h_z{number}[j] = {value.null or 'False'}")
        for one in self._accumulators:
            if isinstance(one, Distinct):
                line(f"h_e{one.number}[j] = {one.held(write)}")
        if kept:
            line(f"h_kept[j] = {kept}")

    def _leave(self, window: WindowCall, queue: Queue) -> None:
        """The lines for what leaves before an event comes: by time, then by length."""
        numbers = [a.value for a in window.args if isinstance(a, Const) and isinstance(a.value, int)]
        write = self._text.writer
        first, last = write.number(numbers[0]), write.number(numbers[-1])
        tests = []
        if self._time is not None:  # all are longs: what would be beyond them is never due
            clock = write.term(self._time).text
            write.line(f"ripe = {clock} >= {write.number(LONG_MIN + numbers[-1])}")
            write.line(f"before = {clock} - {last}")
            tests.append(f"ripe and h_time[{queue.oldest}] <= before")
        elif window.name != "length":
            write.line(f"before = now[i] - {first}")
            tests.append(f"h_ts[{queue.oldest}] <= before")
        if window.name in ("length", "timeLength"):
            tests.append(f"{queue.held} >= {last}")
        # one that leaves for its length lets none go that stood behind it and is old already, as on rows
        for test in tests:
            write.line(f"while {queue.any_left} and {test}:")
            with write.indented():
                for text in queue.take:
                    write.line(text)
                self._taken()

    def _taken(self) -> None:
        """The lines for one event that leaves place `j` and is of group `h`."""
        write, line = self._text.writer, self._text.writer.line
        line("touched[h] = True")
        if self._keys is not self.groups:
            line("keys_touched[p] = True")
        if self._behind:
            line("if not h_kept[j]: continue")
        taken(write, self._accumulators, self._arguments)

    def _declare(self, arrays: Mapping[str, str]) -> None:
        """The operator's parameters."""
        text = self._text
        text.own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]"}
        text.own |= {**self._pairs.parameters, **self._bags.parameters}
        text.names |= CALLS if self._bags else {}
        if self.groups.grouped:
            text.own["groups"] = "const int32[]"
        if self._keys is not self.groups:
            text.own |= {"keys": "const int32[]", "keys_touched": "bool[]"}
        if self._store is not None:
            text.own |= self._store.parameters
            text.own |= {} if self._links is None else self._links.parameters
            text.before += self._store.before
        if self._held is not None:
            text.names |= self._held.calls
            with text.apart("    ") as behind:
                self._held.write_end(text.writer, self._taken)
            text.after += (line.removeprefix("    ") for line in behind)
        if self._store is not None:
            text.after += self._store.after

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """One row for each chunk and group of it."""
        stretch = taking_part(given, self._key)
        if stretch is None:
            return None
        groups, queue = self.groups, self.queue
        size = stretch.size
        own = self._selected.room(size)
        if self._grouped:
            own["groups"], own["base"], own["alone"] = groups.numbers(stretch), self._chunks, stretch.alone
        if self._paired:
            own |= self._pairs.given(stretch)
        if self._bags:
            own |= self._bags.own(size)
        if self._keys is not groups:
            own |= {"keys": self._keys.numbers(stretch), "keys_touched": self._keys.touched}
        if queue is None:
            if self._held is not None:
                own |= self._held.given(stretch)
            self._loop(stretch, own, self._selected.held, groups.own)
        else:
            queue.room(size)
            if self._links is not None:
                own |= self._links.own()
            self._loop(stretch, own, self._selected.held, groups.own, queue.own)
        self._chunks += size if stretch.apart else int(stretch.chunk[-1]) + 1
        if groups.may_sweep:
            groups.sweep(_NO_GROUPS if self._store is None else self._store.held_groups())
        if self._keys is not groups and isinstance(queue, Chains) and self._keys.may_sweep:
            self._keys.sweep(queue.held_keys())
        if self._held is not None:
            self._held.sweep()
        if self._paired:
            self._pairs.sweep()
        return self._selected.stretch(stretch)

    def forget(self, keys: pa.Array) -> None:
        """Be as if some keys of the partition had never been."""
        if not self._accumulators:
            return  # groups then tell no more than which rows of a chunk come out
        groups = self.groups.of_keys(keys)
        if isinstance(self.queue, Chains):
            ids = groups if self._keys is self.groups else self._keys.number(keys)
            self._keys.touched[ids] = True
            self.queue.room(0)
            self.queue.forget(ids.astype(np.int64))
        self.groups.forget(groups)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, and the groups that were touched."""
        if self._store is not None:
            yield from self._store.changes()
        if self._keys is not self.groups:
            self._keys.touched[:] = False
        if self._accumulators:
            yield from self.groups.changes()
        yield from self._pairs.changes()
        yield from self._bags.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held, then the groups."""
        if self._store is not None:
            yield from self._store.contents(self._sharded)
        if self._keys is not self.groups:
            self._keys.touched[:] = False
        if self._accumulators:
            yield from self.groups.contents()
        yield from self._pairs.contents()
        yield from self._bags.contents()

    def apply(self, block: Block) -> None:
        """Put back events or groups."""
        if self._store is not None and block.element == self._window:
            self._store.apply(block)
        elif self._pairs.is_of(block):
            self._pairs.apply(block)
        elif not self._bags.apply(block):
            self.groups.apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self._store)

    def clear(self) -> None:
        """Forget all."""
        self.groups.clear()
        self._keys.clear()
        self._pairs.clear()
        self._bags.clear()
        if self._store is not None:
            self._store.clear()

    def size(self) -> dict[str, int]:
        """Events held, groups known."""
        held = {} if self._store is None else {self._window: len(self._store)}
        return {**held, self.groups.element: self.groups.size()} if self._accumulators else held


_NO_TERM = Term("")
_NO_GROUPS = np.zeros(0, np.int32)
