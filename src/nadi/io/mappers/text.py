"""`@map(type='text')`: events as lines of text.

Source: by default `name:value` pairs separated by commas, strings in single or double quotes (`symbol:"WSO2",price:55.6`, with or without line
ends between them), in any order, the first of equal names counting. With `regex.A='…'` and `@attributes(symbol='A[1]', volume='B')` the
groups of expressions (Python's syntax), found anywhere in the text; without an index the first group. Commas in numbers are ignored (1,000). With
`event.grouping.enabled='true'` a message holds several events with a line of `delimiter` between them (one chunk).

Sink: the same default form, or the text of `@payload` with its `{{attributes}}` filled in as they are. A message per event, or per chunk with grouping.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.errors import NadiError, error
from nadi.functions.backtracking import DOUBLES, TooManyWays, doubling
from nadi.functions.boundedpatterns import Pattern
from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.columns import as_text, chunk_bounds
from nadi.io.mappers.mapannotation import attribute_mapping, invalid, map_options, payload_template
from nadi.io.mappers.stretch import Stretch
from nadi.io.mappers.transport import split_properties
from nadi.io.mappers.typed_rows import decode_typed
from nadi.io.mappers.values import from_text
from nadi.io.registry import MapperKind
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.plan.options import Option, flag

# Possessive, and each begins where the one before ended: what was read is not read again (`a:x` and 2,000 spaces took 10 s).
_NAME = re.compile(r"\s*+([^\s:,]++)\s*+:\s*+")
_SEPARATOR = re.compile(r",(?:(?=\s*+[^\s:,]++\s*+:)|\Z)")  # before a next name:, or the last character
_SPACE = re.compile(r"\s*+")
_GROUP = re.compile(r"\s*(\w+)\s*(?:\[\s*(\d+)\s*\])?\s*")
_DELIMITER = "~~~~~~~~~~"


class TextSource:
    """The decoder of `@map(type='text')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        mapping = attribute_mapping(connector)
        self._schema = connector.schema
        self._strict = flag(options, "fail.on.missing.attribute", True)
        self._grouped = flag(options, "event.grouping.enabled", False)
        self._delimiter = options.get("delimiter", _DELIMITER)
        self._properties, groups = split_properties(connector, mapping, self._strict)
        columns = tuple(c for c in connector.schema.columns if c.name not in self._properties.names)
        self._inner = Schema(columns)
        self._patterns = (
            [_pattern(connector, options, groups[c.name]) for c in columns] if mapping is not None else None
        )

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return decode_typed(self._schema, messages, messages.payloads)
        found = Stretch(self._inner)
        for i, payload in enumerate(messages.payloads):
            position = int(messages.positions[i])
            try:
                text = payload.decode()
            except UnicodeDecodeError:
                found.fail(Undecodable(position, "not UTF-8", payload))
                continue
            for event in self._events(text):
                try:
                    found.add_row(i, self._row(event))
                except (ValueError, NadiError) as e:
                    found.fail(Undecodable(position, str(e), event.encode()))
        return self._properties.complete(self._schema, found.finish(), messages)

    def _events(self, text: str) -> list[str]:
        if not self._grouped:
            return [text]
        events: list[list[str]] = [[]]
        for line in text.splitlines():
            if line == self._delimiter:
                events.append([])
            else:
                events[-1].append(line)
        return ["\n".join(lines) for lines in events if lines]

    def _row(self, text: str) -> tuple[object, ...]:
        if self._patterns is None:
            pairs = _pairs(text)
            return tuple(self._value(c, pairs.get(c.name)) for c in self._inner.columns)
        return tuple(
            self._value(c, found[group] if (found := pattern.search(text)) else None)
            for c, (pattern, group) in zip(self._inner.columns, self._patterns)
        )

    def _value(self, column: Column, text: str | None) -> object:
        if text is None:
            if self._strict:
                raise ValueError(f"the attribute '{column.name}' is missing")
            return None
        if self._patterns is None:
            if text == "null":
                return None
            if column.type in (Type.STRING, Type.OBJECT):
                return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
        try:
            return from_text(text if column.type is Type.STRING else text.replace(",", ""), column.type)
        except ValueError as e:
            raise ValueError(f"attribute '{column.name}': {e}") from None


def _pairs(text: str) -> dict[str, str]:
    """The values by name, in time that is linear in the text. Errors: ValueError.

    >>> _pairs("symbol: 'a, b', price:1,000, volume:3,")
    {'symbol': "'a, b'", 'price': '1,000', 'volume': '3'}
    """
    whole = text.rstrip()
    pairs: dict[str, str] = {}
    at = 0
    while at < len(whole) or (text and not whole):
        name = _NAME.match(whole, at)
        found = _value_at(whole, name.end()) if name else None
        if name is None or found is None:
            raise ValueError(f"'{text[at : at + 40].strip()}' is not name:value")
        value, at = found
        pairs.setdefault(name[1], value)
    return pairs


def _value_at(text: str, begin: int) -> tuple[str, int] | None:
    """The value that begins here, and where the next pair begins; None where a line ends inside of it. `text` does not end with white space."""
    if (closing := _closing_quote(text, begin)) is not None:
        after = _SPACE.match(text, closing + 1).end()  # type: ignore[union-attr]  # it matches nothing, too
        if after == len(text) or _SEPARATOR.match(text, after):
            return text[begin : closing + 1], after + 1
    separator = _SEPARATOR.search(text, begin)
    end = separator.start() if separator else len(text)
    value = text[begin:end].rstrip()
    return None if "\n" in value else (value, end + 1)


def _closing_quote(text: str, begin: int) -> int | None:
    """Where the text in quotes ends that begins here, if one does."""
    if text[begin : begin + 1] not in ("'", '"'):
        return None
    found = text.find(text[begin], begin + 1)
    return found if found >= 0 else None


def _pattern(connector: Connector, options: dict[str, str], text: str) -> tuple[Pattern, int]:
    found = _GROUP.fullmatch(text)
    expression = options.get(f"regex.{found.group(1).lower()}") if found else None
    if found is None or expression is None:
        raise invalid(connector, f"'{text}' names no expression: write A or A[1], and regex.A='…' beside it")
    try:
        pattern = Pattern(expression)
        doubles = doubling(expression)
    except (re.error, TooManyWays) as e:
        raise invalid(connector, f"regex.{found.group(1)}: {e}") from None
    if doubles:
        raise invalid(connector, f"regex.{found.group(1)}: {DOUBLES}")
    group = int(found.group(2) or 1)
    if group > pattern.groups:
        raise invalid(connector, f"regex.{found.group(1)} has {pattern.groups} groups, not {group}")
    return pattern, group


class TextSink:
    """The encoder of `@map(type='text')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        if flag(options, "mustache.enabled", False):
            raise error(
                "NOT_SUPPORTED",
                connector.map.span,
                what="mustache templates",
                alternative="write @payload with {{attribute}}",
            )
        self._schema = connector.schema
        self._template = payload_template(connector)
        self._grouped = flag(options, "event.grouping.enabled", False)
        self._between = f"\n{options.get('delimiter', _DELIMITER)}\n".encode()

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        if batch.num_rows == 0:
            return [], []
        filled = self._defaults(batch) if self._template is None else self._template.fill(batch, self._schema)
        texts: list[bytes] = filled.cast(pa.binary()).to_pylist()
        if not self._grouped:
            return texts, range(len(texts))
        firsts = chunk_bounds(batch)
        ends = np.append(firsts[1:], len(texts))
        return [self._between.join(texts[a:b]) for a, b in zip(firsts, ends)], firsts.tolist()

    def _defaults(self, batch: pa.RecordBatch) -> pa.Array:
        lines = []
        for c in self._schema.columns:
            text = as_text(batch.column(c.name), c.type)
            if c.type is Type.STRING:
                text = pc.binary_join_element_wise('"', text, '"', "")
            lines.append(pc.binary_join_element_wise(f"{c.name}:", pc.fill_null(text, "null"), ""))
        return pc.binary_join_element_wise(*lines, ",\n")


KIND = MapperKind(
    source_options=(
        Option(
            "regex.*",
            doc=(
                "an expression by the name after the point, in Python's syntax, without repetitions that [may"
                " take exponential time](../internals/security.md#finding-17-patterns-that-run-on), and with "
                "[bounded steps](../internals/semantics/expressions.md#patterns): a message that needs more "
                "is an undecodable one; `@attributes` takes `A[1]`, the first group of `regex.A`"
            ),
        ),
        Option("fail.on.missing.attribute", kind="bool", doc="`false`: what is not found is null; `true` by default"),
        Option(
            "event.grouping.enabled",
            kind="bool",
            doc="`true`: a message has the events of a chunk, with the delimiter between them",
        ),
        Option("delimiter", doc="the line between events of a message; `~~~~~~~~~~`"),
    ),
    sink_options=(
        Option(
            "event.grouping.enabled",
            kind="bool",
            doc="`true`: a message has the events of a chunk, with the delimiter between them",
        ),
        Option("delimiter", doc="the line between events of a message; `~~~~~~~~~~`"),
        Option("mustache.enabled", kind="bool", doc="`false` only"),
    ),
    source=TextSource,
    sink=TextSink,
    content_type="text/plain",
    loops=(),
)
