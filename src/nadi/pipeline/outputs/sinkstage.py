"""The write stage: tells the hosts to hand the outputs they hold to the sinks, then commits the cut everywhere.

A row of the kernel stage only names what a host holds (query, bucket, cut, token); the payload never comes through the JVM. If the host has died in
between, the task fails and Spark repeats it, kernel included.
"""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from nadi.io import faultlog
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.inputs.fatrows import unpack
from nadi.pipeline.progress import Counts, Progress, write_progress
from nadi.pipeline.spec import AppSpec


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written: per bucket what the kernel told, with "receipts", "errors" and "faults" of the write."""

    buckets: tuple[dict[str, Any], ...]


class AppWriter(DataSourceStreamArrowWriter):
    """`write` runs in tasks, `commit` in a process of the driver; both only talk to hosts."""

    def __init__(self, spec: AppSpec, jvm: int) -> None:
        self._spec = spec
        self._jvm = jvm

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        ask = hosts(self._spec.hosts)
        written = []
        for batch in iterator:
            for packed in batch.column(batch.schema.get_field_index("meta")).to_pylist():
                told = unpack(packed)
                place = {name: told[name] for name in ("query", "bucket", "cut", "token")}
                answer = ask.call_app(self._spec, told["bucket"], {"op": "write", **place})
                written.append({**told, **answer.head})
        return Written(tuple(written))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        buckets = [b for m in messages if isinstance(m, Written) for b in m.buckets]
        if buckets:
            buckets.sort(key=lambda b: b["bucket"])
            self._commit_sinks(buckets)
            state, cut = self._spec.place.state, buckets[0]["cut"]
            self._spec.open_errors().commit(cut, [b["bucket"] for b in buckets if b["errors"]])
            faultlog.commit(state, cut, [b["bucket"] for b in buckets if b["faults"]])
            write_progress(state, progress_of(buckets, self._spec.host_of))

    def _commit_sinks(self, buckets: Sequence[Mapping[str, Any]]) -> None:
        receipts: dict[int, list[list[Any]]] = {}
        for bucket in buckets:
            for ordinal, *receipt in bucket["receipts"]:
                receipts.setdefault(ordinal, []).append(receipt)
        ask = hosts(self._spec.hosts, self._jvm)
        for ordinal, held in sorted(receipts.items()):
            head = {"op": "commit", "sink": ordinal, "cut": buckets[0]["cut"], "receipts": held}
            ask.call_app(self._spec, ordinal, head)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what was written without a commit is written again under the same numbers."""


def progress_of(buckets: Sequence[Mapping[str, Any]], host_of: Callable[[int], int]) -> Progress:
    """The progress of a cut from what its buckets told; `host_of` says where each of them lives."""
    dues = [b["due"] for b in buckets if b["due"] is not None]
    counts = Counts()
    entries: dict[str, int] = {}
    highs: dict[tuple[int, int], int] = {}
    memory: dict[str, int] = {}
    for b in buckets:
        counts = counts.plus(Counts(b["in"], b["out"], b["errors"], b["bytes"]))
        for element, size in b["entries"].items():
            entries[element] = entries.get(element, 0) + size
        host = str(host_of(b["bucket"]))
        memory[host] = max(memory.get(host, 0), b["memory"])
        highs |= {(o, p): high for o, p, high in b["highs"]}
    return Progress(
        buckets[0]["cut"],
        min(dues) if dues else None,
        tuple((o, p, high) for (o, p), high in sorted(highs.items())),
        counts=counts,
        entries=entries,
        state_bytes=sum(b["state_bytes"] for b in buckets),
        state_written=sum(b["state_written"] for b in buckets),
        memory=memory,
    )
