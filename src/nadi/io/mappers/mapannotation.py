"""What stands inside @map: `@attributes` of a source, `@payload` of a sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nadi.errors import did_you_mean, error
from nadi.io.contract import Connector
from nadi.io.mappers.columns import as_text
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")


def map_options(connector: Connector) -> dict[str, str]:
    """The options of the @map, lower-case keys, without its type."""
    return {e.key.lower(): e.value for e in connector.map.elements if e.key.lower() != "type"}


def invalid(connector: Connector, reason: str) -> Exception:
    """MAPPING_INVALID for this connector's @map."""
    return error("MAPPING_INVALID", connector.map.span, stream=connector.stream, reason=reason)


def delimiter_of(connector: Connector, default: str = ",") -> str:
    """The option `delimiter`, where a tab may be written as \\t."""
    given = map_options(connector).get("delimiter", default)
    return "\t" if given == "\\t" else given


def check_delimiter(connector: Connector, delimiter: str, quote: str) -> None:
    """Errors: MAPPING_INVALID, where a delimiter could not be told from what stands between two of them."""
    if not delimiter or any(c in f"{quote}\r\n" for c in delimiter):
        raise invalid(connector, "delimiter is one or more characters, without quotes and line ends")


def attribute_mapping(connector: Connector) -> dict[str, str] | None:
    """Attribute → what to take it from; None without `@attributes`. By name, or all by position.

    Errors: MAPPING_INVALID (an unknown attribute, one without a mapping, two mappings of one).
    """
    found = connector.map.all("attributes")
    if not found:
        return None
    names, elements = connector.schema.names, found[0].elements
    if elements and all(not e.key for e in elements):
        if len(elements) != len(names):
            raise invalid(connector, f"@attributes names {len(elements)} places for {len(names)} attributes")
        return {name: e.value for name, e in zip(names, elements)}
    mapping: dict[str, str] = {}
    for e in elements:
        if e.key not in names:
            raise invalid(connector, f"'{e.key}' is not an attribute of the stream ({did_you_mean(e.key, names)})")
        if e.key in mapping:
            raise invalid(connector, f"'{e.key}' is mapped twice")
        mapping[e.key] = e.value
    missing = [n for n in names if n not in mapping]
    if missing:
        raise invalid(connector, f"@attributes has no mapping for {', '.join(missing)}")
    return mapping


def payload_annotation(connector: Connector) -> Annotation | None:
    """The `@payload` of a sink, None without one."""
    found = connector.map.all("payload")
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Template:
    """Text with `{{attribute}}` in it: `texts` stand around `attributes`, one more of them.

    Values are put in as they are, without escaping, as Siddhi does; null as `null`.
    """

    texts: tuple[str, ...]
    attributes: tuple[str, ...]

    def fill(self, batch: pa.RecordBatch, schema: Schema) -> pa.Array:
        """One string per row of a batch that has the columns of the schema."""
        kinds = {c.name: c.type for c in schema.columns}
        parts: list[object] = [pa.scalar(self.texts[0])]
        for name, text in zip(self.attributes, self.texts[1:]):
            parts += [pc.fill_null(as_text(batch.column(name), kinds[name]), "null"), pa.scalar(text)]
        if not self.attributes:
            return pa.array([self.texts[0]] * batch.num_rows, pa.string())
        return pc.binary_join_element_wise(*parts, "")


def payload_template(connector: Connector) -> Template | None:
    """The template of `@payload`, None without one. Errors: MAPPING_INVALID (an unknown attribute, more than one text)."""
    payload = payload_annotation(connector)
    if payload is None:
        return None
    if len(payload.elements) != 1:
        raise invalid(connector, f"@payload needs exactly one text, not {len(payload.elements)}")
    pieces = _PLACEHOLDER.split(payload.elements[0].value)
    names: Mapping[str, None] = dict.fromkeys(connector.schema.names)
    for name in pieces[1::2]:
        if name not in names:
            raise invalid(connector, f"@payload: '{name}' is not an attribute ({did_you_mean(name, names)})")
    return Template(tuple(pieces[::2]), tuple(pieces[1::2]))
