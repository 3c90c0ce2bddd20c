"""The loop of a pattern that waits for absences by the clock: before the events of each chunk of the input, and once more behind the last one, timers fire."""

from __future__ import annotations

from typing import ClassVar

from nadi.kernel.columns.patterns import firing, waking
from nadi.kernel.columns.patterns.automatontext import CALLED, STATE, AutomatonText
from nadi.kernel.columns.patterns.partials import NOW, OVER

_TIMERS = "heap, starts, lengths, texts"


class TimedText(AutomatonText):
    """Writes the loop. `heap` has the timers; `starts`, `lengths` and `texts` are those of keys; `owner` gets the key of each row that a timer makes."""

    _extra: ClassVar = {
        "until": "int64",
        "came": "const int64[]",
        "heap": "int64[]",
        "starts": "int64[]",
        "lengths": "int32[]",
        "texts": "uint8[]",
        "owner": "int64[]",
    }
    _called: ClassVar = {
        **CALLED,
        "fired": firing.fired,
        "sent": firing.sent,
        "rested": firing.rested,
        "offer_all": waking.offer_all,
        "first_due": waking.first_due,
        "popped": waking.popped,
    }
    _turns = "n + 1"
    _in_turn = False

    def _turn(self) -> None:
        layout, writer = self._layout, self._writer
        size = layout.places
        writer.line("here = int(now[i]) if i < n else until")
        writer.open("if i == n or i == 0 or came[i] != came[i - 1]:")
        writer.open("while True:")
        writer.line(f"code = first_due({STATE}, heap, here)")
        writer.line("if code < 0: break")
        writer.line(f"g, slot = code // {size}, code % {size}")
        writer.line(f"base = g * {layout.key_width}")
        self._make_room()
        writer.line(f"due = popped({STATE}, {_TIMERS})")
        writer.line(f"meta[{NOW}] = max(meta[{NOW}], due)")
        writer.line("touched[g] = True")
        writer.line(f"m = fired({STATE}, slot, g, base, due)")
        writer.open(f"if m != {firing.USED_UP}:")
        writer.line("some = m != 0")
        writer.open("while m != 0:")
        writer.line(f"following = words[m + {OVER}]")
        self._send()
        writer.line("m = following")
        writer.close()
        writer.line(f"rested({STATE}, slot, base, due, some)")
        writer.close()
        self._offer()
        writer.close(2)
        writer.line("if i == n: break")
        writer.line(f"meta[{NOW}] = max(meta[{NOW}], here)")

    def _send(self) -> None:
        """A match goes on, because nothing came; the last element may complete it."""
        layout, writer = self._layout, self._writer
        last = next((node.slot for node in layout.nodes if node.last and node.kind == "absent"), None)
        call = f"sent({STATE}, m, slot, base, due)"
        if last is None:
            writer.line(call)
            return
        writer.open(f"if {call}:")
        self._in_turn = True
        self._complete(last)
        self._in_turn = False
        writer.close()

    def _note(self, slot: int) -> None:
        if not self._in_turn:
            super()._note(slot)
        else:
            self._put_out("0")

    def _place(self, slot: int) -> None:
        if not self._in_turn:
            super()._place(slot)
            return
        self._writer.line("source[k] = due")
        self._writer.line(f"opened[k] = meta[{NOW}]")
        self._writer.line("owner[k] = g")

    def _offer(self) -> None:
        self._writer.line(f"offer_all({STATE}, {_TIMERS})")
