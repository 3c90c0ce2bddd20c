"""`output snapshot every t insert all events` behind a window: at each tick the rows of the events that are in the window, and what aggregators have come to by
then (semantics/selection.md#snapshots).

Events leave the windows that are here in the order in which they came, so that what rows look for among what they hold is always the oldest. What is shown:

- without aggregators the rows of all events;
- with some, and without groups, the same, each with what the aggregators have come to; with groups the oldest row of each;
- aggregators alone, without groups: one row, as long as the event that came or left last is one that came (`place` is then not 0), with its time (`at`);
- aggregators alone, with groups: a row of each, with the time of its last event, in the order in which they came (`place`). A tick forgets those that have no
  events.

A batch is taken in parts, up to each tick. What happens between them is written by `windowsnapshots` and `batchsnapshots`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.accumulating import Aggregator, accumulators, loaded
from nadi.kernel.columns.bounds import check_numbers
from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.distinct import Distinct, Pairs
from nadi.kernel.columns.filtering import write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.linking import Links
from nadi.kernel.columns.looping import Loop, LoopText
from nadi.kernel.columns.remembering import Extreme
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch, empty
from nadi.kernel.columns.texts import Texts
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.columns.windowsupport import aggregated
from nadi.plan.nodes import Attr, Const, Expr, Query, Selection, SingleInput, WindowCall

START, FIRED, GROUPS, OWN = range(4)
"""The first numbers of its state: when the app began, up to when ticks and timers have fired, how many groups aggregators alone show. The others, from
`OWN` on, are those of the window.
"""


NEVER = 2**63 - 1
Lines = Callable[[], None]
"""Writes lines."""


class Snapshots:
    """See the module's text. A window writes its lines and tells its numbers, what it keeps of events beside their rows, and which of them it shows."""

    removes: bool
    """Whether events are taken off aggregators one by one."""
    numbers: tuple[int, ...]
    """What its numbers are at first."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window, selection, rate = query.input.window, query.selection, query.rate
        assert window is not None  # as operators says
        assert rate is not None
        assert rate.every is not None
        self._every = rate.every
        self._drops = bool(given.behind) or selection.having is not None
        self._values = selection.values
        self._kinds = selection.schema.types
        self._summed = tuple(n for n, value in enumerate(selection.values) if aggregated(value))
        self._alone = len(self._summed) == len(selection.values)
        self._accumulators, self._arguments = accumulators(selection.aggregates, self.removes)
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr)) if selection.aggregates else ()
        self._arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        self._arrays |= {"at": "int64", "place": "int64"} if self._alone else {}
        self._groups = Groups(query.selector_id, by, tuple(given.types[p] for p in by), self._arrays)
        distinct = [a for a in self._accumulators if isinstance(a, Distinct)]
        self._pairs = Pairs(distinct, query.selector_id, by, given.types, False)
        self._texts = Texts()
        self._strings = self._of_strings(selection.values)
        named: dict[str, Groups | Texts] = {**self._pairs.named, **dict.fromkeys(self._strings, self._texts)}
        self._queue = Ring(window.id, {**self._held(), **self.kept(window)}, self._groups, named)
        extremes = [a for a in self._accumulators if isinstance(a, Extreme)]
        self._links = Links(extremes, self._queue, self._groups) if extremes else None
        self._numbers = Numbers(rate.id, 0, 0, 0, *self.numbers)
        self._nothing = empty(given.types, grouped=False)
        self._loop = self._written(window, given, selection).compiled("holding")
        self._shown = _showing(self._accumulators, self._arrays, self._values, self._summed)
        self._window, self._rate, self._selector = window.id, rate.id, query.selector_id
        self.elements = (window.id, rate.id, *([query.selector_id] if selection.aggregates else []))

    def _of_strings(self, values: Sequence[Expr]) -> dict[str, int]:
        """The columns that hold strings of events, and the attributes that they are."""
        if self._alone:
            return {}
        return {f"c{n}": v.position for n, v in enumerate(values) if isinstance(v, Attr) and v.type is Type.STRING}

    def _held(self) -> dict[str, str]:
        """What is held of an event: its time, what aggregators take off, its row."""
        held = {"ts": "int64", "kept": "bool"} if self._drops else {"ts": "int64"}
        for number, argument in enumerate(self._arguments):
            held |= {f"a{number}": DTYPES[argument.type], f"z{number}": "bool"}
        for number in self._plain:
            held |= {f"c{number}": DTYPES[self._kinds[number]], f"y{number}": "bool"}
        return held | dict.fromkeys((*self._pairs.named, *self._strings), "int32")

    @property
    def _plain(self) -> tuple[int, ...]:
        """The numbers and bools of a row that are no aggregators."""
        rest = (n for n in range(len(self._values)) if n not in self._summed)
        return tuple(n for n in rest if self._kinds[n] is not Type.STRING)

    # ---- the loop

    def _written(self, window: WindowCall, given: Input, selection: Selection) -> LoopText:
        text = LoopText(given.types)
        write, line = text.writer, text.writer.line
        write_filters(text, given)
        line("g = groups[i]" if self._groups.grouped else "g = 0")
        row = {n: write.term(self._values[n]) for n in self._plain}
        write.outputs = row
        having = () if selection.having is None else (having_of(selection),)
        kept = " and ".join(write.truth(condition) for condition in (*given.behind, *having))
        values = tuple(write.term(argument) for argument in self._arguments)

        def enter() -> None:
            for one in (*self._queue.append, "h_ts[j] = ts[i]"):
                line(one)
            if kept:
                line(f"h_kept[j] = {kept}")
            self._hold(write, values, row)
            line("touched[g] = True")

        def add() -> None:
            line(f"if {kept or 'True'}:")
            with write.indented():
                self._add(write, values, "g", "ts[i]")

        self.write_event(write, window, enter, add)
        with text.apart("    ") as behind:
            self.write_end(write)
        before, after = self.around()
        text.before += (*self._queue.before, f"seen_groups = state[{GROUPS}]", *before)
        text.after += (one.removeprefix("    ") for one in behind)
        text.after += (*after, *self._queue.after, f"state[{FIRED}] = limit", f"state[{GROUPS}] = seen_groups")
        text.own |= {name: f"{dtype}[]" for name, dtype in self._arrays.items()} | {"touched": "bool[]"}
        text.own |= {**self._queue.parameters, **self._pairs.parameters, "limit": "int64", "origin": "const int64[]"}
        text.own |= {} if self._links is None else self._links.parameters
        text.own |= {f"i{name[1:]}": "const int32[]" for name in self._strings}
        text.own |= dict.fromkeys(("state", "clock"), "int64[]")
        if self._groups.grouped:
            text.own["groups"] = "const int32[]"
        return text

    def kept(self, window: WindowCall) -> dict[str, str]:
        """What the window keeps of an event beside its row and time: name → dtype."""
        return {}

    def write_event(self, write: Writer, window: WindowCall, enter: Lines, add: Lines) -> None:
        """The lines for an event: what leaves, then itself. `enter` puts it into the queue, `add` to the aggregators, if filters let it."""
        raise NotImplementedError

    def write_end(self, write: Writer) -> None:
        """The lines for what happens behind the last event, up to `limit`."""

    def around(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The lines before and behind all others."""
        return (), ()

    def _add(self, write: Writer, values: Sequence[Term], group: str, ts: str) -> None:
        """The lines that add an event to its group."""
        for one in self._accumulators:
            one.add(write, Term("") if one.argument is None else values[one.argument], group)
        if self._alone:
            write.line(f"at[{group}] = {ts}")
            write.line(f"if place[{group}] == 0:")
            write.line("    seen_groups += 1")
            write.line(f"    place[{group}] = seen_groups")
        write.line(f"touched[{group}] = True")

    def _release(self, write: Writer, test: str, leave: Lines) -> None:
        """The lines that let events go, at the clock `x`, while a test holds; `leave` takes the one at place `j` off its group `h`."""
        write.line(f"while {self._queue.any_left} and {test}:")
        with write.indented():
            for one in (*self._queue.take, "touched[h] = True"):
                write.line(one)
            if self._drops:
                write.line("if not h_kept[j]: continue")
            leave()
            if self._alone:
                write.line("at[h] = x")
                if not self._groups.grouped:
                    write.line("place[h] = 0")

    def _hold(self, write: Writer, values: Sequence[Term], row: Mapping[int, Term]) -> None:
        """The lines that keep an event."""
        line = write.line
        for number, value in enumerate(values):
            line(f"h_a{number}[j] = {value.text}")
            line(f"h_z{number}[j] = {value.null or 'False'}")
        for one in self._accumulators:
            if isinstance(one, Distinct):
                line(f"h_e{one.number}[j] = {one.held(write)}")
        for number, term in row.items():
            line(f"h_c{number}[j] = {term.text}")
            line(f"h_y{number}[j] = {term.null or 'False'}")
        for name in self._strings:
            line(f"h_{name}[j] = i{name[1:]}[i]")

    # ---- a batch

    def begin(self, now: int) -> None:
        """Ticks count from here on."""
        self._numbers.held[START] = self._numbers.held[FIRED] = now

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """What is shown at the ticks that have come."""
        stretch = next(iter(given.values()), self._nothing)
        made: list[dict[str, Array]] = []
        at, n, tick = 0, len(stretch), self._tick(self._numbers.held[FIRED])
        while tick <= until:
            end = int(np.searchsorted(stretch.now, tick))
            self._run(stretch.part(at, end), _origin(stretch)[at:end], tick - 1)
            found, at = self._found(tick), end
            tick += self._every
            if found is not None:
                made.append(found)
            else:  # nothing is shown before the next event, or what the window does by itself
                following = int(stretch.now[at]) if at < n else until
                tick = max(tick, self._tick(min(following, self.wakes())))
        self._run(stretch if at == 0 else stretch.part(at, n), _origin(stretch)[at:], until)
        self._sweep()
        return self._stretch(made) if made else None

    def wakes(self) -> int:
        """When the window shows something by itself that it has not shown before an event came."""
        return NEVER

    def shows(self) -> int:
        """How many events at the front of the queue are shown, if filters let them."""
        return len(self._queue)

    def _tick(self, now: int) -> int:
        """The first tick behind a clock."""
        start = self._numbers.held[START]
        return start + ((now - start) // self._every + 1) * self._every

    def _run(self, stretch: Stretch, origin: Longs, limit: int) -> None:
        """Take events, and the timers behind them up to a time."""
        groups, n = self._groups, len(stretch)
        state = np.array(self._numbers.held, np.int64)
        own: dict[str, Array | int] = {"limit": limit, "state": state, "origin": origin, "clock": state[OWN + 1 :]}
        if groups.grouped:
            own["groups"] = groups.numbers(stretch) if n else _NO_GROUPS
        own |= self._pairs.given(stretch)
        own |= {f"i{name[1:]}": self._texts.ids(stretch.columns[p]) for name, p in self._strings.items()}
        self._queue.room(n)
        own |= {} if self._links is None else self._links.own()
        self._loop(stretch, own, groups.own, self._queue.own)
        self._numbers.held = state.tolist()

    def _sweep(self) -> None:
        if self._groups.may_sweep:
            self._groups.sweep(self._queue.held_groups())
        self._pairs.sweep()
        if self._texts.may_sweep:
            places, _groups = self._queue.places()
            self._texts.sweep(self._queue.arrays[name][places] for name in self._strings)

    # ---- what is shown

    def _found(self, tick: int) -> dict[str, Array] | None:
        """What a tick shows: the columns of rows by `c<number>` and `y<number>`, their times, the tick; None where that is nothing."""
        groups: Array
        if self._alone:
            self._forget()
            place = self._groups.arrays["place"]
            shown = np.flatnonzero(place)
            groups = shown[np.argsort(place[shown])].astype(np.int32)
            found = self._of_groups(groups)
            ts = self._groups.arrays["at"][groups]
        else:
            places, groups = self._held_now()
            if not self._summed:
                found = {}
            elif not self._groups.grouped:
                found = {name: np.repeat(array, len(places)) for name, array in self._of_groups(_ONE).items()}
            else:
                different, codes = coded(groups)
                oldest = np.empty(len(different), np.int64)
                oldest[codes[::-1]] = places[::-1]  # the oldest one of a group is written last
                places, found = oldest, self._of_groups(different)
            names = (*(f"{letter}{n}" for n in self._plain for letter in "cy"), *self._strings)
            found |= {name: self._queue.arrays[name][places] for name in names}
            ts = self._queue.arrays["ts"][places]
        return {**found, "ts": ts, "tick": np.full(len(ts), tick, np.int64)} if len(ts) else None

    def _held_now(self) -> tuple[Longs, Array]:
        """The events that are shown: their places in the queue, their groups."""
        places, groups = (one[: self.shows()] for one in self._queue.places())
        if self._drops:
            kept = self._queue.arrays["kept"][places]
            places, groups = places[kept], groups[kept]
        return places, groups

    def _forget(self) -> None:
        """Let go of the groups that have no events."""
        groups = self._groups
        if groups.grouped:
            gone = groups.arrays["place"] > 0
            gone[self._held_now()[1]] = False
            groups.arrays["place"][gone] = groups.arrays["at"][gone] = 0
            groups.touched |= gone

    def _of_groups(self, groups: Array) -> dict[str, Array]:
        """What the aggregators of some groups have come to, as columns."""
        size = len(groups)
        made: dict[str, Array] = {f"c{n}": np.empty(size, DTYPES[self._kinds[n]]) for n in self._summed}
        made |= {f"y{n}": np.empty(size, np.bool_) for n in self._summed}
        times = np.zeros(size, np.int64)
        self._shown(Stretch((), times, times, times), {**made, "of": groups}, self._groups.own)
        return made

    def _stretch(self, made: list[dict[str, Array]]) -> Stretch:
        """What some ticks show, each as a chunk."""
        whole = {name: np.concatenate([one[name] for one in made]) for name in made[0]}
        columns = []
        for n, (value, kind) in enumerate(zip(self._values, self._kinds, strict=True)):
            if kind is not Type.STRING:
                columns.append(Column(None, whole[f"c{n}"], whole[f"y{n}"]))
            elif f"c{n}" in self._strings:
                columns.append(self._texts.column(whole[f"c{n}"]))
            else:
                assert isinstance(value, Const)  # as islands says
                columns.append(Column(pa.repeat(pa.scalar(value.value, pa.string()), len(whole["ts"]))))
        chunk = np.repeat(np.arange(len(made)), [len(one["ts"]) for one in made])
        return Stretch(tuple(columns), whole["ts"], whole["tick"], chunk)

    def next_timer(self) -> int | None:
        """The next tick that shows something."""
        held = self._numbers.held
        if self.shows() or (self._alone and self._groups.arrays["place"].any()):
            return self._tick(held[FIRED])
        return None if self.wakes() == NEVER else self._tick(max(held[FIRED], self.wakes()))

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The clocks, what left and what came, the groups that were touched."""
        yield from self._numbers.changes()
        yield from self._queue.changes()
        if self._accumulators:
            yield from self._groups.changes()
        yield from self._pairs.changes()

    def contents(self) -> Iterator[Block]:
        """The clocks, all events, all groups."""
        yield from self._numbers.contents()
        yield from self._queue.contents(sharded=False)
        if self._accumulators:
            yield from self._groups.contents()
        yield from self._pairs.contents()

    def apply(self, block: Block) -> None:
        """Put back the clocks, events or groups."""
        if block.element == self._rate:
            self._numbers.apply(block)
        elif block.element == self._window:
            self._queue.apply(block)
        elif self._pairs.is_of(block):
            self._pairs.apply(block)
        else:
            self._groups.apply(block)

    def check(self) -> None:
        """What is shown is held. Raises ValueError where that is not so."""
        if not 0 <= self.shows() <= len(self._queue):
            raise ValueError("more events are shown than there are")
        if self._alone:
            places = self._groups.arrays["place"]
            check_numbers(places, "'place'")
            check_numbers(
                np.array(self._numbers.held[GROUPS]).reshape(1), "how many groups are shown", int(places.max())
            )

    def clear(self) -> None:
        """Forget all."""
        for one in (self._numbers, self._queue, self._groups, self._pairs, self._texts):
            one.clear()

    def size(self) -> dict[str, int]:
        """Events in the window, groups known."""
        held = {self._window: len(self._queue), self._rate: 1}
        return {**held, self._selector: self._groups.size()} if self._accumulators else held


def _origin(stretch: Stretch) -> Longs:
    """The arrival of each event."""
    return stretch.chunk if stretch.origin is None else stretch.origin


def _showing(
    aggregators: Sequence[Aggregator], arrays: Mapping[str, str], values: Sequence[Expr], summed: Sequence[int]
) -> Loop:
    """The loop that writes what the aggregators of some groups have come to."""
    text = LoopText(())
    write, line = text.writer, text.writer.line
    line("g = of[i]")
    for one in aggregators:
        loaded(write, one, "g")
    write.aggregates = {one.number: one.shown(write) for one in aggregators}
    for n in summed:
        term = write.term(values[n])
        line(f"c{n}[i] = {term.text}")
        line(f"y{n}[i] = {term.null or 'False'}")
        text.own |= {f"c{n}": f"{DTYPES[values[n].type]}[]", f"y{n}": "bool[]"}
    text.own |= {name: f"{dtype}[]" for name, dtype in arrays.items()} | {"of": "const int32[]"}
    return text.compiled("showing")


_NO_GROUPS = np.zeros(0, np.int32)
_ONE = np.zeros(1, np.int32)
