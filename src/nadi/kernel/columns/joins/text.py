"""The loop of a join as text: each event of a batch enters its window, and then meets what the other side holds (semantics/joins.md#who-meets-whom)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.bags import CALLS
from nadi.kernel.columns.code import Prepared, Term, Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.joins import early, places
from nadi.kernel.columns.joins.chunktext import ChunkText
from nadi.kernel.columns.joins.layout import Layout, Side, leaving, null_columns, read_columns, strings
from nadi.kernel.columns.joins.places import AFTER, BITS, COUNT, FIXED, HASH, HEAD, NEXT, ROW, TS
from nadi.kernel.columns.joins.totalling import Totalling
from nadi.kernel.columns.patterns.picking import Interned, Picked, dtypes
from nadi.kernel.columns.selecting import Computed, Same
from nadi.kernel.columns.stretch import DTYPES
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Const, Expr

_CALLED: dict[str, object] = {
    name: getattr(places, name)
    for name in ("mixed", "bucket", "made", "enter", "pop", "expire", "fire", "timer", "due", "fired")
}
_CALLED |= {name: getattr(early, name) for name in ("overflow", "fire_early", "due_early", "fired_early")}
_OF_SOURCE = {
    "ts": "const int64[]",
    "now": "const int64[]",
    "chunk": "const int64[]",
    "group": "const int64[]",
    "key": "const int32[]",
}
"""Of each source, with its number behind the name."""
_FIXED = {"base": "int64", "stop": "int64[]"}
"""`base`: what the batch's chunks are counted on from. `stop`: where to begin, and where the loop stopped for want of room, as the names below say."""
_STOP = ("i_0", "i_1", "k", "begin", "node", "found", "run", "last_chunk", "last_key", "serial")
MADE, SERIAL = _STOP.index("k"), _STOP.index("serial")
"""The events to begin with; how many output rows there are; the side (from 1) that had been begun, the node that it had come to, whether one before it met
the event; the run of a key, its chunk and its key; a number for what each event brings. Behind these stand the names of `ChunkText`."""
_HELD = {
    "words": "int64[]",
    "floats": "float64[]",
    "rows": "int64[]",
    "heads": "int64[]",
    "meta": "int64[]",
    "touched": "bool[]",
}
"""Of each side that is held, with its slot behind the name."""

_FLOATS = (Type.FLOAT, Type.DOUBLE)
_ZERO = {Type.FLOAT: "0.0", Type.DOUBLE: "0.0", Type.BOOL: "False"}


class JoinText:
    """Writes the loop. What it found: `picked`, the output columns; what Arrow is to compare before.

    `staged`: some events come when their batch ends; `place` tells of each with which arrival, or between which ones.
    """

    def __init__(self, layout: Layout, grouped: bool, ordered: bool = False, staged: bool = False) -> None:
        self._layout = layout
        self.staged = staged
        self._now = "clock"  # up to when timers have fired
        self._ordered = ordered
        self._made = {"ts_out": "int64", "opened": "int64", "now_out": "int64"}
        self._made |= {"group_out": "int64"} if grouped else {}
        self._made |= {"event_out": "int64"} if ordered else {}
        self._writer = Writer(layout.sources.types)
        self._own: dict[str, str] = {}
        self._both = len(layout.sources.names) == 1
        self._chunks = ChunkText(layout, self._writer)
        self.stop = (*_STOP, *self._chunks.names)
        self.picked = _picked(layout.sides[0].values)
        self.totalling = Totalling(layout, self._writer) if layout.aggregates or layout.grouped else None
        self._summing = self.totalling if layout.aggregates else None  # what events that leave are taken off
        self._write()
        held = {f"{name}{s.slot}": dtype for s in layout.sides if s.held for name, dtype in _HELD.items()}
        held |= {f"early{s.slot}": "int64[]" for s in layout.sides if s.held and s.most is not None}
        of_source = _OF_SOURCE | ({"place": "const int64[]"} if staged else {})
        given = {f"{name}_{n}": dtype for n in range(len(layout.sources.names)) for name, dtype in of_source.items()}
        self.made = {**self._made, **dtypes(self.picked)}
        if self.totalling is not None:
            given |= self.totalling.parameters
        own = {**self._own, **{name: f"{dtype}[]" for name, dtype in self.made.items()}}
        parts = (_FIXED, given, held, self._writer.parameters, own)
        parameters = {name: dtype for part in parts for name, dtype in part.items()}
        assert len(parameters) == sum(map(len, parts)), "two parameters of a join have one name"
        more = " or ".join(f"i_{n} < len(ts_{n})" for n in range(len(layout.sources.names)))
        self.source = "\n".join(
            [
                f"def join({', '.join(parameters)}):",
                *(f"    {line}" for line in self._writer.opening),
                *(f"    {name} = stop[{n}]" for n, name in enumerate(self.stop) if name != "found"),
                f"    found = stop[{_STOP.index('found')}] != 0",
                f"    while {more}:",
                *self._writer.lines,
                *(f"    stop[{_STOP.index(name)}] = {name}" for name in ("i_0", "i_1", "k", "serial")),
                "",
            ]
        )
        called = {**_CALLED, **(CALLS if self.totalling is not None and self.totalling.ranked else {})}
        self.call: Any = generated(
            self.source, "join", list(parameters.items()), {**COMPILED, **called}, {**PLAIN, **called}
        )
        self.parameters = tuple(parameters)

    @property
    def prepared(self) -> list[Prepared]:
        """Comparisons of strings that are made before the loop runs."""
        return self._writer.prepared

    # ---- the loop

    def _write(self) -> None:
        layout = self._layout
        self._writer.line("resumed = begin")
        self._writer.line("begin = 0")
        for number in range(len(layout.sources.names)):
            if number == 0 and not self._both:
                self._writer.open("if i_1 >= len(ts_1) or (i_0 < len(ts_0) and chunk_0[i_0] < chunk_1[i_1]):")
            elif not self._both:
                self._writer.open("else:")
            self._event(number)
            if not self._both:
                self._writer.close()

    def _event(self, number: int) -> None:
        """The next event of a source."""
        sides = [side for side in self._layout.sides if side.source == number]
        self._writer.line(f"i = i_{number}")
        self._writer.line(f"i_{number} += 1")
        if self._layout.partitioned:
            self._writer.line(f"g = int(key_{number}[i])")
            self._writer.line("if g < 0: continue")
        else:
            self._writer.line("g = 0")
        self._chunks.run(number)
        self._writer.line(f"at = g * {ROW}")
        self._writer.line(f"ts, now = ts_{number}, now_{number}")  # as functions of clocks call them
        self._writer.line("t = int(ts[i])")
        self._writer.line("clock = int(now[i])")
        self._writer.line(f"arrival = base + int({'place' if self.staged else 'chunk'}_{number}[i]) + 1")
        # a batch that ends by time does so before the timers that the other side, where it is the right one, has at this very time
        self._now = "clock - 1" if any(side.slot == 0 and side.period is not None for side in sides) else "clock"
        if self._summing is not None:
            self._catch_up(self._summing)
        for side in self._layout.sides:
            self._chunks.lapse(side, f"<= {self._now}")
        self._load(sides)
        for side in sides:
            self._side(side)

    def _load(self, sides: list[Side]) -> None:
        """The attributes at hand that anything reads, before any branch."""
        writer, layout = self._writer, self._layout
        for side in sides:
            if side.group and side.group_text.startswith("y"):
                self._own[f"y{side.slot}"] = "const int32[]"
                writer.line(f"{side.group_text} = int(y{side.slot}[i])")
        for column in dict.fromkeys(c for side in sides for c in strings(layout, side)):
            self._own[f"t{column}"] = "const int32[]"
            self._writer.line(f"s_{column} = int(t{column}[i])")
            writer.bound[0, column] = Term(f"s_{column}", writer.null_of(column))
        for side in sides:
            for column in read_columns(layout, side):
                writer.term(Attr(0, column, layout.sources.types[column]))
            for column in null_columns(layout, side):
                writer.null_of(column)

    def _side(self, side: Side) -> None:
        """An event of a side: it enters its window, then those that it meets. What was begun before the loop stopped is gone on with."""
        other = self._layout.sides[1 - side.slot]
        meets = side.triggers and (other.held or side.outer)
        if not (side.held or meets):
            return
        self._writer.line("meets = False")
        self._writer.open("if resumed == 0:" if side.slot == 0 else "if resumed != 2:")
        blocks = self._writer.open_all(side.filters)
        if side.batches:
            self._chunks.begin(side, self._summing)
        if side.held:
            self._enter(side)
        if meets:
            self._begin(side, other)
            self._writer.line("meets = True")
        self._writer.close(blocks + 1)
        if meets:
            self._writer.open(f"if meets or resumed == {side.slot + 1}:")
            self._meet(side, other)
            self._writer.close()

    # ---- the window of a side

    def _enter(self, side: Side) -> None:
        """The event at hand enters: the late ones leave before it."""
        n = side.slot
        queue = f"words{n}, rows{n}, at, meta{n}"
        bits, span = ["0"], "" if side.batches else self._writer.number(side.span)
        if side.timed:
            self._let_go(
                side,
                f"while rows{n}[at + {HEAD}] != 0 and words{n}[rows{n}[at + {HEAD}] + {TS}] <= clock - {span}:",
            )
            if side.most is not None:
                self._writer.line(f"expire(words{n}, early{n}, at, meta{n}, heads{n}, clock - {span})")
                self._let_go(side, f"if rows{n}[at + {COUNT}] >= {self._writer.number(side.most)}:", "overflow")
            self._writer.line(f"bits = timer(rows{n}, at, t, clock, {span}, arrival)")
            bits = ["bits"]
        elif side.clock is not None:
            time = self._term(side, side.clock).text
            first = f"words{n}[rows{n}[at + {HEAD}] + {side.word(side.clock)}]"
            # all are longs: what would be beyond them is never due
            never = self._writer.number(LONG_MIN + side.span)
            self._let_go(
                side,
                f"while rows{n}[at + {HEAD}] != 0 and {time} >= {never} and {first} <= {time} - {span}:",
            )
        elif not side.batches:
            self._let_go(side, f"if rows{n}[at + {COUNT}] >= {span}:")
        self._writer.line(f"entered = made({queue})")
        self._writer.line(f"words{n}[entered + {TS}] = t")
        for position in side.captured:
            term = self._term(side, position)
            memory = "floats" if side.types[position] in _FLOATS else "words"
            self._writer.line(f"{memory}{n}[entered + {side.word(position)}] = {term.text}")
            bits.append(f"({1 << side.null_bit(position)} if {term.null} else 0)")
        self._writer.line(f"words{n}[entered + {BITS}] = {' | '.join(bits)}")
        if side.owner_word:
            self._writer.line(f"words{n}[entered + {side.owner_word}] = g")
        if side.group:
            self._writer.line(f"words{n}[entered + {side.group_word}] = {side.group_text}")
        if side.index:
            self._writer.line(f"words{n}[entered + {FIXED + HASH}] = 0")
            self._writer.open(f"if not ({self._unequal(side)}):")
            self._writer.line(f"enter(words{n}, heads{n}, meta{n}, entered, {self._hash(side)})")
            self._writer.close()
        self._writer.line(f"touched{n}[g] = True")

    def _let_go(self, side: Side, head: str, how: str = "pop") -> None:
        """The oldest event of a side leaves; where there are aggregators, what it is joined with is taken off."""
        n = side.slot
        queues = f"rows{n}" if how == "pop" else f"rows{n}, early{n}"
        call = f"{how}(words{n}, {queues}, at, meta{n}, heads{n})"
        self._writer.open(head)
        if self._summing is not None:
            self._leave(side, self._summing, call)
        else:
            self._writer.line(call)
        self._writer.close()

    def _leave(self, side: Side, totalling: Totalling, call: str) -> None:
        n, other = side.slot, self._layout.sides[1 - side.slot]
        self._writer.line(f"gone = rows{n}[at + {HEAD}]")
        self._recall(side, 2, "gone", "e")
        if side.index:
            self._writer.line(f"hashed = words{n}[gone + {FIXED + HASH}] - 1")
        if side.group:
            self._writer.line(f"group_gone = words{n}[gone + {side.group_word}]")
        self._writer.line(call)
        self._writer.line(f"touched{n}[g] = True")
        if not (side.triggers and (other.held or side.outer)):
            return
        self._writer.line("found = False")
        if other.held:
            bucket = f"heads{other.slot}[bucket(meta{other.slot}, hashed)] if hashed >= 0 else 0"
            self._writer.line(f"node = {bucket if other.index else f'rows{other.slot}[at + {HEAD}]'}")
            with self._walked(other):
                blocks = self._writer.open_all(leaving(part, side.slot) for part in self._layout.on)
                totalling.take(side, "group_gone", self._group_of(other))
                self._writer.line("found = True")
                self._writer.close(blocks)
        if side.outer:
            self._writer.open("if not found:")
            self._absent(other)
            totalling.take(side, "group_gone", "null_id")
            self._writer.close()

    def _catch_up(self, totalling: Totalling) -> None:
        """What timers have let go since a key was looked at last leaves, timer by timer, as what it is joined with follows from that."""
        timed = [side for side in self._layout.sides if side.held and side.timed]
        if not timed:
            return
        self._writer.open("if resumed == 0:")
        for side in timed:
            self._writer.line(f"late_{side.slot} = -(1 << 62)")
        self._writer.open("while True:")
        for side in timed:
            n = side.slot
            self._let_go(
                side, f"while rows{n}[at + {HEAD}] != 0 and words{n}[rows{n}[at + {HEAD}] + {TS}] <= late_{n}:"
            )
        spans = {side.slot: self._writer.number(side.span) for side in timed}
        for side in timed:
            n = side.slot
            call = f"due(words{n}, rows{n}," if side.most is None else f"due_early(words{n}, rows{n}, early{n},"
            self._writer.line(f"due_{n} = {call} at, {self._now}, {spans[n]}, arrival)")
        for side in timed:
            n = side.slot
            first = f"due_{n} <= {self._now}" + (" and due_0 <= due_1" if n == 0 and len(timed) == 2 else "")
            self._writer.open(f"if {first}:")
            other = self._layout.sides[1 - n]
            self._chunks.lapse(other, f"{'<=' if other.slot == 0 else '<'} due_{n}")
            call = f"fired(rows{n}, at," if side.most is None else f"fired_early({_queues(side)},"
            self._writer.line(f"late_{n} = {call} due_{n}, {spans[n]}, arrival)")
            self._writer.line(f"touched{n}[g] = True")
            self._writer.line("continue")
            self._writer.close()
        self._writer.line("break")
        self._writer.close(2)

    def _term(self, side: Side, position: int) -> Term:
        """An attribute of the event at hand."""
        column, kind = side.start + position, side.types[position]
        return self._writer.bound[0, column] if kind is Type.STRING else self._writer.term(Attr(0, column, kind))

    def _unequal(self, side: Side) -> str:
        """The text that is true where the event at hand can be equal to none."""
        return " or ".join(self._term(side, p).null for p in side.index)

    def _hash(self, side: Side) -> str:
        text = "g"
        for position in side.index:
            text = f"mixed({text}, int({self._term(side, position).text}))"
        return text

    # ---- those that an event meets

    def _begin(self, side: Side, other: Side) -> None:
        """The first node that the event may meet, after timers have done their work."""
        n = other.slot
        self._writer.line("found = False")
        if self.totalling is not None or self._ordered:
            self._writer.line("serial += 1")
        if not other.held:
            self._writer.line("node = 0")
            return
        if other.timed and self._summing is None:
            call = f"fire(words{n}, rows{n}, at, meta{n}, heads{n}, {self._now} - {self._writer.number(other.span)}, arrival)"
            if other.most is not None:
                call = f"fire_early({_queues(other)}, {self._now}, {self._writer.number(other.span)}, arrival)"
            self._writer.line(f"if {call}: touched{n}[g] = True")
        if other.index:
            first = f"heads{n}[bucket(meta{n}, {self._hash(side)})]"
            self._writer.line(f"node = 0 if {self._unequal(side)} else {first}")
        else:
            self._writer.line(f"node = rows{n}[at + {HEAD}]")

    def _meet(self, side: Side, other: Side) -> None:
        if other.held:
            with self._walked(other):
                blocks = self._writer.open_all(side.on)
                self._row(side, self._group_of(other))
                self._writer.line("found = True")
                self._writer.close(blocks)
        if side.outer:
            self._writer.open("if not found:")
            self._absent(other)
            self._row(side, "null_id")
            self._writer.close()
        if self._summing is not None and side.window is None:
            self._summing.reset()

    @contextmanager
    def _walked(self, other: Side) -> Iterator[None]:
        """The lines for each held event from `node` on."""
        self._writer.open("while node != 0:")
        self._recall(other)
        if other.owner_word:  # events of other keys may have the same hash
            self._writer.open(f"if words{other.slot}[node + {other.owner_word}] == g:")
        yield
        if other.owner_word:
            self._writer.close()
        self._writer.line(f"node = words{other.slot}[node + {FIXED + AFTER if other.index else NEXT}]")
        self._writer.close()

    def _absent(self, other: Side) -> None:
        """No event of the other side: all is null."""
        for position in (*other.captured, *other.keyed):
            self._writer.bound[1, position] = Term(_ZERO.get(other.types[position], "0"), "True")

    def _group_of(self, other: Side) -> str:
        return f"words{other.slot}[node + {other.group_word}]" if other.group else ""

    def _recall(self, held: Side, slot: int = 1, node: str = "node", name: str = "b") -> None:
        """The attributes of a held event, as those of a slot."""
        n, writer = held.slot, self._writer
        for position in held.keyed:
            writer.bound[slot, position] = Term("g", "False")
        if held.captured:
            self._writer.line(f"bits = words{n}[{node} + {BITS}]")
        for position in held.captured:
            kind, place = held.types[position], f"{node} + {held.word(position)}"
            text = f"float(floats{n}[{place}])" if kind in _FLOATS else f"int(words{n}[{place}])"
            value, null = f"{name}{n}_{position}", f"{name}{n}_{position}_null"
            self._writer.line(f"{value} = {f'words{n}[{place}] != 0' if kind is Type.BOOL else text}")
            self._writer.line(f"{null} = (bits >> {held.null_bit(position)}) & 1 != 0")
            writer.bound[slot, position] = Term(value, null)

    def _row(self, side: Side, group: str) -> None:
        """An output row; where there is no room for it the loop stops. `group` is that of the other event, where output is grouped by it."""
        self._writer.open(f"if k == len(opened){'' if self.totalling is None else self.totalling.full()}:")
        for text in (
            *(f"i_{side.source} = i", f"begin = {side.slot + 1}"),
            *(f"stop[{n}] = {'1 if found else 0' if name == 'found' else name}" for n, name in enumerate(self.stop)),
            "return",
        ):
            self._writer.line(text)
        self._writer.close()
        if self.totalling is not None:
            self.totalling.add(side, group)
        terms = {number: self._value(value) for number, value in enumerate(side.values)}
        self._writer.outputs = terms
        blocks = self._writer.open_all(() if side.having is None else (side.having,))
        number = side.source
        opened = "run" if self._layout.partitioned or self._layout.cuts else f"chunk_{number}[i]"
        told = {
            "ts_out": "t",
            "opened": f"2 * i + {side.slot}" if self._both else opened,
            "now_out": "clock",
            "group_out": f"group_{number}[i]",
            "event_out": "serial",
        }
        at = "k" if self.totalling is None else self.totalling.place()
        for name in self._made:
            self._writer.line(f"{name}[{at}] = {told[name]}")
        for one in self.picked:
            if isinstance(one, (Computed, Interned)):
                self._writer.line(f"o{one.number}[{at}] = {terms[one.number].text}")
                self._writer.line(f"x{one.number}[{at}] = {terms[one.number].null or 'False'}")
        if self.totalling is None:
            self._writer.line("k += 1")
        self._writer.close(blocks)

    def _value(self, value: Expr) -> Term:
        if value.type is not Type.STRING:
            return self._writer.term(value)
        if isinstance(value, Attr):
            return self._writer.bound[value.slot, value.position]
        return Term("")


def _queues(side: Side) -> str:
    """The two queues of a `timeLength` window."""
    n = side.slot
    return f"words{n}, rows{n}, early{n}, at, meta{n}, heads{n}"


def _picked(values: tuple[Expr, ...]) -> tuple[Picked, ...]:
    """The output columns: strings as numbers, the rest as it is computed."""
    made: list[Picked] = []
    for number, value in enumerate(values):
        if isinstance(value, Const) and value.type is Type.STRING:
            made.append(Same(None if value.value is None else str(value.value)))
        elif value.type is Type.STRING:
            made.append(Interned(number, nullable=True))
        else:
            made.append(Computed(number, DTYPES[value.type], nullable=True))
    return tuple(made)
