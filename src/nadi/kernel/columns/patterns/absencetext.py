"""The loop of a chain whose last element must stay away: `A -> not B for t` (semantics/patterns.md#absence).

As on rows, each match that comes to wait for an absence, and each event that ends one, leaves a time at the end of a queue. When the clock has come to the
time at its front, whoever has waited long enough is complete. Times pass between chunks of the input, before the events that come at them.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from nadi.kernel.columns.patterns.chaintext import ChainText
from nadi.kernel.columns.patterns.layout import Element, Reference
from nadi.kernel.columns.patterns.picking import write_picks
from nadi.kernel.columns.patterns.places import FIRST, HEAD, NEWS, NEXT, TAIL

# What `clock` has: where the queue begins and ends (counted on and on), the time when the wait ends that was noted last, whether someone went on since the
# queue's front was reached, the app's clock, whether matches may stand in another order than that of their times, and the times of the one that came last.
FRONT, END, DUE, SENT, NOW, UNORDERED, CAME, BEGAN = range(8)
CLOCK = 8


class AbsenceText(ChainText):
    """Writes the loop. There is one turn more than there are events: what is due up to `until`."""

    _extra: ClassVar = {"until": "int64", "came": "const int64[]", "clock": "int64[]", "dues": "int64[]"}
    _turns = "n + 1"

    def _turn(self) -> None:
        """What is due before an event; `at` is the place of the last element in the one key that there is."""
        writer = self._writer
        writer.line("g = base = 0")
        writer.line("here = int(now[i]) if i < n else until")
        writer.open("if i == n or i == 0 or came[i] != came[i - 1]:")
        front = f"dues[clock[{FRONT}] & (len(dues) - 1)]"
        writer.open(f"while clock[{FRONT}] != clock[{END}] and {front} <= here:")
        writer.line(f"due = {front}")
        writer.line(f"clock[{NOW}] = max(clock[{NOW}], due)")
        self._fire()
        writer.close(2)
        writer.line("if i == n: break")
        writer.line(f"clock[{NOW}] = max(clock[{NOW}], here)")

    @cached_property
    def _waiting(self) -> str:
        """The text of how long the absence lasts."""
        assert self._layout.waiting is not None  # what this class is for
        return self._writer.number(self._layout.waiting)

    def _fire(self) -> None:
        layout, writer = self._layout, self._writer
        last = len(layout.elements) - 1
        at, bit = layout.place(last), 1 << last
        writer.open(f"if (keys[{NEWS}] & {bit}) != 0:")
        writer.line(f"settle_all(words, keys, 0, meta, buckets, {bit})")
        writer.line("touched[0] = True")
        writer.close()
        writer.line(f"node = keys[{at + HEAD}]")
        writer.line(f"ordered = clock[{UNORDERED}] == 0")
        if layout.within is not None:  # those of later times would stand at the end
            within = writer.number(layout.within)
            writer.line(f"ordered = ordered and words[keys[{at + TAIL}] + {FIRST}] - due <= {within}")
        writer.open("while node != 0:")
        writer.line(f"following = words[node + {NEXT}]")
        test = "if"
        if layout.within is not None:
            writer.open(f"if abs(words[node + {FIRST}] - due) > {writer.number(layout.within)}:")
            self._gone(at)
            writer.close()
            test = "elif"
        writer.open(f"{test} words[node + {layout.last_word}] + {self._waiting} <= due:")
        self._sent(at)
        writer.close()
        writer.line("elif ordered: break")
        writer.line("node = following")
        writer.close()
        self._emptied(at, bit)
        writer.line(f"if clock[{NOW}] > due + {self._waiting}: clock[{DUE}] = clock[{NOW}] + {self._waiting}")
        writer.open(f"if clock[{SENT}] == 0 and clock[{DUE}] < due:")
        self._note(f"due + {self._waiting}")
        writer.close()
        writer.line(f"clock[{SENT}] = 0")
        writer.line(f"clock[{FRONT}] += 1")

    def _gone(self, at: int) -> None:
        """A match that waited for the absence waits no more."""
        self._writer.line(f"take(words, keys, {at}, meta, buckets, node)")
        self._writer.line("released(words, meta, node, 0)")
        self._writer.line("touched[0] = True")
        if self._layout.every == "all":
            self._writer.line("keys[0] = 0")

    def _sent(self, at: int) -> None:
        """An output row: its times stand where otherwise the event does that it came with."""
        layout, writer = self._layout, self._writer
        writer.open("if k == len(source):")
        for text in ("stop[0] = i", "stop[1] = k", "return"):
            writer.line(text)
        writer.close()
        self._recall((*layout.values, *(() if layout.having is None else (layout.having,))), set())
        self.picked, terms = write_picks(writer, layout.values)
        writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
        self._gone(at)
        writer.line(f"clock[{SENT}] = 1")
        blocks = writer.open_all(() if layout.having is None else (layout.having,))
        writer.line("source[k] = due")
        writer.line(f"opened[k] = clock[{NOW}]")
        self._write_row(terms)
        writer.close(blocks)

    def _note(self, due: str) -> None:
        """A time at the end of the queue."""
        writer = self._writer
        writer.line(f"clock[{DUE}] = {due}")
        writer.line(f"dues[clock[{END}] & (len(dues) - 1)] = clock[{DUE}]")
        writer.line(f"clock[{END}] += 1")

    # ---- an event

    def _complete(self, element: Element, at: int, known: set[Reference]) -> None:
        """What should stay away came: the match is gone, and its scope does not begin again."""
        writer = self._writer
        writer.line(f"take(words, keys, {at}, meta, buckets, node)")
        writer.line("released(words, meta, node, 0)")
        writer.line("touched[0] = True")
        self._note(f"t + {self._waiting}")

    def _append(self, slot: int) -> None:
        super()._append(slot)
        layout, writer = self._layout, self._writer
        if slot < len(layout.elements) - 1:
            return
        self._note(f"t + {self._waiting}")
        began = f"words[node + {FIRST}]"
        writer.open(f"if keys[{layout.place(slot) + HEAD}] == node:")
        writer.line(f"clock[{UNORDERED}] = 0")
        writer.close()
        writer.open(f"elif t < clock[{CAME}] or {began} < clock[{BEGAN}]:")
        writer.line(f"clock[{UNORDERED}] = 1")
        writer.close()
        writer.line(f"clock[{CAME}] = t")
        writer.line(f"clock[{BEGAN}] = {began}")
