"""The loop of a sequence with logical or absent elements as text. Of each event all matches hear that are pending at elements of its stream: those that
cannot bind it go. What follows is `sequencemoving`'s."""

from __future__ import annotations

from typing import ClassVar

from nadi.kernel.columns.patterns import sequencefiring, sequencemoving
from nadi.kernel.columns.patterns.automaton import Element
from nadi.kernel.columns.patterns.automatontext import CALLED, STATE, AutomatonText
from nadi.kernel.columns.patterns.partials import COUNT, HEAD, LINKS, NEXT, PLACE, STARTS, WAITS
from nadi.kernel.columns.patterns.timedtext import TimedText
from nadi.kernel.columns.patterns.waking import OFF, TIMER

_MOVING: dict[str, object] = {
    "begin": sequencemoving.begin,
    "bound": sequencemoving.bound,
    "expire": sequencemoving.expire,
    "ready": sequencemoving.ready,
    "leave": sequencemoving.leave,
}


class SequenceText(AutomatonText):
    """Writes the loop."""

    _called: ClassVar = {**CALLED, **_MOVING}

    def _pass_over(self) -> None:
        layout = self._layout
        if layout.first.every is None or layout.times_begin:
            return
        # an operand that refuses an event still leaves its match at the other one
        heard = "may" if layout.first.partner is None else "mine"
        self._writer.line(f"if keys[base + {COUNT}] == 0 and ({heard} & {layout.opening}) == 0: continue")

    def _settle(self) -> None:
        self._writer.line(f"ready({STATE}, g, base)")
        self._writer.line("touched[g] = True")

    def _asked(self) -> str:
        return f"mine & (keys[base + {WAITS}] >> {len(self._layout.elements)})"

    def _step(self, element: Element) -> None:
        layout, writer, slot = self._layout, self._writer, element.slot
        pending, node = len(layout.elements) + slot, layout.nodes[slot]
        if node.waiting is not None:
            writer.open(f"if keys[base + {layout.timers + TIMER * slot + OFF}] == 0:")
        if self._shares(slot) and self._completes(slot):
            writer.line("chunk += 1")
        self._fits(element)
        writer.line(f"m = keys[base + {STARTS + PLACE * pending + HEAD}]")
        writer.open("while m != 0:")
        writer.line(f"following = words[m + {layout.links + LINKS * pending + NEXT}]")
        writer.line("held = False")
        goes = [
            f"words[m + {layout.counts + s}] == 0" for s in range(len(layout.elements)) if (element.hurried >> s) & 1
        ]
        writer.open(f"if {' and '.join(['fits', *goes])}:")
        self._captures.recall(element.rest)
        blocks = writer.open_all(element.rest)
        writer.line("held = True")
        self._bind(element)
        writer.close(blocks + 1)
        if node.kind != "absent":  # which a match that binds nothing does not leave
            writer.line(f"if not held: leave({STATE}, m, {slot}, base)")
        writer.line("m = following")
        writer.close(1 if node.waiting is None else 2)

    def _count(self, slot: int) -> str:
        return super()._count(slot) if self._layout.nodes[slot].kind == "count" else "1"

    def _fits(self, element: Element) -> None:
        """Whether the event may be bound, whatever a match has bound."""
        writer = self._writer
        writer.line("fits = False")
        writer.open(f"if (may & {1 << element.slot}) != 0:")
        blocks = writer.open_all(element.alone)
        writer.line("fits = True")
        writer.close(blocks + 1)


class TimedSequenceText(SequenceText, TimedText):
    """Writes the loop of one that waits for absences by the clock."""

    _called: ClassVar = {
        **TimedText._called,
        **_MOVING,
        "fired": sequencefiring.fired,
        "sent": sequencefiring.sent,
    }
