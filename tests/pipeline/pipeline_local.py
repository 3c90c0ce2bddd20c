"""An app through the whole pipeline in this process: the test plays Spark, a dict is the state store, the hosts' code is called as it is.

node = LocalNode(spec, monkeypatch)
node.run()                          # batches until nothing more comes
node.batch(spark_commits=False)     # a batch that is all done except that Spark does not know: the next one repeats it

As a program that a test can kill, `python pipeline_local.py <spec json> <checkpoint>` runs an app to the end, from what the checkpoint has.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nadi.io.staging import write_atomically
from nadi.pipeline import cutlog, sinkstage, source
from nadi.pipeline.fatrows import pack
from nadi.pipeline.hosted import Apps
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.labels import labels
from nadi.pipeline.protocol import Frame
from nadi.pipeline.sinkstage import AppWriter
from nadi.pipeline.source import AppReader
from nadi.pipeline.spec import AppSpec


class DictState:
    """A MapState."""

    def __init__(self) -> None:
        self.values: dict[tuple[int], tuple[bytes]] = {}

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        return self.values.get(key)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self.values[key] = value

    def clear(self) -> None:
        self.values.clear()


class LocalHosts:
    """All hosts as one, in this process."""

    def __init__(self) -> None:
        self.apps = Apps()

    def call_app(self, spec: AppSpec, _index: int, head: dict[str, Any], parts: Sequence[Any] = ()) -> Frame:
        (answer,) = self.stream_app(spec, 0, head, parts)
        return answer

    def stream_app(
        self, spec: AppSpec, _index: int, head: dict[str, Any], parts: Sequence[Any] = ()
    ) -> Iterator[Frame]:
        self.apps.define(spec)
        for answer in self.apps.answer({**head, "app": spec.id}, parts):
            if not answer.head.get("end"):
                yield answer


class LocalNode:
    """One life of a query; `start` and `states` are what Spark has committed and are handed to the next life."""

    def __init__(self, spec: AppSpec, patch: pytest.MonkeyPatch, before: LocalNode | None = None) -> None:
        self.spec = spec
        self._hosts = LocalHosts()
        patch.setattr(source, "hosts", lambda *_: self._hosts)
        patch.setattr(sinkstage, "hosts", lambda *_: self._hosts)
        self._reader, self._writer = AppReader(spec), AppWriter(spec, 0)
        self.start = self._reader.initialOffset() if before is None else before.start
        self.states = [DictState() for _ in range(spec.buckets)] if before is None else before.states

    def close(self) -> None:
        """Let go of connections: a process that dies does so too."""
        self._reader.stop()
        for app in self._hosts.apps._apps.values():
            app.close()

    def run(self) -> int:
        """Batches as long as there is something to do; how many."""
        count = 0
        while self.batch():
            count += 1
        return count

    def batch(self, sinks_commit: bool = True, spark_commits: bool = True) -> bool:
        """A batch; False where there is nothing to do. What is not committed has never been for Spark."""
        end = self._reader.latestOffset(self.start, self._reader.getDefaultReadLimit())
        if end["n"] == self.start["n"]:
            return False
        states = copy.deepcopy(self.states)
        told = [self._kernel(bucket, rows, states[bucket]) for bucket, rows in self._read(end).items()]
        rows = pa.RecordBatch.from_pylist([{"bk": t["bucket"], "meta": pack(t)} for t in told])
        written = self._writer.write(iter([rows]))
        if sinks_commit:
            self._writer.commit([written], end["n"])
        if spark_commits:
            self.start, self.states = end, states
        return True

    def _read(self, end: dict[str, Any]) -> dict[int, list[tuple[bytes, bytes]]]:
        bucket_of = {label: bucket for bucket, label in enumerate(labels(self.spec.buckets))}
        found: dict[int, list[tuple[bytes, bytes]]] = {}
        for task in self._reader.partitions(self.start, end):
            for batch in self._reader.read(task):
                for row in batch.to_pylist():
                    found.setdefault(bucket_of[row["bk"]], []).append((row["head"], row["body"]))
        return found

    def _kernel(self, bucket: int, rows: list[tuple[bytes, bytes]], values: DictState) -> dict[str, Any]:
        stored = StoredState(values, bucket)
        head = {"query": "q", "bucket": bucket, "heads": [h for h, _ in rows]}
        answer = ask_kernel(self.spec, self._hosts, stored, head, [b for _, b in rows])  # type: ignore[arg-type]
        told = answer.head
        after = stored.keep(told["token"], told["cut"], told["base"], answer.parts[: told["frames"]])
        return {**told, "query": "q", "bucket": bucket, "state_bytes": after.bytes}


def main(described: str, checkpoint: Path) -> None:
    spec = AppSpec.from_json(described)
    node = LocalNode(replace(spec, epoch=cutlog.take_over(spec.place.state / "cuts")), pytest.MonkeyPatch())
    if checkpoint.exists():
        node.start, node.states = pickle.loads(checkpoint.read_bytes())
    while node.batch():
        write_atomically(checkpoint, pickle.dumps((node.start, node.states)))
    node.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
