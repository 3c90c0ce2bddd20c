"""The operator of aggregators over a sliding window, or over all events where there is none (language text §5, §6).

One loop does it all: filters, what leaves the window, what comes, the selection. Only what leaving events need is held: their timestamp, group and the
arguments of the aggregators. Only current events come out, so that a timer that lets events go would show nothing: they go before the next event instead,
in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.accumulating import accumulators
from nadi.kernel.columns.code import Term
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.filtering import write_filters
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups, coded
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.selecting import Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import DTYPES, Array, Stretch
from nadi.plan.nodes import Attr, Const, Query, SingleInput, WindowCall


class Sliding:
    """`from S[…]#window.time(…) select …, avg(x) … group by …`; also `length`, `timeLength`, and no window."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window, selection = query.input.window, query.selection
        self._read = given.read
        self._window = "" if window is None else window.id
        self._text = LoopText(given.types)
        self._accumulators, self._arguments = accumulators(selection.aggregates)
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr))
        self._grouped = bool(by)
        arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        self.groups = Groups(query.selector_id, by, tuple(given.types[p] for p in by), arrays)
        self.ring = Ring(self._held() if window is not None else {"ts": "int64"})
        self._write(given, window)
        picked = SelectionText(self._text, selection, Rule.GROUP if self._grouped else Rule.CHUNK)
        self._picked = picked.picked
        self._finish(arrays, window is not None)
        self._loop = self._text.compiled("sliding")
        self._chunks = 0  # how many chunks there were, at least: `opened` of the groups has their numbers
        self.elements = tuple(e for e in (self._window, self.groups.element) if e)

    # ---- the loop

    def _held(self) -> dict[str, str]:
        """What is held of an event."""
        held = {"ts": "int64"}
        if self._grouped:
            held["group"] = "int32"
        for number, argument in enumerate(self._arguments):
            held |= {f"a{number}": DTYPES[argument.type], f"z{number}": "bool"}
        return held

    def _write(self, given: Input, window: WindowCall | None) -> None:
        write, line = self._text.writer, self._text.writer.line
        write_filters(self._text, given)
        line("g = groups[i]" if self._grouped else "g = 0")
        values = tuple(write.term(argument) for argument in self._arguments)
        if window is not None:
            self._leave(window)
            line("h_ts[tail] = ts[i]")
            if self._grouped:
                line("h_group[tail] = g")
            for number, value in enumerate(values):
                line(f"h_a{number}[tail] = {value.text}")
                line(f"h_z{number}[tail] = {value.null or 'False'}")
            line("tail += 1")
        for one in self._accumulators:
            one.add(write, _NO_TERM if one.argument is None else values[one.argument], "g")
        line("touched[g] = True")
        write.aggregates = {one.number: one.shown(write) for one in self._accumulators}

    def _leave(self, window: WindowCall) -> None:
        """The lines for what leaves before an event comes: by time, then by length."""
        numbers = [argument.value for argument in window.args if isinstance(argument, Const)]
        line = self._text.writer.line
        tests = []
        if window.name != "length":
            line(f"before = now[i] - {numbers[0]}")
            tests.append("h_ts[head] <= before")
        if window.name != "time":
            tests.append(f"tail - head >= {numbers[-1]}")
        line(f"while head < tail and ({' or '.join(tests)}):")
        self._text.writer.indent += "    "
        self._taken()
        self._text.writer.indent = self._text.writer.indent[:-4]

    def _taken(self) -> None:
        """The lines for one event that leaves."""
        write, line = self._text.writer, self._text.writer.line
        line("h = h_group[head]" if self._grouped else "h = 0")
        values = []
        for number, argument in enumerate(self._arguments):
            convert = {"i": "int", "f": "float"}[np.dtype(DTYPES[argument.type]).kind]
            line(f"b{number} = {convert}(h_a{number}[head])")
            line(f"y{number} = h_z{number}[head]")
            values.append(Term(f"b{number}", f"y{number}"))
        line("head += 1")
        line("touched[h] = True")
        for one in self._accumulators:
            one.take(write, _NO_TERM if one.argument is None else values[one.argument], "h")
        sums = [f"s{a.number}" for a in self._accumulators if a.arrays.get(f"s{a.number}") == "float64"]
        if sums:  # a group that is as if it had seen nothing begins anew: its sums are 0.0 and not -0.0
            line(f"if {' and '.join(a.fresh() for a in self._accumulators)}:")
            for name in sums:
                line(f"    {name}[h] = 0.0")

    def _finish(self, arrays: Mapping[str, str], windowed: bool) -> None:
        text = self._text
        own = {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"touched": "bool[]"}
        if self._grouped:
            own["groups"] = "const int32[]"
        if windowed:
            own |= {f"h_{name}": f"{dtype}[]" for name, dtype in self._held().items()} | {"ends": "int64[]"}
            text.before += ["head = ends[0]", "tail = ends[1]"]
            text.after += ["ends[0] = head", "ends[1] = tail"]
        text.own |= own

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """One row for each chunk and group of it."""
        (stretch,) = given.values()
        selected = Selected(self._picked, len(stretch))
        own: dict[str, Array | int] = {**selected.own, "base": self._chunks, "alone": stretch.alone}
        if self._grouped:
            own["groups"] = self.groups.numbers(stretch)
            own |= {"opened": self.groups.opened, "slot": self.groups.slot}
        if self._window:
            self.ring.room(len(stretch))
            own |= {f"h_{name}": array for name, array in self.ring.arrays.items()}
            own["ends"] = self.ring.ends
        self._loop(stretch, {**own, **self.groups.arrays, "touched": self.groups.touched})
        self._chunks += int(stretch.chunk[-1]) + 1
        if self._grouped:
            self.groups.sweep(self._held_groups())
        return selected.stretch(stretch, self._read)

    def _held_groups(self) -> Array:
        head, tail = self.ring.ends.tolist()
        return self.ring.arrays["group"][head:tail] if self._window else np.zeros(0, np.int32)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, and the groups that were touched."""
        if self._window:
            taken, came = self.ring.changes()
            if taken or came.stop > came.start:
                yield self._queued(came, taken)
        yield from self.groups.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held, then the groups."""
        if self._window:
            size = sum(array.itemsize for array in self.ring.arrays.values())
            for number, part in enumerate(self.ring.parts(BLOCK_BYTES // size)):
                yield self._queued(part, 0, keys=int(number == 0))
        yield from self.groups.contents()

    def _queued(self, part: slice, taken: int, keys: int = 0) -> Block:
        arrays = {name: array[part] for name, array in self.ring.arrays.items()}
        if self._grouped:
            different, arrays["group"] = coded(arrays["group"], self.groups.keys.room)
            arrays |= self.groups.named(different)
        return Block(self._window, 0, "q", {"taken": np.array([taken], np.int64), **arrays}, keys)

    def apply(self, block: Block) -> None:
        """Put back events or groups."""
        if block.element != self._window:
            self.groups.apply(block)
            return
        arrays = dict(block.arrays)
        if self._grouped:
            arrays["group"] = self.groups.numbers_of(block)[block.arrays["group"]]
        self.ring.apply(int(block.arrays["taken"][0]), arrays)

    def clear(self) -> None:
        """Forget all."""
        self.ring.clear()
        self.groups.clear()

    def size(self) -> dict[str, int]:
        """Events held, groups known."""
        held = {self._window: len(self.ring)} if self._window else {}
        return {**held, self.groups.element: self.groups.size()}


_NO_TERM = Term("")
