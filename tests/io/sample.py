"""Connectors and deliveries as the other layers make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from nadi.io.contract import Connector, Delivery
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Annotation, Element, Type
from nadi.plan.nodes import Column, Schema

SCHEMA = Schema((Column("name", Type.STRING), Column("size", Type.INT)))


def connector(
    kind: str,
    options: Mapping[str, str],
    mapping: str = "json",
    ordinal: int = 0,
    attributes: Mapping[str, str] | None = None,
) -> Connector:
    nested = (Annotation("attributes", tuple(Element(k, v) for k, v in attributes.items())),) if attributes else ()
    return Connector("S", SCHEMA, kind, dict(options), Annotation("map", (Element("type", mapping),), nested), ordinal)


def delivery(cut: int, names: Sequence[str], first: int = 0, bucket: int = 0, group: int = 0) -> Delivery:
    """One payload per row, numbered from `first` in one key-group; the payload is the name."""
    count = len(names)
    numbers = list(range(first, first + count))
    arrays = [pa.array(names, pa.string()), pa.array([len(n) for n in names], pa.int32())]
    arrays += [pa.array(numbers, pa.int64()), pa.array(numbers, pa.int64()), pa.array([cut] * count, pa.int64())]
    arrays.append(pa.array([group] * count, pa.int16()))
    schema = pa.schema([pa.field("name", pa.string()), pa.field("size", pa.int32()), *OUTPUT_COLUMNS])
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return Delivery(bucket, cut, batch, [n.encode() for n in names], list(range(count)))
