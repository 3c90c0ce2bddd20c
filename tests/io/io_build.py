"""Connectors, messages and output batches for the tests of sources, sinks and mappers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector, Messages
from nadi.io.mappers.columns import arrow_schema
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.lang.tree import Annotation, Element, Type
from nadi.plan.nodes import Column, Schema


def schema(text: str) -> Schema:
    """`schema("a int, b string")`."""
    pairs = [part.split() for part in text.split(",")]
    return Schema(tuple(Column(name, Type(kind)) for name, kind in pairs))


def annotation(
    name: str, elements: dict[str, str] | Sequence[str] = (), nested: Sequence[Annotation] = ()
) -> Annotation:
    pairs = elements.items() if isinstance(elements, dict) else [("", e) for e in elements]
    return Annotation(name, tuple(Element(k, v) for k, v in pairs), tuple(nested))


def connector(
    columns: str,
    map_type: str = "json",
    map_options: dict[str, str] | None = None,
    attributes: dict[str, str] | Sequence[str] | None = None,
    payload: dict[str, str] | Sequence[str] | None = None,
    type_: str = "inmemory",
    options: dict[str, str] | None = None,
    ordinal: int = 0,
) -> Connector:
    nested = [annotation("attributes", attributes)] if attributes is not None else []
    nested += [annotation("payload", payload)] if payload is not None else []
    chosen = annotation("map", {"type": map_type, **(map_options or {})}, nested)
    return Connector("S", schema(columns), type_, options or {}, chosen, ordinal)


def messages(*payloads: bytes | str, header: Sequence[str] = (), properties: Sequence[dict[str, str]] = ()) -> Messages:
    """Messages at positions 100, 101, … and times 1000, 1010, …"""
    given = [p.encode() if isinstance(p, str) else p for p in payloads]
    n = len(given)
    return Messages(
        np.arange(100, 100 + n, dtype=np.int64),
        np.arange(n, dtype=np.int64) * 10 + 1000,
        given,
        tuple(header),
        properties,
    )


def output(columns: str, rows: Sequence[Sequence[object]], chunks: Sequence[int] | None = None) -> pa.RecordBatch:
    """An output batch; `chunks[i]` is the chunk of row i, each row its own unless given."""
    inner = arrow_schema(schema(columns))
    n = len(rows)
    arrays = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(inner)]
    numbers = pa.array(range(n), pa.int64())
    more = [numbers, pa.array(chunks if chunks is not None else range(n), pa.int64()), pa.array([0] * n, pa.int64())]
    return pa.RecordBatch.from_arrays(
        [*arrays, *more, pa.array([0] * n, pa.int16())], schema=pa.schema([*inner, *OUTPUT_COLUMNS])
    )
