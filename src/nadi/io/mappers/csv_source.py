"""CSV messages → events.

A message is one record (or several, as one chunk: they are told apart by line ends outside quotes). A stretch of plain one-line messages is parsed
by pyarrow at once, column by column; a message with quotes that do not balance, line ends, or a wrong number of fields is parsed alone.

- Columns belong to attributes by the names of the header line where the log has one, else by order; with `@attributes(a='2', b='name')` by
  index or header name.
- Columns that no attribute wants are ignored. A record that is wider or narrower than the header, or lacks a column that is wanted, is a failure.
- An unquoted empty field is null, as is whatever `null.values` lists ('NA,' = `NA` and empty). `""` is the empty string.
- Spaces around numbers and bools are ignored; strings are taken as they are. A value that does not fit its type is a failure of that record.
- `fail.on.unknown.attribute='false'`: a value that does not fit, or is missing, is null instead.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.columns import ARROW, batch_of
from nadi.io.mappers.csv_records import Field, records
from nadi.io.mappers.mapannotation import attribute_mapping, check_delimiter, delimiter_of, invalid, map_options
from nadi.io.mappers.stretch import Stretch, is_utf8
from nadi.io.mappers.transport import split_properties
from nadi.io.mappers.typed_rows import decode_typed
from nadi.io.mappers.values import from_text
from nadi.io.registry import source_traits
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.plan.options import flag

SPARE_FIELDS = 1_000
_BOM = b"\xef\xbb\xbf"
_NUMBER_LIKE = re.compile(r"\s*[+-]?[0-9.].*")
_SHAPES = {
    Type.INT: r"^[+-]?[0-9]{1,40}$",
    Type.LONG: r"^[+-]?[0-9]{1,40}$",
    Type.FLOAT: r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|Infinity)$",
    Type.DOUBLE: r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|Infinity)$",
    Type.BOOL: r"^(?i:true|false)$",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the attributes are in a record: `places[i]` of column i, `width` fields at least (exactly, with a header)."""

    places: tuple[int, ...]
    width: int
    exact: bool


class CsvSource:
    """The decoder of `@map(type='csv')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        mapping = attribute_mapping(connector)
        traits = source_traits(connector.type)
        if flag(options, "header", False) and (traits is None or not traits.header):
            raise invalid(connector, "header='true' needs a source that has a first line: use it with file only")
        self._connector = connector
        self._schema = connector.schema
        self._strict = flag(options, "fail.on.unknown.attribute", True)
        self._delimiter = delimiter_of(connector)
        self._quote = options.get("quote", '"')
        self._nulls = frozenset(options.get("null.values", "").split(",")) | {""}
        if len(self._quote) != 1 or not self._quote.isascii():
            raise invalid(connector, "quote is a single ASCII character")
        check_delimiter(connector, self._delimiter, self._quote)
        self._slow = len(self._delimiter) != 1 or not self._delimiter.isascii()  # pyarrow takes one character
        self._properties, self._mapping = split_properties(connector, mapping, self._strict)
        columns = [c for c in connector.schema.columns if c.name not in self._properties.names]
        self._inner = Schema(tuple(columns))
        q, d = re.escape(self._quote.encode()), re.escape(self._delimiter.encode())
        one = b"(?:Q(?:[^Q\r\n]|QQ)*+Q|[^QD\r\n]*+)".replace(b"Q", q).replace(b"D", d)
        self._regular_record = re.compile(one + b"(?:" + d + one + b")*+")
        self._layouts: dict[tuple[str, ...], Layout | str] = {}

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return decode_typed(self._schema, messages, messages.payloads)
        if messages.header not in self._layouts:
            self._layouts[messages.header] = self._layout(messages.header)
        layout = self._layouts[messages.header]
        found = Stretch(self._inner)
        if isinstance(layout, str):
            for position, payload in zip(messages.positions, messages.payloads):
                found.fail(Undecodable(int(position), layout, payload))
            return self._properties.complete(self._schema, found.finish(), messages)
        left = range(len(messages)) if self._slow else self._decode_fast(layout, messages.payloads, found)
        for i in left:
            self._decode_alone(layout, i, int(messages.positions[i]), messages.payloads[i], found)
        return self._properties.complete(self._schema, found.finish(), messages)

    def _layout(self, header: tuple[str, ...]) -> Layout | str:
        """Places of the attributes; a sentence where this header does not have them."""
        places = []
        for i, column in enumerate(self._inner.columns):
            wanted = self._mapping.get(column.name, column.name if header else str(i))
            if wanted in header:
                places.append(header.index(wanted))
            elif wanted.isdecimal():
                places.append(int(wanted))
            else:
                return f"the header has no column '{wanted}'" if header else f"column '{wanted}' needs a header line"
        width = len(header) or max([*places, -1]) + 1
        return Layout(tuple(places), width, bool(header))

    # -- many messages at once

    def _decode_fast(self, layout: Layout, payloads: Sequence[bytes], found: Stretch) -> list[int]:
        """Adds the events of all regular messages; the indices of the others come back."""
        regular, left = self._regular(payloads)
        if not len(regular):
            return left
        chosen = payloads if not left else [payloads[i] for i in regular]
        parsed = self._parse(self._width(layout, chosen[0]), chosen)
        if parsed is None:
            return list(range(len(payloads)))
        table, wrong = parsed
        left += [int(regular[i]) for i in wrong]
        rows = np.delete(regular, wrong) if wrong else regular
        bad = np.zeros(len(rows), np.bool_)
        columns = []
        for column, place in zip(self._inner.columns, layout.places):
            values, unfit = _typed(column, table.column(place).combine_chunks(), self._nulls)
            columns.append(values)
            bad |= unfit
        batch = batch_of(self._inner, columns)
        if bad.any():
            left += rows[bad].tolist()
            batch, rows = batch.filter(pa.array(~bad)), rows[~bad]
        found.add_batch(batch, rows)
        return sorted(left)

    def _regular(self, payloads: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Messages that cannot reach into their neighbours: one line, quotes balanced; and the others."""
        everything = b"\n".join(payloads)
        plain = (
            everything.count(b"\n") == len(payloads) - 1
            and b"\r" not in everything
            and self._quote.encode() not in everything
            and _BOM not in everything
            and is_utf8(everything)
        )
        left = [i for i, p in enumerate(payloads) if not p or not (plain or self._is_regular(p))]
        return np.setdiff1d(np.arange(len(payloads)), left, assume_unique=True), left

    def _is_regular(self, payload: bytes) -> bool:
        return self._regular_record.fullmatch(payload) is not None and _BOM not in payload and is_utf8(payload)

    def _width(self, layout: Layout, payload: bytes) -> int:
        """How many fields the records have: without a header, as many as the first one (others are looked at alone, and the first one too where it has far
        more than are wanted: a column is made for each, and a message of a megabyte may have a million)."""
        if layout.exact:
            return layout.width
        try:
            found = len(records(payload.decode(), self._delimiter, self._quote)[0])
            return max(layout.width, found) if found <= layout.width + SPARE_FIELDS else layout.width
        except (UnicodeDecodeError, csv.Error, IndexError):
            return layout.width

    def _parse(self, width: int, payloads: Sequence[bytes]) -> tuple[pa.Table, list[int]] | None:
        """All fields as strings, without the records of a wrong width, and the indices of those; None where records ran together."""
        wrong: list[int] = []

        def skip(row: pacsv.InvalidRow) -> str:
            wrong.append(row.number - 1)
            return "skip"

        # Without the last line end, pyarrow (26.0) takes an empty field after a quoted one at the end of the text for a quoted one.
        text = b"\n".join(payloads) + b"\n"
        names = [str(i) for i in range(width)]
        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                pacsv.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1 << 16), column_names=names),
                pacsv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char=self._quote,
                    ignore_empty_lines=False,
                    invalid_row_handler=skip,
                ),
                pacsv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[*self._nulls],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:  # what the check above let through: each message is looked at alone
            return None
        return (table, wrong) if table.num_rows + len(wrong) == len(payloads) else None

    # -- one message

    def _decode_alone(self, layout: Layout, index: int, position: int, payload: bytes, found: Stretch) -> None:
        if not payload:
            found.fail(Undecodable(position, "the message is empty", payload))
            return
        try:
            parsed = records(payload.decode(), self._delimiter, self._quote)
        except (UnicodeDecodeError, csv.Error) as e:
            reason = "not UTF-8" if isinstance(e, UnicodeDecodeError) else f"not CSV: {e}"
            found.fail(Undecodable(position, reason, payload))
            return
        for record in parsed:
            try:
                found.add_row(index, self._row(layout, record))
            except ValueError as e:
                whole = payload if len(parsed) == 1 else self._delimiter.join(f.text for f in record).encode()
                found.fail(Undecodable(position, str(e), whole))

    def _row(self, layout: Layout, record: Sequence[Field]) -> tuple[object, ...]:
        short = len(record) < layout.width
        if self._strict and (short or (layout.exact and len(record) > layout.width)):
            raise ValueError(f"{len(record)} fields where {layout.width} are expected")
        return tuple(
            self._value(c, record[p] if p < len(record) else None) for c, p in zip(self._inner.columns, layout.places)
        )

    def _value(self, column: Column, given: Field | None) -> object:
        if given is None or (not given.quoted and given.text in self._nulls):
            return None
        try:
            if column.type not in (Type.STRING, Type.OBJECT) and given.text.strip() in self._nulls:
                return None
            return from_text(given.text, column.type)
        except ValueError as e:
            if self._strict:
                raise ValueError(f"attribute '{column.name}': {e}") from None
            return None


def _typed(column: Column, texts: pa.Array, nulls: frozenset[str]) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """A column of strings by its type, and where a value does not fit (null there)."""
    if column.type in (Type.STRING, Type.OBJECT):
        return texts, np.zeros(len(texts), np.bool_)
    quick = _quickly(column, texts, nulls)
    if quick is not None:
        return quick, np.zeros(len(texts), np.bool_)
    words = pc.utf8_trim_whitespace(texts)
    words = pc.if_else(pc.is_in(words, pa.array(sorted(nulls), pa.string())), pa.scalar(None, pa.string()), words)
    fits = pc.match_substring_regex(words, _SHAPES[column.type])
    unfit = pc.fill_null(pc.invert(fits), False)
    if column.type is Type.BOOL:
        words = pc.utf8_lower(words)
    elif pc.any(pc.starts_with(words, "+")).as_py():
        words = pc.if_else(pc.starts_with(words, "+"), pc.utf8_slice_codeunits(words, 1), words)
    words = pc.if_else(unfit, pa.scalar(None, pa.string()), words)
    try:
        return pc.cast(words, ARROW[column.type]), unfit.to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a whole number out of range: such records are looked at one by one
        values = [_fitting(column, w) for w in words.to_pylist()]
        out_of_range = np.array([v is None and w is not None for v, w in zip(values, words.to_pylist())], np.bool_)
        return pa.array(values, ARROW[column.type]), unfit.to_numpy(zero_copy_only=False) | out_of_range


def _quickly(column: Column, texts: pa.Array, nulls: frozenset[str]) -> pa.Array | None:
    """A column of plain numbers, without looking at every text; None where something might be read otherwise then."""
    if column.type is Type.BOOL or any(_NUMBER_LIKE.fullmatch(n) for n in nulls):
        return None
    try:
        values = pc.cast(texts, ARROW[column.type])
    except pa.ArrowInvalid:
        return None
    if column.type in (Type.INT, Type.LONG):  # Arrow reads 0x10 as well
        return None if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py() else values
    return values if pc.all(pc.is_finite(values)).as_py() is not False else None


def _fitting(column: Column, word: str | None) -> object:
    try:
        return None if word is None else from_text(word, column.type)
    except ValueError:
        return None
