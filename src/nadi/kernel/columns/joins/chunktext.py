"""The lines for windows of a join that hold the last chunk: when it leaves, and when aggregators are emptied (semantics/windows.md#batch)."""

from __future__ import annotations

from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.joins.layout import Layout, Side
from nadi.kernel.columns.joins.places import HEAD, WHEN
from nadi.kernel.columns.joins.totalling import Totalling


class ChunkText:
    """Writes them. The loop keeps `names` when it stops: of each side whether its chunk has begun, and how many events of its piece came.

    There are none where one stream stands on both sides: each of its events is a chunk.
    """

    def __init__(self, layout: Layout, writer: Writer) -> None:
        self._layout = layout
        self._writer = writer
        self._apart = len(layout.sources.names) > 1
        sides = [side for side in layout.sides if side.batches] if self._apart else []
        self._begun = tuple(f"begun_{side.slot}" for side in sides)
        self.names = (*self._begun, *(f"size_{side.slot}" for side in sides if side.piece is not None))

    def run(self, number: int) -> None:
        """At each event of a source: whether a run of one key begins, or, where windows hold chunks, a chunk."""
        keyed = self._layout.partitioned
        if not self._apart or not (keyed or self._begun):
            return
        self._writer.open(f"if chunk_{number}[i] != last_chunk{' or g != last_key' if keyed else ''}:")
        for text in ("run += 1", f"last_chunk = chunk_{number}[i]", *(["last_key = g"] if keyed else [])):
            self._writer.line(text)
        for name in self._begun:
            self._writer.line(f"{name} = 0")
        self._writer.close()

    def begin(self, side: Side, totalling: Totalling | None) -> None:
        """Before an event enters: the first one of a chunk lets those of the one before go, and empties aggregators. So does one that begins a piece, but that
        nothing leaves."""
        n, line = side.slot, self._writer.line
        if self._apart:
            piece = "" if side.piece is None else f" or size_{n} == {side.piece}"
            self._writer.open(f"if begun_{n} == 0{piece}:")
        if side.empties and totalling is not None:
            self._reset(side, totalling)
        if not self._apart:
            self._empty(side)
            return
        if self._layout.cuts:
            line("run += 1")
        if side.piece is not None:
            line(f"size_{n} = 0")
        self._writer.open(f"if begun_{n} == 0:")
        self._empty(side)
        if side.held and side.period is not None and not side.hoards:
            line(f"rows{n}[at + {WHEN}] = clock")
        line(f"begun_{n} = 1")
        self._writer.close(2)
        if side.piece is not None:
            line(f"size_{n} += 1")

    def _reset(self, side: Side, totalling: Totalling) -> None:
        """Aggregators are emptied."""
        if side.opens:
            self._writer.open(f"if rows{side.slot}[at + {HEAD}] != 0:")
        totalling.reset()
        if side.opens:
            self._writer.close()

    def lapse(self, side: Side, when: str) -> None:
        """What a window holds for a period leaves if no other batch has come by then; `when` says how its end is to be."""
        if not side.held or side.period is None or side.hoards:
            return
        n = side.slot
        self._writer.open(
            f"if rows{n}[at + {HEAD}] != 0 and rows{n}[at + {WHEN}] + {self._writer.number(side.period)} {when}:"
        )
        self._empty(side)
        self._writer.line(f"touched{n}[g] = True")
        self._writer.close()

    def _empty(self, side: Side) -> None:
        """All events of a side leave, if any ever does."""
        n = side.slot
        if side.held and not side.hoards:
            self._writer.line(f"while rows{n}[at + {HEAD}] != 0: pop(words{n}, rows{n}, at, meta{n}, heads{n})")
