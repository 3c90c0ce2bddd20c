"""Connectors for states of a gigabyte: a log that is made when it is read, of messages of a megabyte that packing does not make smaller."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator

import numpy as np
from pipeline_testlog import connectors, make_ingress, make_sink_mapper, make_source_mapper, open_sink

from nadi.io.contract import Connector, Messages, Place

__all__ = ["connectors", "make_ingress", "make_sink_mapper", "make_source_mapper", "open_log", "open_sink"]

SIZE = 768_000  # bytes before they are made text


class Generated:
    """Message n comes at n * 10 ms."""

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        return 1 << 30

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> np.ndarray:
        return np.arange(start, end, dtype=np.int64) * 10

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        for n in range(start, end):
            text = base64.b64encode(random.Random(n).randbytes(SIZE)).decode()
            yield Messages(np.array([n]), np.array([n * 10]), [json.dumps([text, n]).encode()])

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: it is made again."""

    def close(self) -> None:
        """Nothing is open."""


def open_log(connector: Connector, place: Place) -> Generated:
    return Generated()
