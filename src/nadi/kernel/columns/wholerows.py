"""Whole events in arrays of numbers, as far as a query looks at them again: for windows that give them on later.

Of attribute n `c<n>` has the value and `y<n>` whether it is null; of a string `c<n>` has its id in a table of texts, 0 for null. `keygroup` is the key-group
in an app that is sharded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch
from nadi.kernel.columns.texts import Texts
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, FilterStep, Query, SingleInput, WindowStep
from nadi.plan.walk import inside


class WholeRows:
    """The attributes at some positions of events with attributes of some types. `columns`: name → dtype; `texts`: the names of those with ids of strings."""

    def __init__(self, types: tuple[Type, ...], positions: Iterable[int], sharded: bool) -> None:
        self._types = types
        self._positions = tuple(sorted(set(positions)))
        self._sharded = sharded
        self.table = Texts()
        self.columns: dict[str, str] = {"keygroup": "int64"} if sharded else {}
        for p in self._positions:
            if types[p] is Type.STRING:
                self.columns[f"c{p}"] = "int32"
            else:
                self.columns |= {f"c{p}": DTYPES[types[p]], f"y{p}": "bool"}
        self.texts = tuple(f"c{p}" for p in self._positions if types[p] is Type.STRING)

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets for them: `i<n>` the ids of strings, `o<name>` what goes on."""
        made = {f"o{name}": f"{dtype}[]" for name, dtype in self.columns.items()}
        made |= {f"i{name[1:]}": "const int32[]" for name in self.texts}
        return made | ({"keygroup": "const int64[]"} if self._sharded else {})

    def given(self, stretch: Stretch, room: int) -> dict[str, Array | int]:
        """These for a stretch, where so many may go on."""
        made: dict[str, Array | int] = {f"o{name}": np.empty(room, dtype) for name, dtype in self.columns.items()}
        made |= {f"i{name[1:]}": self.table.ids(stretch.columns[int(name[1:])]) for name in self.texts}
        return made | ({} if stretch.group is None else {"keygroup": stretch.group})

    def keep(self, write: Writer) -> None:
        """The lines that keep the event at hand at place `j`."""
        if self._sharded:
            write.line("h_keygroup[j] = keygroup[i]")
        for p in self._positions:
            if f"c{p}" in self.texts:
                write.line(f"h_c{p}[j] = i{p}[i]")
            else:
                term = write.term(Attr(0, p, self._types[p]))
                write.line(f"h_c{p}[j] = {term.text}")
                write.line(f"h_y{p}[j] = {term.null or 'False'}")

    def put_out(self, write: Writer) -> None:
        """The lines that let the event at place `j` go on as number `k`."""
        for name in self.columns:
            write.line(f"o{name}[k] = h_{name}[j]")
        write.line("k += 1")

    def stretch(self, own: Mapping[str, Array | int], rows: Longs | slice, now: Longs, chunk: Longs) -> Stretch:
        """The events at some places of what went on, stamped with the clock."""

        def of(name: str) -> Array:
            array = own[f"o{name}"]
            assert not isinstance(array, int)
            return array[rows]

        columns = []
        for p, kind in enumerate(self._types):
            if p not in self._positions:
                columns.append(_nothing(kind, len(now)))
            elif kind is Type.STRING:
                columns.append(self.table.column(of(f"c{p}")))
            else:
                columns.append(Column(None, of(f"c{p}"), of(f"y{p}")))
        return Stretch(tuple(columns), now, now, chunk, of("keygroup") if self._sharded else None)


def _nothing(kind: Type, size: int) -> Column:
    """A column at which nobody looks."""
    if kind in DTYPES:
        return Column(None, np.zeros(size, DTYPES[kind]))
    return Column(pa.nulls(size, pa.string()))


def looked_at(query: Query) -> frozenset[int]:
    """The positions of the attributes at which a query looks behind its window."""
    assert isinstance(query.input, SingleInput)
    steps = query.input.steps
    at = next(n for n, step in enumerate(steps) if isinstance(step, WindowStep))
    selection = query.selection
    conditions = tuple(step.condition for step in steps[at:] if isinstance(step, FilterStep))
    looked = (conditions, selection.values, selection.having, selection.group_by, selection.aggregates)
    return frozenset(part.position for part in inside(looked) if isinstance(part, Attr) and part.slot == 0)
