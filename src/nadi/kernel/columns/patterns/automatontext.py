"""The loop of a pattern of any shape as text: what its elements ask of an event, and what matches keep. What follows is `moving`'s, the same for all patterns.

Before each event of a key there is room for whatever may come of it; where there is not, the loop returns and is called again.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.code import Prepared, Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.patterns import moving, partials
from nadi.kernel.columns.patterns.asking import choices, write_asked, write_may
from nadi.kernel.columns.patterns.automaton import Element, Layout
from nadi.kernel.columns.patterns.capturing import Capturing
from nadi.kernel.columns.patterns.partials import (
    BEGUN,
    COUNT,
    END,
    EXPIRED,
    FRESH,
    HEAD,
    ID,
    LINKS,
    NEWS,
    PLACE,
    SHOWN,
    STALE,
    STARTS,
    WAITS,
)
from nadi.kernel.columns.patterns.picking import PickedColumns, dtypes, write_picks
from nadi.kernel.columns.patterns.reading import FIXED
from nadi.kernel.columns.patterns.waking import OFF, TIMER

CALLED: dict[str, object] = {
    "begin": moving.begin,
    "bound": moving.bound,
    "expire": moving.expire,
    "settle_all": partials.settle_all,
    "take": partials.take,
}
_FIXED = {
    **FIXED,
    "words": "int64[]",
    "floats": "float64[]",
    "keys": "int64[]",
    "touched": "bool[]",
    "meta": "int64[]",
    "shape": "const int64[]",
    "stop": "int64[]",
    "source": "int64[]",
    "opened": "int64[]",
}
"""`stop`: the event to begin with, how many output rows there are, how many more rows and nodes that event may need, the last chunk, the first output row of
the chunk of the input, the last event of it; the loop leaves there where it stopped for want of room."""
STOPS = 6
HIDDEN = {"dropped": "bool", "nodes": "int64"}
"""What the loop writes of each output row where there is `within`: whether it is to be dropped, and its match. A match that is complete, but waits elsewhere,
too, may run out of `within` by a later event of its chunk: it is an expired event to Siddhi then, before that puts out what the chunk completed."""

STATE = "words, keys, meta, shape"
_FORGET = f"words[nodes[r] + {SHOWN}] *= words[nodes[r] + {ID}] == 0"
"""The node may be another match by now, of this chunk, or a queue of timers, which has no number."""


class AutomatonText:
    """Writes the loop; `picked` are the output columns that it found."""

    _extra: ClassVar[dict[str, str]] = {}
    """Parameters beside those that every such pattern has."""
    _called: ClassVar[dict[str, object]] = CALLED
    _turns = "n"
    """How often the loop runs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._writer = Writer(layout.sources.types)
        self._own: dict[str, str] = {}
        self._captures = Capturing(layout, self._writer, self._own)
        self.picked = PickedColumns()
        self._write()
        if layout.within is not None:
            self._own |= {name: f"{dtype}[]" for name, dtype in HIDDEN.items()} | {"chunks": "const int64[]"}
        self._own |= {name: f"{dtype}[]" for name, dtype in dtypes(self.picked).items()}
        parameters = {**_FIXED, **self._extra, **self._writer.parameters, **self._own}
        head = f"def automaton({', '.join(parameters)}):"
        begin = [f"    {line}" for line in self._writer.opening]
        begin += [
            "    k, chunk, shown, before = stop[1], stop[3], stop[4], stop[5]",
            f"    for i in range(stop[0], {self._turns}):",
        ]
        forget = "    for r in range(shown, k): " + _FORGET
        end = [f"    stop[0] = {self._turns}", "    stop[1] = k", *([forget] if layout.within is not None else ()), ""]
        self.source = "\n".join([head, *begin, *self._writer.lines, *end])
        self.call: Any = generated(
            self.source, "automaton", list(parameters.items()), {**COMPILED, **self._called}, {**PLAIN, **self._called}
        )
        self.parameters = tuple(parameters)

    @property
    def prepared(self) -> list[Prepared]:
        """Comparisons of strings that are made before the loop runs."""
        return self._writer.prepared

    # ---- the loop

    def _write(self) -> None:
        layout, writer = self._layout, self._writer
        elements, found = choices(layout.elements, len(layout.sources.names))
        self._turn()
        if layout.sources.keys:
            writer.line("g = int(key[i])")
            writer.line("if g < 0: continue")
        else:
            writer.line("g = 0")
        self._enter_chunk()
        writer.line("t = int(ts[i])")
        writer.line(f"base = g * {layout.key_width}")
        write_may(writer, elements, found, len(layout.sources.names))
        self._pass_over()
        self._make_room()
        writer.open(f"if keys[base + {BEGUN}] == 0:")
        writer.line(f"begin({STATE}, g, base)")
        writer.line("touched[g] = True")
        self._offer()
        writer.close()
        if layout.within is not None:
            writer.open(f"if expire({STATE}, base, t, dropped):")
            writer.line("touched[g] = True")
            self._offer()
            writer.close()
        self._settle()
        writer.line(f"todo = {self._asked()}")
        writer.line("if todo == 0: continue")
        conditions = [c for e in elements for c in (*e.alone, *e.rest)]
        self._captures.load(conditions, [c for e in elements for c in e.rest])
        write_asked(writer, [elements[slot] for slot in reversed(layout.order)], self._step)
        self._offer()

    def _enter_chunk(self) -> None:
        """Output rows of the chunk before, or of another key, stay."""
        writer = self._writer
        if self._layout.within is None:
            return
        other = " or key[before] != g" if self._layout.sources.keys else ""
        writer.open(f"if before < 0 or chunks[before] != chunks[i]{other}:")
        writer.line(f"for r in range(shown, k): {_FORGET}")
        writer.line("shown = k")
        writer.close()
        writer.line("before = i")

    def _turn(self) -> None:
        """What happens before the event of a turn."""

    def _offer(self) -> None:
        """What follows from timers that were set."""

    def _pass_over(self) -> None:
        """Events that find nothing of their key, and leave nothing."""
        if not self._layout.times_begin:
            self._writer.line(f"if keys[base + {BEGUN}] == 0 and (may & {self._layout.opening}) == 0: continue")

    def _make_room(self) -> None:
        """Of each match that waits an event may make an output row and a copy; so may what begins or starts again at each element."""
        writer = self._writer
        writer.line(f"need = keys[base + {COUNT}] + {2 * self._layout.places + 2}")
        nodes = 2 if self._layout.timed else 1  # with the queues of timers
        full = f"k + need > len(source) or meta[{END}] + {nodes} * need * {self._layout.node_width} > len(words)"
        writer.open(f"if {full}:")
        for at, term in enumerate(("i", "k", "need", "chunk", "shown", "before")):
            writer.line(f"stop[{at}] = {term}")
        writer.line("return")
        writer.close()

    def _asked(self) -> str:
        """The elements to which the event is offered."""
        todo = "may"
        if any(e.hurried for e in self._layout.elements):
            todo = f"(may | (keys[base + {STALE}] & mine))"
        return f"{todo} & keys[base + {WAITS}]"

    def _settle(self) -> None:
        """New matches of the elements that read this stream become pending, with those of the other operand."""
        writer = self._writer
        writer.line("moved = mine")
        for node in self._layout.nodes:
            if node.partner is not None and node.slot < node.partner.slot:
                both = (1 << node.slot) | (1 << node.partner.slot)
                writer.line(f"if (mine & {both}) != 0: moved |= {both}")
        writer.line(f"moved &= keys[base + {NEWS}]")
        writer.open("if moved != 0:")
        writer.line(f"settle_all({STATE}, moved, base)")
        writer.line("touched[g] = True")
        writer.close()

    def _step(self, element: Element) -> None:
        """One element is offered the event: first those that wait here no more go."""
        layout, writer, slot = self._layout, self._writer, element.slot
        at = STARTS + PLACE * slot
        timed = layout.nodes[slot].waiting is not None
        if timed:
            writer.open(f"if keys[base + {layout.timers + TIMER * slot + OFF}] == 0:")
        if self._shares(slot) and self._completes(slot):
            writer.line("chunk += 1")
        if element.hurried:
            writer.line("fits = False")
            writer.open(f"if (may & {1 << slot}) != 0:")
            blocks = writer.open_all(element.alone)
            writer.line("fits = True")
            writer.close(blocks + 1)
            writer.line(f"keys[base + {STALE}] &= {~(1 << slot)}")
            blocks = 0
        else:
            blocks = writer.open_all(element.alone)
        writer.line(f"m = keys[base + {at + HEAD}]")
        writer.open(f"while m != 0 and m != keys[base + {at + FRESH}]:")
        writer.line(f"following = words[m + {layout.links + LINKS * slot + partials.NEXT}]")
        inner = 0
        if element.hurried:
            others = [s for s in range(len(layout.elements)) if (element.hurried >> s) & 1]
            gone = " or ".join(f"words[m + {layout.counts + s}] != 0" for s in others)
            writer.open(f"if {gone}:")
            writer.line(f"take({STATE}, m, {slot}, base)")
            writer.line("touched[g] = True")
            writer.close()
            writer.open("elif fits:")
            inner = 1
        self._captures.recall(element.rest)
        inner += writer.open_all(element.rest)
        self._bind(element)
        writer.close(inner)
        writer.line("m = following")
        writer.close(blocks + 1 + timed)

    def _bind(self, element: Element) -> None:
        layout, writer, slot = self._layout, self._writer, element.slot
        if not layout.nodes[slot].kind.startswith("absent"):
            writer.line(f"count = {self._count(slot)}")
            self._captures.keep(slot)
        writer.line("touched[g] = True")
        call = f"bound({STATE}, m, {slot}, base, t)"
        if not self._completes(slot):
            writer.line(call)
            return
        writer.open(f"if {call}:")
        self._complete(slot)
        writer.close()

    def _count(self, slot: int) -> str:
        """Which one of the events of an element it is."""
        return f"words[m + {self._layout.counts + slot}] + 1"

    def _completes(self, slot: int) -> bool:
        """Whether a match may be complete when it has bound an event here."""
        node = self._layout.nodes[slot]
        if node.kind.startswith("absent"):
            return False
        while node.next is not None and node.next.kind == "count" and node.next.minimum == 0:
            node = node.next
        return node.last

    def _shares(self, slot: int) -> bool:
        """Whether other elements read the stream of an element, too."""
        elements = self._layout.elements
        return sum(e.source == elements[slot].source for e in elements) > 1

    def _complete(self, slot: int) -> None:
        """An output row. What one element completes at once is one chunk, where others read the stream, too."""
        layout, writer = self._layout, self._writer
        looked = (*layout.values, *(() if layout.having is None else (layout.having,)))
        self._captures.recall(looked)
        self.picked, terms = write_picks(writer, layout.values)
        writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
        blocks = writer.open_all(() if layout.having is None else (layout.having,))
        if layout.within is not None:  # one that ran out at another element is an expired event to Siddhi
            writer.open(f"if words[m + {EXPIRED}] == 0:")
            blocks += 1
            self._note(slot)
        self._place(slot)
        for number, term in enumerate(terms):
            if term is not None:
                writer.line(f"o{number}[k] = {term.text}")
                if term.null:
                    writer.line(f"x{number}[k] = {term.null}")
        writer.line("k += 1")
        writer.close(blocks)

    def _note(self, slot: int) -> None:
        """Which match an output row is of; where others read the stream, it is put out at once."""
        self._put_out("0" if self._shares(slot) else "m")
        if not self._shares(slot):
            self._writer.line(f"words[m + {SHOWN}] = k + 1")

    def _put_out(self, node: str) -> None:
        """An output row that is not dropped so far; `node` is its match, 0 where nothing drops it."""
        self._writer.line("dropped[k] = False")
        self._writer.line(f"nodes[k] = {node}")

    def _place(self, slot: int) -> None:
        """Of which event an output row is, and in which chunk."""
        self._writer.line("source[k] = i")
        if not self._shares(slot):
            self._writer.line("chunk += 1")
        self._writer.line("opened[k] = chunk")
