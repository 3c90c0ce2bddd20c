"""Output rows that wait for the end of their batch, one per group: the last one that passed `having` (semantics/selection.md#the-chunk-rule).

A row lies in the arrays of its group: `r<n>` its value in output column n and `x<n>` whether that is null, `t<n>` a string (an id of `Texts`). A string that is
the group's own key is not kept but for whether it is null. `rts` is the row's timestamp, `rgroup` its key-group. What comes out is copied by the loop to `o…`
of the same names, with the group in `og`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.selecting import Computed, Passed, Same, picked_values
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Longs, Stretch
from nadi.kernel.columns.texts import Texts, strings
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import Attr, Selection


class RowText:
    """Writes the selection of a loop whose rows wait. `key` is the one attribute by which events are grouped, None where there is none or several.

    `arrays` (name → dtype) are those by group, `strings` the attributes whose ids the loop gets as `i<position>`.
    """

    def __init__(self, text: LoopText, selection: Selection, key: int | None, sharded: bool) -> None:
        self._text = text
        self._types = text.writer.types
        self._key = key
        picked, terms = picked_values(text.writer, selection)
        self._picked = picked
        self.strings = tuple(
            dict.fromkeys(
                p.position
                for p in picked
                if isinstance(p, Passed) and p.position != key and self._types[p.position] is Type.STRING
            )
        )
        self._stores: list[tuple[str, str, str]] = []  # array, dtype, value
        for number, one in enumerate(picked):
            self._store(number, one, terms[number] if isinstance(one, Computed) else None)
        self._stores.append(("rts", "int64", "ts[i]"))
        if sharded:
            self._stores.append(("rgroup", "int64", "keygroup[i]"))
        self.test = ""
        if selection.having is not None:
            text.writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
            self.test = text.writer.truth(having_of(selection))
        self.arrays = {name: dtype for name, dtype, _value in self._stores}

    def _store(self, number: int, one: object, term: object) -> None:
        writer = self._text.writer
        if isinstance(one, Passed):
            kind = self._types[one.position]
            if kind is not Type.STRING:
                found = writer.term(Attr(0, one.position, kind))
                self._stores.append((f"r{number}", DTYPES[kind], found.text))
                self._stores.append((f"x{number}", "bool", found.null))
            elif one.position == self._key:
                self._stores.append((f"x{number}", "bool", writer.null_of(one.position)))
            else:
                self._stores.append((f"t{number}", "int32", f"i{one.position}[i]"))
        elif isinstance(one, Computed):
            self._stores.append((f"r{number}", one.dtype, term.text))  # type: ignore[attr-defined]  # it was computed
            if one.nullable:
                self._stores.append((f"x{number}", "bool", term.null))  # type: ignore[attr-defined]

    @property
    def texts(self) -> tuple[str, ...]:
        """The arrays that have ids of strings."""
        return tuple(name for name in self.arrays if name.startswith("t"))

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets beside the arrays by group."""
        own = {f"o{name}": f"{dtype}[]" for name, dtype in self.arrays.items()} | {"og": "int64[]", "of": "int64[]"}
        own |= {f"i{position}": "const int32[]" for position in self.strings}
        return own | ({"keygroup": "const int64[]"} if "rgroup" in self.arrays else {})

    def keep(self, group: str) -> None:
        """The lines that keep the row at hand."""
        for name, _dtype, value in self._stores:
            self._text.writer.line(f"{name}[{group}] = {value}")

    def put_out(self, group: str) -> tuple[str, ...]:
        """The lines that put the row of a group out at `k`, in chunk `e`."""
        copies = (f"o{name}[k] = {name}[{group}]" for name in self.arrays)
        return (*copies, f"og[k] = {group}", "of[k] = e", "k += 1")

    # ---- what came out

    def room(self, size: int) -> dict[str, Array | int]:
        """Arrays for so many rows that come out."""
        made: dict[str, Array | int] = {f"o{name}": np.empty(size, dtype) for name, dtype in self.arrays.items()}
        return made | {"og": np.empty(size, np.int64), "of": np.empty(size, np.int64)}

    def given(self, stretch: Stretch, texts: Texts) -> dict[str, Array | int]:
        """What a loop gets of a stretch."""
        made: dict[str, Array | int] = {f"i{p}": texts.ids(stretch.columns[p]) for p in self.strings}
        return made if stretch.group is None else made | {"keygroup": stretch.group}

    def stretch(
        self,
        own: Mapping[str, Array | int],
        rows: Longs | slice,
        chunk: Longs,
        now: Longs,
        groups: Groups,
        texts: Texts,
    ) -> Stretch:
        """The rows at some places of what came out."""

        def of(name: str) -> Array:
            array = own[name]
            assert not isinstance(array, int)
            return array[rows]

        columns = []
        for number, one in enumerate(self._picked):
            if isinstance(one, Same):
                columns.append(one.column(len(chunk)))
            elif f"t{number}" in self.arrays:
                columns.append(texts.column(of(f"ot{number}")))
            elif f"r{number}" in self.arrays:
                nulls = of(f"ox{number}") if f"x{number}" in self.arrays else None
                columns.append(Column(None, of(f"or{number}"), nulls))
            else:
                columns.append(strings(groups.keys, of("og"), of(f"ox{number}")))
        group = of("orgroup") if "rgroup" in self.arrays else None
        return Stretch(tuple(columns), of("orts"), now, chunk, group)
