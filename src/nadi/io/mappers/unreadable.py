"""Parts of an input that cannot be read at all: messages that are known to be none."""

from __future__ import annotations

import numpy as np

from nadi.io.contract import Decoded, Messages, SourceMapper, Undecodable
from nadi.io.mappers.columns import batch_of
from nadi.plan.nodes import Schema

UNREADABLE = "nadi.unreadable"
"""The transport property that says why; a log gives such messages in pieces of their own."""


class Unreadable:
    """A mapper before which unreadable messages are turned into failures."""

    def __init__(self, inner: SourceMapper, schema: Schema) -> None:
        self._inner = inner
        self._schema = schema

    def decode(self, messages: Messages) -> Decoded:
        if not messages.properties or UNREADABLE not in messages.properties[0]:
            return self._inner.decode(messages)
        failures = tuple(
            Undecodable(int(position), properties[UNREADABLE], bytes(payload))
            for position, properties, payload in zip(messages.positions, messages.properties, messages.payloads)
        )
        nothing = batch_of(self._schema, [[] for _ in self._schema.columns])
        return Decoded(nothing, np.zeros(0, np.int64), failures=failures)
