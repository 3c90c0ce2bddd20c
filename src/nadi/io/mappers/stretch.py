"""Collecting the events of a stretch of messages: most of them as columns, some row by row, all in order at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.io.contract import Decoded, Undecodable
from nadi.io.mappers.columns import arrow_schema, batch_of
from nadi.plan.nodes import Schema


def decode_each(
    decode: Callable[[bytes], Any], payloads: Sequence[bytes], errors: tuple[type[Exception], ...]
) -> tuple[list[Any], list[int]]:
    """What `decode` makes of each payload, None where it raised one of `errors`, and the indices of those.

    The loop runs in C (`list.extend` keeps what an iterator gave before it raised); only a payload that fails costs a turn in Python.
    """
    found: list[Any] = []
    bad: list[int] = []
    rest = iter(payloads)
    while True:
        try:
            found.extend(map(decode, rest))
            return found, bad
        except errors:
            bad.append(len(found))
            found.append(None)


def is_utf8(text: bytes) -> bool:
    """Whether a text is UTF-8 throughout."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class Stretch:
    """Events with the index of their message, added in any order; events of one message are added in their order, in one way."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._messages: list[npt.NDArray[np.int64]] = []
        self._rows: list[tuple[object, ...]] = []
        self._row_messages: list[int] = []
        self._failures: list[Undecodable] = []

    def add_batch(self, batch: pa.RecordBatch, message: npt.NDArray[np.int64]) -> None:
        self._batches.append(batch)
        self._messages.append(message.astype(np.int64))

    def add_row(self, message: int, row: tuple[object, ...]) -> None:
        self._rows.append(row)
        self._row_messages.append(message)

    def fail(self, failure: Undecodable) -> None:
        self._failures.append(failure)

    def finish(self) -> Decoded:
        """All events in the order of their messages, and all failures in the order of their positions."""
        if self._rows:
            columns: list[Sequence[object]] = [list(c) for c in zip(*self._rows)] if len(self._schema) else []
            self.add_batch(batch_of(self._schema, columns), np.array(self._row_messages, np.int64))
        failures = tuple(sorted(self._failures, key=lambda f: f.position))
        if not self._batches:
            empty: pa.RecordBatch = pa.RecordBatch.from_pylist([], arrow_schema(self._schema))
            return Decoded(empty, np.zeros(0, np.int64), failures=failures)
        if len(self._batches) == 1:
            return Decoded(self._batches[0], self._messages[0], failures=failures)
        message = np.concatenate(self._messages)
        order = np.argsort(message, kind="stable")
        whole = pa.concat_batches(self._batches)
        if len(self._schema):  # a batch without columns has no rows to take
            whole = whole.take(pa.array(order))
        return Decoded(whole, message[order], failures=failures)
