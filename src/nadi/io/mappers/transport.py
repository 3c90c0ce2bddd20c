"""Attributes that come from the transport (`trp:name`): headers, topics, keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.columns import ARROW, arrow_schema
from nadi.io.mappers.values import from_text
from nadi.plan.nodes import Schema

PREFIX = "trp:"


@dataclass(frozen=True, slots=True)
class Properties:
    """Attribute → name of the property; a message without one is a failure if `strict`, else the attribute is null."""

    names: Mapping[str, str]
    strict: bool

    def complete(self, schema: Schema, found: Decoded, messages: Messages) -> Decoded:
        """Events that lack these attributes, with them; events whose properties are missing or wrong go to the failures."""
        if not self.names:
            return found
        values, reasons = self._read(schema, messages)
        keep = np.array([int(m) not in reasons for m in found.message], np.bool_)
        message = found.message[keep]
        # Column by column: where all attributes are properties the batch has none, and does not know how many rows it has.
        taken, kept = pa.array(message), pa.array(keep)
        arrays = [
            values[c.name].take(taken) if c.name in values else found.batch.column(c.name).filter(kept)
            for c in schema.columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))
        known = {f.position for f in found.failures}
        failures = [
            Undecodable(position, reasons[i], messages.payloads[i])
            for i in sorted(reasons)
            if (position := int(messages.positions[i])) not in known
        ]
        merged = sorted([*found.failures, *failures], key=lambda f: f.position)
        return Decoded(batch, message, found.timestamps, tuple(merged))

    def _read(self, schema: Schema, messages: Messages) -> tuple[dict[str, pa.Array], dict[int, str]]:
        given = messages.properties or [{}] * len(messages)
        reasons: dict[int, str] = {}
        columns: dict[str, pa.Array] = {}
        for column in schema.columns:
            if column.name not in self.names:
                continue
            name, values = self.names[column.name], list[object]()
            for i, properties in enumerate(given):
                text = properties.get(name)
                values.append(None)
                if text is None:
                    if self.strict:
                        reasons.setdefault(i, f"the transport property '{name}' is missing")
                    continue
                try:
                    values[-1] = from_text(text, column.type)
                except ValueError as e:
                    reasons.setdefault(i, f"transport property '{name}': {e}")
            columns[column.name] = pa.array(values, ARROW[column.type])
        return columns, reasons


def split_properties(
    connector: Connector, mapping: Mapping[str, str] | None, strict: bool
) -> tuple[Properties, dict[str, str]]:
    """The attributes of a mapping that are transport properties, and the mapping of the others."""
    given = mapping or {}
    names = {a: m.strip()[len(PREFIX) :] for a, m in given.items() if m.strip().startswith(PREFIX)}
    return Properties(names, strict), {a: m for a, m in given.items() if a not in names}
