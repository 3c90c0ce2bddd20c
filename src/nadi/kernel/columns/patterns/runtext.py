"""The loop of a sequence as text (semantics/patterns.md#sequences).

Before each event what waited becomes pending (`waits`), and what the event does not take on is gone; what it does is `fresh`. Both are bits by slot.
Elements are asked from the last to the first. A match may wait at two elements at once: both see what either makes of it.
"""

from __future__ import annotations

from typing import Any

from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.bits import lowest
from nadi.kernel.columns.code import Prepared, Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.patterns.asking import choices, write_asked, write_may
from nadi.kernel.columns.patterns.capturing import Capturing
from nadi.kernel.columns.patterns.picking import PickedColumns, dtypes, write_picks
from nadi.kernel.columns.patterns.reading import FIXED
from nadi.kernel.columns.patterns.runs import BEGUN, UNBOUNDED, Element, RunLayout

_FIXED = {
    **FIXED,
    "words": "int64[]",
    "floats": "float64[]",
    "touched": "bool[]",
    "completed": "int64[]",
    "source": "int64[]",
    "opened": "int64[]",
}
"""`completed`: how many output rows there are, told by the loop; an event completes one match at most."""

_CALLED: dict[str, object] = {"lowest": lowest}


class RunText:
    """Writes the loop; `picked` are the output columns that it found."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._writer = Writer(layout.sources.types)
        self._own: dict[str, str] = {}
        self._captures = _Counted(layout, self._writer, self._own)
        self.picked = PickedColumns()
        self._write()
        self._own |= {name: f"{dtype}[]" for name, dtype in dtypes(self.picked).items()}
        parameters = {**_FIXED, **self._writer.parameters, **self._own}
        opening = [f"    {line}" for line in self._writer.opening]
        head = [f"def run({', '.join(parameters)}):", *opening, "    k = 0", "    for i in range(n):"]
        self.source = "\n".join([*head, *self._writer.lines, "    completed[0] = k", ""])
        self.call: Any = generated(
            self.source, "run", list(parameters.items()), {**COMPILED, **_CALLED}, {**PLAIN, **_CALLED}
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
        if layout.sources.keys:
            self._writer.line("g = int(key[i])")
            self._writer.line("if g < 0: continue")
        else:
            self._writer.line("g = 0")
        self._writer.line("t = int(ts[i])")
        self._writer.line(f"row = g * {layout.key_width}")
        self._writer.line(f"base = row + {layout.start}")
        self._writer.line(f"before = words[row + {BEGUN}]")
        self._writer.line("waits = before >> 1")
        self._writer.line(f"begun = before & 1{'' if layout.every else ' | 1'}")
        write_may(self._writer, elements, found, len(layout.sources.names))
        self._expire()
        self._fresh()
        self._writer.line("fresh = 0")
        self._writer.line("todo = may & waits")
        self._writer.open("if todo != 0:")
        self._load_event()
        write_asked(self._writer, tuple(reversed(elements)), self._step)
        self._writer.close()
        self._writer.line("after = begun | (fresh << 1)")
        self._writer.line(f"words[row + {BEGUN}] = after")
        self._writer.line("if (before | after) >> 1 != 0 or before != after: touched[g] = True")

    def _load_event(self) -> None:
        """The attributes at hand that conditions read and matches keep."""
        elements = self._layout.elements
        self._captures.load([c for e in elements for c in (*e.alone, *e.rest)], [c for e in elements for c in e.rest])

    def _expire(self) -> None:
        """Matches whose first event is too far away are gone; that of a plain first element has bound nothing."""
        layout = self._layout
        if layout.within is None:
            return
        within = self._writer.number(layout.within)
        self._writer.line(f"late = waits{'' if layout.elements[0].counted else ' & -2'}")
        self._writer.open("while late != 0:")
        self._writer.line("bit = late & -late")
        self._writer.line("late ^= bit")
        self._writer.line(f"m = base + words[row + 1 + lowest(bit)] * {layout.match_width}")
        self._writer.line(f"if abs(words[m + {layout.first_word}] - t) > {within}: waits ^= bit")
        self._writer.close()

    def _fresh(self) -> None:
        """The match that has bound nothing: with each event where `every` stands, else with the first one.

        One that will not take the event need not be made.
        """
        layout = self._layout
        tests = ["(may & 1) != 0"]
        if layout.elements[0].counted:
            tests.append("(waits & 1) == 0")
        if not layout.every:
            tests.append("(before & 1) == 0")
        self._writer.open(f"if {' and '.join(tests)}:")
        self._writer.line("others, used = waits, 1")
        self._writer.open("while others != 0:")
        self._writer.line("used |= 1 << words[row + 1 + lowest(others)]")
        self._writer.line("others &= others - 1")
        self._writer.close()
        self._writer.line("w = lowest(~used)")
        self._writer.line("words[row + 1] = w")
        self._writer.line(f"m = base + w * {layout.match_width}")
        for slot in range(len(layout.elements)):
            self._writer.line(f"words[m + {slot}] = 0")
        self._writer.line("waits |= 1")
        self._writer.close()

    def _step(self, element: Element) -> None:
        """One element is offered the event."""
        slot, layout = element.slot, self._layout
        self._writer.line(f"w = words[row + {1 + slot}]")
        self._writer.line(f"m = base + w * {layout.match_width}")
        blocks = 0
        if element.counted:  # not where the next element, or the one after it, was faster
            after = [f"words[m + {s}] == 0" for s in (slot + 1, slot + 2) if s < len(layout.elements)]
            self._writer.open(f"if {' and '.join(after)}:")
            blocks += 1
        blocks += self._writer.open_all(element.alone)
        self._captures.recall(element.rest)
        blocks += self._writer.open_all(element.rest)
        if slot == 0:
            self._writer.line(f"if words[m] == 0: words[m + {layout.first_word}] = t")
        if element.slot == len(layout.elements) - 1:
            self._complete()
        else:
            self._bind(element)
        self._writer.close(blocks)

    def _bind(self, element: Element) -> None:
        """The match takes the event, and waits for what may come next."""
        slot = element.slot
        self._writer.line(f"count = words[m + {slot}] + 1" if element.counted else "count = 1")
        self._writer.line(f"words[m + {slot}] = count")
        self._captures.keep(slot)
        if element.counted and element.minimum > 1:
            self._writer.open(f"if count >= {element.minimum}:")
        self._enter(slot + 1)
        if element.counted:
            self._let_in(slot, "" if element.maximum == UNBOUNDED else f" and count != {element.maximum}")
            if element.minimum > 1:
                self._writer.close()

    def _let_in(self, slot: int, unless: str = "") -> None:
        """An element has one new match at most."""
        self._writer.open(f"if (fresh & {1 << slot}) == 0{unless}:")
        self._writer.line(f"words[row + {1 + slot}] = w")
        self._writer.line(f"fresh |= {1 << slot}")
        self._writer.close()

    def _enter(self, slot: int) -> None:
        """A match comes to an element. One that needs no event passes it on at once."""
        element = self._layout.elements[slot]
        self._let_in(slot)
        if element.minimum == 0:
            self._writer.open(f"if words[m + {slot}] == 0:")
            self._enter(slot + 1)
            self._writer.close()

    def _complete(self) -> None:
        layout, writer = self._layout, self._writer
        slot = len(layout.elements) - 1
        self._writer.line(f"words[m + {slot}] = 1")
        looked = (*layout.values, *(() if layout.having is None else (layout.having,)))
        self._captures.recall(looked)
        self.picked, terms = write_picks(writer, layout.values)
        writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
        blocks = self._writer.open_all(() if layout.having is None else (layout.having,))
        blocks += self._unless_late()
        self._writer.line("source[k] = i")
        self._writer.line("opened[k] = k")
        for number, term in enumerate(terms):
            if term is not None:
                self._writer.line(f"o{number}[k] = {term.text}")
                if term.null:
                    self._writer.line(f"x{number}[k] = {term.null}")
        self._writer.line("k += 1")
        self._writer.close(blocks)

    def _unless_late(self) -> int:
        """A match that is complete, but waits at a counted element, too, may run out of `within` there by the next event of its chunk: it is not put out
        then. Where other elements read the stream, it is before that. -> How many blocks are open."""
        layout, writer = self._layout, self._writer
        last = layout.elements[-1]
        counted = [e.slot for e in layout.elements[:-1] if e.counted]
        if layout.within is None or not counted or sum(e.source == last.source for e in layout.elements) > 1:
            return 0
        self._own["chunks"] = "const int64[]"
        held = " or ".join(f"((waits >> {slot}) & 1 != 0 and words[row + {1 + slot}] == w)" for slot in counted)
        same = "j < n and chunks[j] == chunks[i]"
        writer.line("j = i + 1")
        if layout.sources.keys:
            writer.line(f"while {same} and key[j] < 0: j += 1")
            same += " and key[j] == g"
        first = f"words[m + {layout.first_word}]"
        writer.line(f"past = 1 if {same} and abs({first} - ts[j]) > {writer.number(layout.within)} else 0")
        writer.open(f"if past == 0 or not ({held}):")
        return 1


class _Counted(Capturing):
    """Words of events that are not there are those of another match."""

    def __init__(self, layout: RunLayout, writer: Writer, own: dict[str, str]) -> None:
        super().__init__(layout, writer, own)
        self._run = layout

    def _null(self, number: int, at: int) -> str:
        null, reference = super()._null(number, at), self._run.captured[number]
        if not self._run.elements[reference.slot].counted:
            return null
        needed = reference.index + 1 if reference.index >= 0 else -reference.index
        return f"words[m + {reference.slot}] < {needed} or {null}"
