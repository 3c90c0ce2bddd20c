"""The loop of a chain as text: every event of a batch in order, first to the last element, so that none is bound twice (semantics/patterns.md#the-machine)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.bits import lowest
from nadi.kernel.columns.code import Prepared, Term, Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.patterns import places
from nadi.kernel.columns.patterns.asking import choices, write_asked, write_may
from nadi.kernel.columns.patterns.layout import Element, Layout, Reference, strings
from nadi.kernel.columns.patterns.picking import PickedColumns, dtypes, write_picks
from nadi.kernel.columns.patterns.places import BOUND, FRESH, HEAD, NEWS, PLACE, STARTS, WAITS
from nadi.kernel.columns.patterns.reading import FIXED
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Expr
from nadi.plan.walk import inside

_CALLED: dict[str, object] = {
    name: getattr(places, name)
    for name in ("made", "released", "append", "take", "expire", "expire_pair", "settle_all", "spread")
} | {"lowest": lowest}
_FIXED = {
    **FIXED,
    "words": "int64[]",
    "floats": "float64[]",
    "keys": "int64[]",
    "touched": "bool[]",
    "buckets": "int64[]",
    "meta": "int64[]",
    "stop": "int64[]",
    "source": "int64[]",
    "opened": "int64[]",
}
"""`stop`: the event to begin with, how many output rows there are, whether that event has been begun; the loop leaves there where it stopped for want of
room."""

_ZERO = {Type.FLOAT: "0.0", Type.DOUBLE: "0.0", Type.BOOL: "False"}
_CONVERT = {Type.FLOAT: "float(floats[{}])", Type.DOUBLE: "float(floats[{}])", Type.BOOL: "(words[{}] != 0)"}


class ChainText:
    """Writes the loop. What it found: `picked`, the output columns; `columns`, those whose values or nulls it reads (c, m), and strings as numbers (s)."""

    _extra: ClassVar[dict[str, str]] = {}
    """Parameters beside those that every chain has."""
    _turns = "n"
    """How often the loop runs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._writer = Writer(layout.sources.types)
        self._own: dict[str, str] = {}
        self.picked = PickedColumns()
        self._write()
        self._own |= {name: f"{dtype}[]" for name, dtype in dtypes(self.picked).items()}
        parameters = {**_FIXED, **self._extra, **self._writer.parameters, **self._own}
        head = f"def chain({', '.join(parameters)}):"
        self.source = "\n".join(
            [
                head,
                *(f"    {line}" for line in self._writer.opening),
                "    k = stop[1]",
                f"    for i in range(stop[0], {self._turns}):",
                *self._writer.lines,
                f"    stop[0] = {self._turns}",
                "    stop[1] = k",
                "",
            ]
        )
        self.call: Any = generated(
            self.source, "chain", list(parameters.items()), {**COMPILED, **_CALLED}, {**PLAIN, **_CALLED}
        )
        self.parameters = tuple(parameters)

    @property
    def prepared(self) -> list[Prepared]:
        """Comparisons of strings that are made before the loop runs."""
        return self._writer.prepared

    # ---- the loop

    def _write(self) -> None:
        layout = self._layout
        elements, found = choices(layout.elements, len(layout.sources.names))
        self._turn()
        if layout.sources.keys:
            self._writer.line("g = int(key[i])")
            self._writer.line("if g < 0: continue")
        else:
            self._writer.line("g = 0")
        self._writer.line("t = int(ts[i])")
        self._writer.line(f"base = g * {layout.key_width}")
        if layout.within is not None:
            self._expire(self._writer.number(layout.within))
        write_may(self._writer, elements, found, len(layout.sources.names))
        self._writer.line(f"news = keys[base + {NEWS}] & mine")
        self._writer.open("if news != 0:")
        self._writer.line("settle_all(words, keys, base, meta, buckets, news)")
        self._writer.line("touched[g] = True")
        self._writer.close()
        led = 2 if layout.pair else 1  # elements whose matches may have bound nothing
        self._writer.line(f"todo = may & (keys[base + {WAITS}] | {(1 << led) - 1})")
        self._writer.line("if todo == 0: continue")
        self._writer.line("free = keys[base] == 0")
        self._load_event()
        # of a pair the one that is written first is asked first
        order = (*reversed(elements[led:]), *elements[:led])
        write_asked(self._writer, order, self._step)

    def _turn(self) -> None:
        """What happens before the event of a turn."""

    def _load_event(self) -> None:
        """The attributes at hand that conditions read and matches keep."""
        layout, writer = self._layout, self._writer
        for column in dict.fromkeys(strings(layout)):
            self._own[f"s{column}"] = "const int32[]"
            self._writer.line(f"s_{column} = int(s{column}[i])")
            writer.bound[0, column] = Term(f"s_{column}", writer.null_of(column))
        columns = {layout.column(a) for a in layout.captured}
        columns |= {p.position for e in layout.elements for p in _attributes((*e.alone, *e.rest)) if p.slot == 0}
        for column in sorted(columns):
            kind = layout.sources.types[column]
            if kind is not Type.STRING:
                writer.term(Attr(0, column, kind))
        for e in layout.elements:  # what Arrow compares is told of before any branch
            for part in _attributes((*e.alone, *e.rest)):
                if part.slot == 0 and part.type is Type.STRING:
                    writer.null_of(part.position)

    def _expire(self, within: str) -> None:
        """Matches whose first event is too far away are gone, wherever they wait."""
        layout = self._layout
        self._writer.line(f"late = keys[base + {WAITS}] if stop[2] == 0 or i != stop[0] else 0")
        self._writer.open("while late != 0:")
        self._writer.line("bit = late & -late")
        self._writer.line("late ^= bit")
        self._writer.line(f"at = base + {STARTS - PLACE} + {PLACE} * lowest(bit)")
        if layout.pair:
            self._writer.open(f"if expire_pair(words, keys, at, meta, buckets, t, {within}, g, {layout.far_word}):")
        else:
            self._writer.open(f"if expire(words, keys, at, meta, buckets, t, {within}, g):")
        self._writer.line("touched[g] = True")
        self._writer.line(f"if keys[at + {HEAD}] == 0: keys[base + {WAITS}] ^= bit")
        self._writer.line(f"if keys[at + {FRESH}] == 0: keys[base + {NEWS}] &= ~bit")
        if layout.every == "all":
            self._writer.line("keys[base] = 0")
        elif layout.pair:
            self._writer.line(f"if bit == 2: keys[base] = {0 if layout.every else 1}")
        self._writer.close(2)

    def _step(self, element: Element) -> None:
        if self._layout.pair and element.slot < 2:
            self._bind_one(element)
        elif element.slot == 0:
            self._begin(element)
        else:
            self._go_on(element)

    def _begin(self, element: Element) -> None:
        """The first element: the match that has bound nothing binds the event."""
        self._writer.open("if free:")
        blocks = self._writer.open_all(element.alone)
        self._writer.line("node = made(words, meta)")
        self._writer.line(f"words[node + {places.FIRST}] = t")
        self._capture(element.slot)
        self._append(1)
        if self._layout.every != "first":
            self._writer.line("keys[base] = 1")
        self._writer.close(blocks + 1)

    def _bind_one(self, element: Element) -> None:
        """One of two first elements: the match that has bound the other one goes on, else the one that has bound nothing binds this one."""
        layout, slot = self._layout, element.slot
        at = layout.place(1)
        self._writer.open(f"if keys[base] == {BOUND + 1 - slot}:")
        self._writer.line(f"node = keys[base + {at + HEAD}]")
        blocks = self._writer.open_all(element.alone)
        self._recall(element.rest, set())
        blocks += self._writer.open_all(element.rest)
        self._writer.line(f"take(words, keys, base + {at}, meta, buckets, node)")
        self._writer.line(f"words[node + {layout.far_word}] = max(words[node + {places.FIRST}], t)")
        self._writer.line(f"words[node + {places.FIRST}] = min(words[node + {places.FIRST}], t)")
        own, other = (sum(1 << bit for bit, a in enumerate(layout.captured) if a[0] == s) for s in (slot, 1 - slot))
        if own:
            self._writer.line(f"words[node + {layout.null_word}] &= {~own}")
        self._capture(slot)
        self._append(2)
        self._writer.line(f"keys[base] = {0 if layout.every == 'first' else 1}")
        self._emptied(at, 2)
        self._writer.close(blocks + 1)
        self._writer.open("elif free and keys[base] == 0:")
        for reference in {(p.slot - 1, p.position) for p in _attributes(element.rest) if p.slot > 0}:
            zero = _ZERO.get(layout.type_of(reference), "0")
            self._writer.bound[reference[0] + 1, reference[1]] = Term(zero, "True")
        blocks = self._writer.open_all((*element.alone, *element.rest))
        self._writer.line("node = made(words, meta)")
        self._writer.line(f"words[node + {places.FIRST}] = t")
        self._writer.line(f"words[node + {layout.far_word}] = t")
        if layout.captured:
            self._writer.line(f"words[node + {layout.null_word}] = {other}")
        self._capture(slot)
        self._append(1)
        self._writer.line(f"keys[base + {at + FRESH}] = 0")  # it waits for the next element already
        self._writer.line(f"keys[base + {NEWS}] &= {~2}")
        self._writer.line(f"keys[base] = {BOUND + slot}")
        self._writer.close(blocks + 1)

    def _go_on(self, element: Element) -> None:
        """A later element: the matches that wait for it and whose conditions the event meets."""
        at = self._layout.place(element.slot)
        blocks = self._writer.open_all(element.alone)
        if element.equal is None:
            self._writer.line(f"node = keys[base + {at + HEAD}]")
            following = f"words[node + {places.NEXT}]"
        else:
            column = element.equal[0]
            kind = self._layout.sources.types[column]
            term = self._writer.term(Attr(0, column, kind)) if element.spread else self._writer.bound[0, column]
            self._writer.line(f"node = 0 if {term.null or False} else buckets[{self._bucket(element, term.text)}]")
            following = f"words[node + {self._layout.bucket_word + places.AFTER}]"
        self._writer.open("while node != 0:")
        self._writer.line(f"following = {following}")
        known = self._recall(element.rest, set())
        inner = self._writer.open_all(element.rest)
        if element.slot == len(self._layout.elements) - 1:
            self._complete(element, at, known)
        else:
            self._move(element, at)
        self._writer.close(inner)
        self._writer.line("node = following")
        self._writer.close()
        self._emptied(at, 1 << element.slot)
        self._writer.close(blocks)

    def _emptied(self, at: int, bit: int) -> None:
        """Where nobody waits any more nobody is asked."""
        self._writer.line(f"if keys[base + {at + HEAD}] == 0: keys[base + {WAITS}] &= {~bit}")

    def _move(self, element: Element, at: int) -> None:
        self._writer.line(f"take(words, keys, base + {at}, meta, buckets, node)")
        self._capture(element.slot)
        self._append(element.slot + 1)

    def _complete(self, element: Element, at: int, known: set[Reference]) -> None:
        """An output row, and the end of the match."""
        layout = self._layout
        self._writer.open("if k == len(source):")
        for text in ("stop[0] = i", "stop[1] = k", "stop[2] = 1", "return"):
            self._writer.line(text)
        self._writer.close()
        self._writer.line(f"take(words, keys, base + {at}, meta, buckets, node)")
        self._writer.line("touched[g] = True")
        looked = (*layout.values, *(() if layout.having is None else (layout.having,)))
        self._recall(looked, known)
        self.picked, terms = write_picks(self._writer, layout.values)
        self._writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
        blocks = self._writer.open_all(() if layout.having is None else (layout.having,))
        several = sum(e.source == element.source for e in layout.elements) > 1
        self._writer.line("source[k] = i")
        self._writer.line(
            f"opened[k] = {'i' if several else 'k'}"
        )  # where one element reads the stream, each match is a chunk
        self._write_row(terms)
        self._writer.close(blocks)
        self._writer.line("released(words, meta, node, g)")
        if layout.every == "all":
            self._writer.line("keys[base] = 0")

    def _write_row(self, terms: tuple[Term | None, ...]) -> None:
        for number, term in enumerate(terms):
            if term is not None:
                self._writer.line(f"o{number}[k] = {term.text}")
                if term.null:
                    self._writer.line(f"x{number}[k] = {term.null}")
        self._writer.line("k += 1")

    # ---- what a match keeps

    def _recall(self, exprs: Iterable[Expr], known: set[Reference]) -> set[Reference]:
        """Read what expressions need of the events that `node` has bound; what is known by now."""
        layout, writer = self._layout, self._writer
        needed = {(part.slot - 1, part.position) for part in _attributes(exprs) if part.slot > 0}
        for slot, position in sorted(needed - known):
            if (slot, position) in layout.keyed:
                writer.bound[slot + 1, position] = Term("g")
                continue
            self._read((slot, position))
        return known | needed

    def _read(self, attribute: Reference) -> Term:
        layout = self._layout
        slot, position = attribute
        name, null = f"b{slot}_{position}", f"y{slot}_{position}"
        place = f"node + {layout.word(attribute)}"
        self._writer.line(f"{name} = {_CONVERT.get(layout.type_of(attribute), 'int(words[{}])').format(place)}")
        self._writer.line(
            f"{null} = ((words[node + {layout.null_word}] >> {layout.captured.index(attribute)}) & 1) != 0"
        )
        made = self._writer.bound[slot + 1, position] = Term(name, null)
        return made

    def _capture(self, slot: int) -> None:
        """Keep what is needed of the event at hand."""
        layout, writer = self._layout, self._writer
        if layout.places > 1:
            self._writer.line(f"words[node + {layout.last_word}] = t")
        bits = []
        for bit, attribute in enumerate(layout.captured):
            if attribute[0] != slot:
                continue
            column, kind = layout.column(attribute), layout.type_of(attribute)
            term = writer.bound[0, column] if kind is Type.STRING else writer.term(Attr(0, column, kind))
            memory = "floats" if kind in (Type.FLOAT, Type.DOUBLE) else "words"
            self._writer.line(f"{memory}[node + {layout.word(attribute)}] = {term.text}")
            bits.append(f"({1 << bit} if {term.null} else 0)")
        if slot == 0 and layout.captured and not layout.pair:
            self._writer.line(f"words[node + {layout.null_word}] = {' | '.join(bits) or '0'}")
        elif bits:
            self._writer.line(f"words[node + {layout.null_word}] |= {' | '.join(bits)}")

    def _append(self, slot: int) -> None:
        """Let `node` wait for an element."""
        layout = self._layout
        bucket = "0"
        element = layout.elements[slot]
        if element.equal is not None:
            term = self._read(element.equal[1])
            self._writer.line(f"bucket = 0 if {term.null} else {self._bucket(element, term.text)}")
            bucket = "bucket"
        self._writer.line(f"append(words, keys, base + {layout.place(slot)}, meta, buckets, node, {bucket})")
        self._writer.line(f"keys[base + {WAITS}] |= {1 << slot}")
        self._writer.line(f"keys[base + {NEWS}] |= {1 << slot}")
        self._writer.line("touched[g] = True")

    def _bucket(self, element: Element, number: str) -> str:
        row = f"spread({number}, meta[{places.MASK}])" if element.spread else number
        return f"2 + 2 * ({row} * {self._layout.places} + {element.slot - 1})"


def _attributes(exprs: Iterable[Expr]) -> Iterable[Attr]:
    return (part for expr in exprs for part in inside(expr) if isinstance(part, Attr))
