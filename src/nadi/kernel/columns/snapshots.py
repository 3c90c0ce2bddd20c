"""`output snapshot every t insert all events` behind a sliding window: at each tick the rows of the events that are in the window, and what aggregators have
come to by then (language text §14).

An event leaves the window in the order in which it came, so that what rows look for among what they hold is always the oldest. What is shown:

- without aggregators the rows of all events;
- with some, and without groups, the same, each with what the aggregators have come to; with groups the newest row of each, in the order of their oldest;
- aggregators alone: a row of each group that has ever been, with the time of the last event that came or left (`at` by group, `place` their order).

A batch is taken in parts, up to each tick. Between two events timers let go of what is late: in `time` an event that is later than all before sets one
(`wake`); `w` is the first event whose timer may still fire, `late` the clock of one that was due already when its event came, and fires behind the arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.accumulating import Aggregator, accumulators, loaded, taken
from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.distinct import Distinct, Pairs
from nadi.kernel.columns.filtering import write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups, coded
from nadi.kernel.columns.limiting import Numbers
from nadi.kernel.columns.linking import Links
from nadi.kernel.columns.looping import Loop, LoopText
from nadi.kernel.columns.remembering import Extreme
from nadi.kernel.columns.ring import Ring
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch, empty
from nadi.kernel.columns.texts import Texts
from nadi.lang.tree import Type
from nadi.plan.islands import having_of
from nadi.plan.islandwindows import aggregated
from nadi.plan.nodes import Attr, Const, Expr, Query, Selection, SingleInput, WindowCall

START, FIRED, LATEST, SEEN, GROUPS = range(5)
"""The numbers of its state: when the app began, up to when ticks and timers have fired, the latest time of an event, whether there was one, how many groups."""


class SnapshotOfWindow:
    """See the module's text."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window, selection, rate = query.input.window, query.selection, query.rate
        assert window is not None  # as operators says
        assert rate is not None
        assert rate.every is not None
        self._every, self._timed, self._external = rate.every, window.name == "time", window.name == "externalTime"
        self._drops = bool(given.behind) or selection.having is not None
        self._values = selection.values
        self._kinds = selection.schema.types
        self._summed = tuple(n for n, value in enumerate(selection.values) if aggregated(value))
        self._alone = len(self._summed) == len(selection.values)
        self._accumulators, self._arguments = accumulators(selection.aggregates, removes=True)
        by = tuple(key.position for key in selection.group_by if isinstance(key, Attr)) if selection.aggregates else ()
        self._arrays = {name: dtype for a in self._accumulators for name, dtype in a.arrays.items()}
        self._arrays |= {"at": "int64", "place": "int64"} if self._alone else {}
        self._groups = Groups(query.selector_id, by, tuple(given.types[p] for p in by), self._arrays)
        distinct = [a for a in self._accumulators if isinstance(a, Distinct)]
        self._pairs = Pairs(distinct, query.selector_id, by, given.types, False)
        self._texts = Texts()
        self._strings = self._of_strings(selection.values)
        named: dict[str, Groups | Texts] = {**self._pairs.named, **dict.fromkeys(self._strings, self._texts)}
        self._queue = Ring(window.id, self._held(), self._groups, named)
        extremes = [a for a in self._accumulators if isinstance(a, Extreme)]
        self._links = Links(extremes, self._queue, self._groups) if extremes else None
        self._numbers = Numbers(rate.id, 0, 0, 0, 0, 0)
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
        held |= {"wake": "bool"} if self._timed else {}
        held |= {"time": "int64"} if self._external else {}
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
        text, queue = LoopText(given.types), self._queue
        write, line = text.writer, text.writer.line
        write_filters(text, given)
        line("g = groups[i]" if self._groups.grouped else "g = 0")
        row = {n: write.term(self._values[n]) for n in self._plain}
        write.outputs = row
        having = () if selection.having is None else (having_of(selection),)
        kept = " and ".join(write.truth(condition) for condition in (*given.behind, *having))
        values = tuple(write.term(argument) for argument in self._arguments)
        clock = self._leave(write, window)
        for one in (*queue.append, "h_ts[j] = ts[i]"):
            line(one)
        if self._external:
            line(f"h_time[j] = {clock}")
        if kept:
            line(f"h_kept[j] = {kept}")
        self._wake(write)
        self._hold(write, values, row)
        line("touched[g] = True")
        if kept:
            line(f"if not ({kept}): continue")
        for one_of in self._accumulators:
            one_of.add(write, Term("") if one_of.argument is None else values[one_of.argument], "g")
        if self._alone:
            line("at[g] = ts[i]")
            line("if place[g] == 0:")
            line("    seen_groups += 1")
            line("    place[g] = seen_groups")
        with text.apart("    ") as behind:
            self._fire(write, "limit")
        text.before += (*queue.before, f"latest = state[{LATEST}]", f"seen = state[{SEEN}]", "late = -1", "opened = -1")
        text.before += (f"seen_groups = state[{GROUPS}]", "w = head", f"fired = state[{FIRED}]")
        text.after += (one.removeprefix("    ") for one in behind)
        text.after += (*queue.after, f"state[{LATEST}] = latest", f"state[{SEEN}] = seen")
        text.after += (f"state[{GROUPS}] = seen_groups", f"state[{FIRED}] = limit")
        self._declare(text)
        return text

    def _declare(self, text: LoopText) -> None:
        text.own |= {name: f"{dtype}[]" for name, dtype in self._arrays.items()} | {"touched": "bool[]"}
        text.own |= {**self._queue.parameters, **self._pairs.parameters, "state": "int64[]", "limit": "int64"}
        text.own |= {} if self._links is None else self._links.parameters
        text.own |= {f"i{name[1:]}": "const int32[]" for name in self._strings} | {"origin": "const int64[]"}
        if self._groups.grouped:
            text.own["groups"] = "const int32[]"

    def _leave(self, write: Writer, window: WindowCall) -> str:
        """The lines for what leaves before an event comes; -> what tells its time to the window."""
        (number,) = (a.value for a in window.args if isinstance(a, Const) and isinstance(a.value, int))
        queue, clock = self._queue, "now[i]"
        if window.name == "externalTime":
            clock = write.term(window.args[0]).text
            test = f"{clock} >= {LONG_MIN + number} and h_time[{queue.oldest}] <= {clock} - {number}"
        elif window.name == "length":
            test = f"{queue.held} >= {number}"
        else:
            self._time = number
            write.line("if origin[i] != opened:")
            with write.indented():
                self._fire(write, "now[i]")
                write.line("opened = origin[i]")
            test = f"h_ts[{queue.oldest}] <= now[i] - {self._time}"
        write.line(f"x = {clock}")
        self._release(write, test)
        return clock

    def _release(self, write: Writer, test: str) -> None:
        """The lines that let events go, at the clock `x`."""
        write.line(f"while {self._queue.any_left} and {test}:")
        with write.indented():
            for one in (*self._queue.take, "touched[h] = True"):
                write.line(one)
            if self._drops:
                write.line("if not h_kept[j]: continue")
            taken(write, self._accumulators, self._arguments)
            if self._alone:
                write.line("at[h] = x")

    def _fire(self, write: Writer, limit: str) -> None:
        """The lines for the window's timers up to a time."""
        if not self._timed:
            return
        line, queue = write.line, self._queue
        line("while True:")
        with write.indented():
            line("if late >= 0:")
            line("    x = late")
            line("    late = -1")
            line("else:")
            with write.indented():
                line("if w < head: w = head")
                line(f"while w < tail and (not h_wake[w & mask] or h_ts[w & mask] + {self._time} <= fired): w += 1")
                line(f"if w == tail or h_ts[w & mask] + {self._time} > {limit}: break")
                line(f"x = h_ts[w & mask] + {self._time}")
                line("w += 1")
            self._release(write, f"h_ts[{queue.oldest}] <= x - {self._time}")

    def _wake(self, write: Writer) -> None:
        """The lines for the timer that an event sets, if it does."""
        if not self._timed:
            return
        line = write.line
        line("h_wake[j] = False")
        line("if seen == 0 or ts[i] > latest:")
        line("    seen = 1")
        line("    latest = ts[i]")
        line(f"    if ts[i] + {self._time} > now[i]: h_wake[j] = True")
        line("    else: late = now[i]")

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
            if (found := self._found(tick)) is not None:
                made.append(found)
            at, tick = end, tick + self._every
            if found is None and not len(self._queue):  # nothing happens before the next event
                tick = max(tick, self._tick(int(stretch.now[at]) if at < n else until))
        self._run(stretch if at == 0 else stretch.part(at, n), _origin(stretch)[at:], until)
        self._sweep()
        return self._stretch(made) if made else None

    def _tick(self, now: int) -> int:
        """The first tick behind a clock."""
        start = self._numbers.held[START]
        return start + ((now - start) // self._every + 1) * self._every

    def _run(self, stretch: Stretch, origin: Longs, limit: int) -> None:
        """Take events, and the timers behind them up to a time."""
        groups, n = self._groups, len(stretch)
        state = np.array(self._numbers.held, np.int64)
        own: dict[str, Array | int] = {"limit": limit, "state": state, "origin": origin}
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
        if self._alone:
            place = self._groups.arrays["place"]
            shown = np.flatnonzero(place)
            groups = shown[np.argsort(place[shown])].astype(np.int32)
            found = self._of_groups(groups)
            ts = self._groups.arrays["at"][groups]
        else:
            places, groups = self._queue.places()
            if self._drops:
                kept = self._queue.arrays["kept"][places]
                places, groups = places[kept], groups[kept]
            if not self._summed:
                found = {}
            elif not self._groups.grouped:
                found = {name: np.repeat(array, len(places)) for name, array in self._of_groups(_ONE).items()}
            else:
                different, codes = coded(groups, self._groups.room)
                newest = np.empty(len(different), np.int64)
                newest[codes] = places  # the newest one of a group comes last
                places, found = newest, self._of_groups(different)
            names = (*(f"{letter}{n}" for n in self._plain for letter in "cy"), *self._strings)
            found |= {name: self._queue.arrays[name][places] for name in names}
            ts = self._queue.arrays["ts"][places]
        return {**found, "ts": ts, "tick": np.full(len(ts), tick, np.int64)} if len(ts) else None

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
        return self._tick(held[FIRED]) if len(self._queue) or held[GROUPS] else None

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
