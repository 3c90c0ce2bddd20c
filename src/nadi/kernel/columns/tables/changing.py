"""The query that changes a table by what it finds there: `from S left outer join T on … select … update or insert into T …`.

Each event must see what those before it have written, so that one loop does it all: look, filter, compute, write. The other queries that write the table take
part in it by their turns. As on rows, the events of one chunk look before any of them writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.selecting import Computed, Passed, Same, picked_values
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.columns.tables import versions
from nadi.kernel.columns.tables.held import Asked, HeldTable
from nadi.kernel.columns.tables.versions import NULLS, VALUES
from nadi.kernel.columns.tables.writing import KINDS, Turns
from nadi.kernel.columns.terms import Term
from nadi.kernel.contract import Row
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.columns.tablesupport import Lookup, Seen, Write
from nadi.plan.nodes import Attr, FilterStep, SingleInput
from nadi.plan.walk import inside

_TABLE = "columns, nodes, keys, heads, meta, touched, changed"
_OTHER = (
    f"o_turns[p], o_kinds[p], o_sets[p], o_values, p * count, o_nulls[p], o_rows, p * size, o_row_nulls[p], {_TABLE}"
)
_NO = np.zeros(0, np.int64)
_NOBODY = Asked(_NO, _NO, _NO, _NO, (_NO, _NO), (_NO, _NO))


@dataclass(frozen=True, slots=True)
class Changed:
    """What could not be inserted: the places of what others asked for; of the query's own rows turns, timestamps and values."""

    others: Longs
    turns: Longs
    ts: Longs
    rows: list[Row]


class Changing:
    """Such a query. `source` is the stream that it reads, `name` its own name, `key` are the output columns that are the primary key."""

    def __init__(self, seen: Seen, write: Write, held: HeldTable, turns: Turns) -> None:
        query = seen.query
        assert isinstance(query.input, SingleInput)  # as `seen` gives it
        self.source, self.name, self.key = query.input.source, query.name, write.key
        self._lookups, self._write, self._held, self._turns = seen.lookups, write, held, turns
        self._types, self._width = seen.types, seen.lookups[0].at
        looked = (query.input.steps, query.selection)
        self._read = sorted({part.position for part in inside(looked) if isinstance(part, Attr) and part.slot == 0})
        self._text = text = LoopText(seen.types)
        own = (
            f"turn[done], {KINDS[write.kind]}, {sum(1 << c for c in write.set)}, w_values, done * count, w_nulls[done]"
        )
        own = f"{own}, w_rows, done * size, w_row_nulls[done], {_TABLE}".replace("turn[done]", "turn[source[done]]")
        flush = [
            "while done < k:",
            f"    if wish({own}):",
            "        failed[failures] = done",
            "        failures += 1",
            "    done += 1",
        ]
        others = [
            "    p = order[o]",
            f"    if wish({_OTHER}):",
            "        o_failed[o_failures] = p",
            "        o_failures += 1",
            "    o += 1",
        ]
        text.before += ["k = 0", "done = 0", "o = 0", "failures = 0", "o_failures = 0", "last = -1"]
        text.before += [f"count = {len(held.table.primary_key)}", f"size = {len(held.types)}"]
        line = text.writer.line
        line("if chunk[i] != last:")
        for one in ["last = chunk[i]", *flush, "while o < len(order) and o_turns[order[o]] < turn[i]:", *others]:
            line(f"    {one}")
        text.after += [
            *flush,
            "while o < len(order):",
            *others,
            "made[0] = k",
            "made[1] = failures",
            "made[2] = o_failures",
        ]
        for number, lookup in enumerate(self._lookups):
            self._look(number, lookup)
        self._row(seen)
        self._declare()
        self._loop = text.compiled("changing")

    # ---- the loop

    def _look(self, number: int, lookup: Lookup) -> None:
        """The lines that look for a row, and read of it what is asked for."""
        write, line = self._text.writer, self._text.writer.line
        line(
            f"n{number} = seen_last(l{number}_values, i * count, l{number}_nulls[i], columns, nodes, keys, heads, meta)"
        )
        line(f"t{number} = n{number} != 0")
        write.known(lookup.at, Term(f"t{number}"))
        first = lookup.at + 1
        for column, kind in enumerate(self._held.types) if lookup.whole else ():
            if first + column in self._read:
                name, at = f"{number}_{column}", f"n{number} + {VALUES + column}"
                value = (
                    f"nodes[{at}] != 0"
                    if kind is Type.BOOL
                    else f"float(floats[{at}])"
                    if kind in _FLOATS
                    else f"int(nodes[{at}])"
                )
                line(f"r{name} = {value}")
                line(f"y{name} = (nodes[n{number} + {NULLS}] >> {column}) & 1 != 0")
                write.known(first + column, Term(f"r{name}", f"y{name}"))

    def _row(self, seen: Seen) -> None:
        """The lines of filters and of the row that is written."""
        query, write, line = seen.query, self._text.writer, self._text.writer.line
        assert isinstance(query.input, SingleInput)
        for step in query.input.steps:
            if isinstance(step, FilterStep):
                line(f"if not {write.truth(step.condition)}: continue")
        picked, terms = picked_values(write, query.selection)
        if query.selection.having is not None:
            write.outputs = {i: term for i, term in enumerate(terms) if term is not None}
            line(f"if not {write.truth(having_of(query.selection))}: continue")
        self._strings: dict[str, int | str] = {}  # by parameter, the column or the text whose numbers it gets
        values: list[tuple[Term, Type]] = []
        for number, (one, computed, kind) in enumerate(zip(picked, terms, query.selection.schema.types, strict=True)):
            match one:
                case Computed():
                    assert computed is not None
                    values.append((computed, kind))
                case Passed(position) if kind is Type.STRING and position < self._width:
                    self._strings[f"s{position}"] = position
                    values.append((Term(f"s{position}[i]", write.null_of(position)), kind))
                case Passed(position):
                    values.append((write.term(Attr(0, position, kind)), kind))
                case Same(text):
                    if text is not None:
                        self._strings[f"d{number}"] = text
                    values.append((Term("0", "True") if text is None else Term(f"d{number}[0]"), kind))
        line("source[k] = i")
        self._words("w_values", "w_nulls", "count", [values[position] for position in self._write.key])
        given = [None if position is None else values[position] for position in self._write.columns]
        self._words("w_rows", "w_row_nulls", "size", given)
        line("k += 1")

    def _words(
        self, name: str, nulls: str, width: str, values: list[tuple[Term, Type] | None] | list[tuple[Term, Type]]
    ) -> None:
        """The lines that put values down as words, 0 where they are null, and as bits which are."""
        line = self._text.writer.line
        line("bits = 0")
        for column, value in enumerate(values):
            if value is None:
                line(f"{name}[k * {width} + {column}] = 0")
                continue
            term, kind = value
            array, text = (f"{name}_floats", term.text) if kind in _FLOATS else (name, f"int({term.text})")
            zero = "0.0" if kind in _FLOATS else "0"
            line(f"{array}[k * {width} + {column}] = {f'{zero} if {term.null} else {text}' if term.null else text}")
            if term.null:
                line(f"bits |= {1 << column} if {term.null} else 0")
        line(f"{nulls}[k] = bits")

    def _declare(self) -> None:
        text = self._text
        text.names |= {"wish": versions.wish, "seen_last": versions.seen_last}
        text.own |= {"columns": "int64[]", "nodes": "int64[]", "floats": "float64[]"}
        text.own |= dict.fromkeys(("keys", "heads", "meta", "touched", "changed", "order"), "int64[]")
        text.own |= {
            f"o_{name}": "int64[]"
            for name in ("turns", "kinds", "sets", "values", "nulls", "rows", "row_nulls", "failed")
        }
        text.own |= dict.fromkeys(
            ("turn", "source", "made", "failed", "w_values", "w_nulls", "w_rows", "w_row_nulls"), "int64[]"
        )
        text.own |= {"w_values_floats": "float64[]", "w_rows_floats": "float64[]"}
        for number in range(len(self._lookups)):
            text.own |= {f"l{number}_values": "int64[]", f"l{number}_nulls": "int64[]"}
        text.own |= dict.fromkeys(self._strings, "int64[]")

    # ---- a batch

    def process(self, stretch: Stretch, others: Asked | None) -> Changed:
        """Look and write, with what others ask for."""
        held, size, asked = self._held, len(stretch), others or _NOBODY
        turn = self._turns.of(stretch)
        own: dict[str, Array | int] = {"turn": turn, "order": np.argsort(asked.turns, kind="stable")}
        own |= {
            "o_turns": asked.turns,
            "o_kinds": asked.kinds,
            "o_sets": asked.sets,
            "o_failed": np.empty(len(asked.turns), np.int64),
        }
        own |= {
            "o_values": asked.keys[0],
            "o_nulls": asked.keys[1],
            "o_rows": asked.rows[0],
            "o_row_nulls": asked.rows[1],
        }
        for number, lookup in enumerate(self._lookups):
            columns = [stretch.columns[position] for position in lookup.keys]
            matrix = held.matrix(columns, [self._types[position] for position in lookup.keys], size)
            own[f"l{number}_values"], own[f"l{number}_nulls"] = matrix
        for name, given in self._strings.items():
            own[name] = (
                held.numbered(given) if isinstance(given, str) else held.words(stretch.columns[given], Type.STRING)[0]
            )
        rows = {name: np.empty(size, np.int64) for name in ("source", "failed", "w_nulls", "w_row_nulls")}
        rows["w_values"] = np.empty(size * len(held.table.primary_key), np.int64)
        rows["w_rows"] = np.empty(size * len(held.types), np.int64)
        own |= rows
        own |= {f"{name}_floats": rows[name].view(np.float64) for name in ("w_values", "w_rows")}
        made = own["made"] = np.zeros(3, np.int64)
        self._loop(stretch, own, held.loops(size + len(asked.turns)))
        _k, failures, o_failures = made.tolist()
        failed = rows["failed"][:failures]
        refused = held.rows_of(rows["w_rows"].reshape(size, -1)[failed], rows["w_row_nulls"][failed])
        at = rows["source"][failed]
        o_failed = own["o_failed"]
        assert not isinstance(o_failed, int)
        return Changed(o_failed[:o_failures], turn[at], stretch.ts[at], refused)


_FLOATS = (Type.FLOAT, Type.DOUBLE)
