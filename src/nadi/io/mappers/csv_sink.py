"""Events → CSV records.

A message is one record without a line end; the records of a chunk are one message with `event.grouping.enabled='true'`. Fields are
separated by `delimiter` and quoted where they must be: they hold a character of the delimiter, a quote or a line end, start or end with a space, or are the
empty string. Null is an empty field (or `null.value`: Siddhi writes `null`). `header='true'` is for files: the names are their first line.
`@payload(a='0', b='1')` orders and chooses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.io.contract import Connector
from nadi.io.mappers.columns import as_text, chunk_bounds
from nadi.io.mappers.mapannotation import check_delimiter, delimiter_of, invalid, map_options, payload_annotation
from nadi.io.registry import sink_traits
from nadi.lang.tree import Type
from nadi.plan.nodes import Column
from nadi.plan.options import flag


class CsvSink:
    """The encoder of `@map(type='csv')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        traits = sink_traits(connector.type)
        if flag(options, "header", False) and (traits is None or not traits.header):
            raise invalid(connector, "header='true' needs a target that has a first line: use it with file only")
        self._columns = _chosen(connector)
        self._delimiter = delimiter_of(connector)
        check_delimiter(connector, self._delimiter, '"')
        self._null = options.get("null.value", "")
        self._grouped = flag(options, "event.grouping.enabled", False)
        self._headed = flag(options, "header", False)
        special = re.escape(self._delimiter) + r'"\r\n'
        alike = f"|^{re.escape(self._null)}$" if self._null else ""
        self._needs_quotes = f"[{special}]|^\\s|\\s$|^$|^\ufeff{alike}"

    @property
    def header(self) -> bytes | None:
        """The line of names that a new file begins with, None without `header='true'`."""
        if not self._headed:
            return None
        names = self._quoted(pa.array([c.name for c in self._columns], pa.string()))
        return self._delimiter.join(names.to_pylist()).encode()

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        if batch.num_rows == 0:
            return [], []
        fields = [self._field(batch.column(c.name), c) for c in self._columns]
        lines = pc.binary_join_element_wise(*fields, self._delimiter).cast(pa.binary())
        records: list[bytes] = lines.to_pylist()
        if not self._grouped:
            return records, range(len(records))
        firsts = chunk_bounds(batch)
        ends = np.append(firsts[1:], len(records))
        return [b"\n".join(records[a:b]) for a, b in zip(firsts, ends)], firsts.tolist()

    def _field(self, array: pa.Array, column: Column) -> pa.Array:
        text = as_text(array, column.type)
        if column.type in (Type.STRING, Type.OBJECT):
            text = self._quoted(text)
        return pc.fill_null(text, self._null)

    def _quoted(self, text: pa.Array) -> pa.Array:
        needs = pc.match_substring_regex(text, self._needs_quotes)
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
        return pc.if_else(needs, quoted, text)


def _chosen(connector: Connector) -> tuple[Column, ...]:
    payload = payload_annotation(connector)
    if payload is None:
        return connector.schema.columns
    columns = {c.name: c for c in connector.schema.columns}
    places: dict[int, Column] = {}
    for e in payload.elements:
        if e.key not in columns or not e.value.isdecimal() or int(e.value) in places:
            raise invalid(connector, f"@payload of csv takes attribute='place', each once: {e.key}='{e.value}'")
        places[int(e.value)] = columns[e.key]
    if sorted(places) != list(range(len(places))) or not places:
        raise invalid(connector, f"@payload of csv: the places are 0 to {len(places) - 1}, without gaps")
    return tuple(places[i] for i in sorted(places))
