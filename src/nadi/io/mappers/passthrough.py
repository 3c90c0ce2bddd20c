"""`@map(type='passThrough')`: rows as they are, for transports inside the process; on the way they are Arrow IPC streams.

The n-th column of a message is the n-th attribute, whatever either is called. A message with another number of columns, or other types, is one failure: nothing
is converted. Rows of a typed file have columns by name, as with `arrow`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nadi.errors import diagnostic
from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.arrow import ArrowSink, ArrowSource
from nadi.io.mappers.arrow_message import Unsound, batches_of
from nadi.io.mappers.columns import ARROW, arrow_schema
from nadi.io.mappers.stretch import Stretch
from nadi.io.registry import MapperKind
from nadi.lang.tree import Type

_NAMES: dict[str, str] = {str(arrow): kind.value for kind, arrow in ARROW.items() if kind is not Type.OBJECT}


class PassedSource:
    """The decoder of Arrow IPC messages, by position."""

    def __init__(self, connector: Connector) -> None:
        self._columns = connector.schema
        self._schema = arrow_schema(connector.schema)
        self._typed = ArrowSource(connector)  # it refuses `@attributes` that cannot be, too

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return self._typed.decode(messages)
        found = Stretch(self._columns)
        for i, payload in enumerate(messages.payloads):
            try:
                for rows in batches_of(payload):
                    found.add_batch(self._as_they_are(rows), np.full(rows.num_rows, i, np.int64))
            except Unsound as reason:
                found.fail(Undecodable(int(messages.positions[i]), str(reason), bytes(payload)))
        return found.finish()

    def _as_they_are(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Columns under the names of the attributes. All batches of a message have one schema, so that the first one already tells. Errors: Unsound."""
        given = [_plain(kind) for kind in rows.schema.types]
        if given != self._schema.types:
            came, wanted = ", ".join(map(_named, given)), ", ".join(c.type.value for c in self._columns.columns)
            raise Unsound(diagnostic("ROW_OF_OTHER_TYPES", given=came, wanted=wanted).message)
        arrays = [array.cast(kind) for array, kind in zip(rows.columns, self._schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what only says how its values are kept."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _named(kind: pa.DataType) -> str:
    """A type as apps write it, or else as Arrow does."""
    return _NAMES.get(str(kind), str(kind))


KIND = MapperKind(source=PassedSource, sink=ArrowSink, content_type="application/octet-stream", loops=())
