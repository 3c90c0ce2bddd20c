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
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline_bucket import DictState, Within

from nadi.io.staging import write_atomically
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.inputs import reader as source
from nadi.pipeline.inputs.fatrows import pack
from nadi.pipeline.inputs.reader import AppReader
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.outputs import sinkstage
from nadi.pipeline.outputs.sinkstage import AppWriter
from nadi.pipeline.spec import AppSpec


class LocalNode:
    """One life of a query; `start` and `states` are what Spark has committed and are handed to the next life."""

    def __init__(self, spec: AppSpec, patch: pytest.MonkeyPatch, before: LocalNode | None = None) -> None:
        self.spec = spec
        self._hosts = Within(spec.place.state / "scratch")
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
        bucket_of = {label: bucket for bucket, label in enumerate(self.spec.labels)}
        found: dict[int, list[tuple[bytes, bytes]]] = {}
        for task in self._reader.partitions(self.start, end):
            for batch in self._reader.read(task):
                for row in batch.to_pylist():
                    found.setdefault(bucket_of[row["bk"]], []).append((row["head"], row["body"]))
        return found

    def _kernel(self, bucket: int, rows: list[tuple[bytes, bytes]], values: DictState) -> dict[str, Any]:
        stored = StoredState(values, bucket)
        head = {"query": "q", "bucket": bucket, "heads": [h for h, _ in rows]}
        answer, _seconds = ask_kernel(self.spec, self._hosts, stored, head, [b for _, b in rows])  # type: ignore[arg-type]
        stored.keep(answer.head, answer.parts)
        return {**answer.head, "query": "q", "bucket": bucket, "state_written": 0, "feeding": 0.0}


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
