"""Events → JSON messages.

- Default: `{"event":{…}}` per event, an array of those where a chunk has several (or one message each with `event.grouping.enabled='false'`).
- `@payload("…{{attribute}}…")`: the text with the values in it, as they are: a string with a quote in it breaks the JSON, as it does in Siddhi;
  `validate.json='true'` keeps such messages from the target and logs each (the default mapping never makes one). Null is `null`.
- `enclosing.element='$.a.b'` puts `{"a":{"b": … }}` around.
- A float prints as short as 32 bits allow (1.1), a double as short as it reads back. Null, and NaN and the infinities, which JSON lacks, are `null`.
  An object is its JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector
from nadi.io.mappers.columns import chunk_bounds, shortest_doubles
from nadi.io.mappers.json_block import worth_it
from nadi.io.mappers.json_lines import BlockWriter
from nadi.io.mappers.json_paths import parse_path
from nadi.io.mappers.mapannotation import invalid, map_options, payload_template
from nadi.lang.tree import Type
from nadi.plan.options import flag
from nadi.received import read_json

_log = logging.getLogger("nadi.io.json")


class JsonSink:
    """The encoder of `@map(type='json')`."""

    def __init__(self, connector: Connector) -> None:
        options = map_options(connector)
        self._stream = connector.stream
        self._schema = connector.schema
        self._template = payload_template(connector)
        self._grouped = flag(options, "event.grouping.enabled", True)
        self._validate = flag(options, "validate.json", False)
        self._before, self._after = _around(connector, options.get("enclosing.element", "$"))
        names = connector.schema.names
        fields: list[Any] = [(f"f{i}", Any) for i in range(len(names))]
        rename = {f"f{i}": name for i, name in enumerate(names)}
        self._event = msgspec.defstruct("Event", fields, rename=rename, gc=False)
        self._block: BlockWriter | None = None
        self._frame = msgspec.defstruct("Frame", [("event", Any)], gc=False)

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        if batch.num_rows == 0:
            return [], []
        firsts = chunk_bounds(batch) if self._grouped else np.arange(batch.num_rows)
        if self._template is None and worth_it(batch.num_rows):
            if self._block is None:
                self._block = BlockWriter(self._schema, self._before, self._after)
            return self._block.write(batch, firsts), firsts.tolist()
        events = self._defaults(batch) if self._template is None else self._filled(batch)
        payloads = events if len(firsts) == len(events) else _arrays(events, firsts, self._template is not None)
        if self._before:
            payloads = [self._before + p + self._after for p in payloads]
        if self._validate and self._template is not None:
            return self._valid(payloads, firsts.tolist())
        return payloads, firsts.tolist()

    def _defaults(self, batch: pa.RecordBatch) -> list[bytes]:
        columns = [_values(batch.column(c.name), c.type) for c in self._schema.columns]
        return list(map(msgspec.json.Encoder().encode, map(self._frame, map(self._event, *columns))))

    def _filled(self, batch: pa.RecordBatch) -> list[bytes]:
        assert self._template is not None
        filled: list[bytes] = self._template.fill(batch, self._schema).cast(pa.binary()).to_pylist()
        return filled

    def _valid(self, payloads: Sequence[bytes], firsts: list[int]) -> tuple[list[bytes], list[int]]:
        kept = [(p, f) for p, f in zip(payloads, firsts) if self._is_json(p)]
        return [p for p, _ in kept], [f for _, f in kept]

    def _is_json(self, payload: bytes) -> bool:
        try:
            read_json(payload)
        except msgspec.DecodeError as e:
            _log.warning("message of %s left out, it is not JSON (%s): %.200r", self._stream, e, payload)
            return False
        return True


def _values(array: pa.Array, kind: Type) -> list[Any]:
    if kind is Type.FLOAT:
        array = shortest_doubles(array)
    values: list[Any] = array.to_pylist()
    if kind is Type.OBJECT:
        return [None if v is None else msgspec.Raw(v.encode()) for v in values]
    return values


def _arrays(events: Sequence[bytes], firsts: Any, templated: bool) -> list[bytes]:
    between = b",\n" if templated else b","
    ends = [*firsts[1:].tolist(), len(events)]
    return [events[a] if b - a == 1 else b"[" + between.join(events[a:b]) + b"]" for a, b in zip(firsts.tolist(), ends)]


def _around(connector: Connector, text: str) -> tuple[bytes, bytes]:
    steps = parse_path(text)
    if any(isinstance(step, int) for step in steps):
        raise invalid(connector, f"enclosing.element of a sink takes names only, not {text}")
    return b"".join(b"{" + msgspec.json.encode(step) + b":" for step in steps), b"}" * len(steps)
