"""Parts of an input that cannot be read at all: messages that are known to be none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Decoded, Messages, SourceMapper, Undecodable
from nadi.io.mappers.columns import batch_of
from nadi.plan.nodes import Schema

UNREADABLE = "nadi.unreadable"
"""The transport property that says why."""


class Unreadable:
    """A mapper before which unreadable messages are turned into failures, also where others come between them."""

    def __init__(self, inner: SourceMapper, schema: Schema) -> None:
        self._inner = inner
        self._schema = schema

    def decode(self, messages: Messages) -> Decoded:
        wrong = [i for i, properties in enumerate(messages.properties) if UNREADABLE in properties]
        if not wrong:
            return self._inner.decode(messages)
        failures = tuple(
            Undecodable(int(messages.positions[i]), messages.properties[i][UNREADABLE], bytes(messages.payloads[i]))
            for i in wrong
        )
        if len(wrong) == len(messages):
            nothing = batch_of(self._schema, [[] for _ in self._schema.columns])
            return Decoded(nothing, np.zeros(0, np.int64), failures=failures)
        return self._between(messages, np.setdiff1d(np.arange(len(messages)), wrong), failures)

    def _between(self, messages: Messages, good: npt.NDArray[np.int64], failures: tuple[Undecodable, ...]) -> Decoded:
        """What the others are, which stand at `good`."""
        chosen = good.tolist()
        payloads = messages.payloads
        given = Messages(
            messages.positions[good],
            messages.times[good],
            payloads.take(pa.array(good)) if isinstance(payloads, pa.RecordBatch) else [payloads[i] for i in chosen],
            messages.header,
            [messages.properties[i] for i in chosen],
        )
        decoded = self._inner.decode(given)
        told = sorted((*decoded.failures, *failures), key=lambda f: f.position)
        return replace(decoded, message=good[decoded.message], failures=tuple(told))
