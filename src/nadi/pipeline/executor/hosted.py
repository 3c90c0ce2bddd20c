"""What lives in a host: apps with their inputs and sinks, and the kernels of their buckets. A cache; nothing is lost with it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.io import circuits, errorstore, faultlog
from nadi.io.contract import Connector, Receipt, Sink, SinkMapper
from nadi.kernel.contract import Kernel
from nadi.pipeline.cutting.restored import begin_parts
from nadi.pipeline.executor.dumper import Dumper
from nadi.pipeline.executor.early import EarlyWrites
from nadi.pipeline.executor.handover import Handover, Neighbours
from nadi.pipeline.executor.kernels import Held, Kernels, views
from nadi.pipeline.executor.stopwatch import Stopwatch
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.fatrows import FatRow, unpack
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.inputs.reading import Input, Read, open_input, read_range
from nadi.pipeline.outputs import errorrows, sending
from nadi.pipeline.outputs.refused import Refused
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.layout import POLICY

QUIET = 30.0  # seconds without work after which a host may take a pause to collect what dropped kernels have left
ROWS = msgspec.msgpack.Encoder(enc_hook=str)  # objects as their text


@dataclass(slots=True)
class OpenSink:
    """A sink with its mapper; one user at a time."""

    connector: Connector
    mapper: SinkMapper
    sink: Sink
    lock: threading.Lock = field(default_factory=threading.Lock)


class LiveApp:
    """One app in this host: its plan, its inputs and sinks opened on first use, its kernels."""

    def __init__(self, spec: AppSpec, scratch: Path, near: Neighbours | None = None) -> None:
        self.spec = spec
        self._engine = spec.load_engine()
        self._registry = spec.load_connectors()
        self.app = self._engine.plan_app(spec.text)
        # without a state folder it is the middle of somebody's own query, whose ends are DataFrames
        self.sources = {c.ordinal: c for c in spec.sources(self.app)} if spec.state else {}
        self.sinks = self._registry.connectors(self.app, "sink") if spec.state else ()
        self.streams = {ordinal: c.stream for ordinal, c in self.sources.items()}
        self.watch = Stopwatch(spec.place.state) if spec.profile and spec.state else None
        self.early = EarlyWrites(self.write if self.watch is None else self._timed_write)
        self._inputs: dict[int, Input] = {}
        self._open: dict[int, OpenSink] = {}
        policy = getattr(self._engine, "POLICY", POLICY)  # that of a test has frames of some bytes
        dumper = Dumper(spec.place.state, scratch) if spec.state else None
        self.handover = Handover(spec, self.read, near)
        self.kernels = Kernels(
            self._make_kernel,
            self._start,
            self.streams,
            scratch,
            bool(spec.state),
            policy,
            dumper,
            self.handover.taken,
        )
        self._lock = threading.Lock()

    def _make_kernel(self, bucket: int) -> Kernel:
        made = self._engine.make_kernel(self.app, self.spec.outputs, bucket, self.spec.properties)
        return made if self.watch is None else self.watch.kernel(made)

    def _start(self, kernel: Kernel, bucket: int, started: int) -> None:
        """Give a kernel without a state in Spark what it begins with: a restored state, or the start of the app at `started` (ms)."""
        if self.spec.begin:
            kernel.load(begin_parts(self.spec.begin, bucket))
        else:
            kernel.start(started)

    # ---- reading

    def input(self, ordinal: int) -> Input:
        """An input, opened where it is not."""
        with self._lock:
            found = self._inputs.get(ordinal)
            if found is None:
                found = self._inputs[ordinal] = open_input(self.spec, self.app, self.sources[ordinal])
        return found

    def read(self, head: dict[str, Any]) -> Iterator[FatRow]:
        """The fat rows of some ranges of a cut, at last the clock rows, one per bucket."""
        told: list[list[int | None]] = []
        total, started = 0, head["started"]
        for plain in head["ranges"]:
            wanted, state = Range(*plain), Read()
            source = self.input(wanted.ordinal)
            with source.lock:  # a task that was given up may still be reading
                yield from read_range(source, wanted, state)
            told.append([wanted.ordinal, wanted.partition, wanted.split, wanted.high, state.high])
            total += state.bytes
            if state.low is not None:
                started = min(started, state.low)  # kernels begin no later than their first message
        clock = {"k": "clock", "n": head["n"], "clock": head["clock"], "started": started, "ranges": told}
        for bucket in range(self.spec.buckets):
            yield FatRow(bucket, {**clock, "bytes": total if bucket == 0 else 0})

    # ---- on-demand queries

    def find(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The rows of a bucket that a query is about or, given those of all buckets, what its selection makes of them.

        Where no kernel of the bucket is here: `need: kernel`.
        """
        with self.kernels.user((head["query"], head["bucket"])) as held:
            if held is None:
                return Frame({"need": "kernel"}, [])
            question = self._engine.plan_on_demand(self.app, head["text"])
            given = [tuple(row) for row in unpack(parts[0])] if parts else None
            rows = held.kernel.find(question) if given is None else held.kernel.select(question, given)
        return Frame({"ok": True}, [memoryview(ROWS.encode(rows))])

    # ---- the kernel

    def process(self, head: dict[str, Any], parts: Sequence[Part]) -> tuple[Frame, dict[str, Any] | None]:
        """One cut of one bucket, and what names its outputs where there is something to be written."""
        frame = self.kernels.process(head, parts)
        if "token" not in frame.head or not self.sinks:
            return frame, None
        outputs = {"query": head["query"], "bucket": head["bucket"], **{n: frame.head[n] for n in ("cut", "token")}}
        self.early.plan(outputs)
        return frame, outputs

    # ---- writing

    def _timed_write(self, head: Mapping[str, Any]) -> Frame:
        assert self.watch is not None
        return self.watch.timed("write", lambda: self.write(head))

    def write(self, head: Mapping[str, Any]) -> Frame:
        """Hand the outputs of a cut to the sinks. Errors: OUTPUTS_GONE where this host no longer has them, those of the sinks."""
        bucket, cut = head["bucket"], head["cut"]
        held = self.kernels.written((head["query"], bucket), head["token"])
        if held is None or held.outputs is None:
            raise error("OUTPUTS_GONE", cut=cut, bucket=bucket)
        receipts, refused = [], Refused(self.app, held.clock)
        for ordinal, connector in enumerate(self.sinks):
            batch = held.outputs.batches.get(connector.stream)
            sends = [send for send in held.sends if send.sink == ordinal]
            if not sends and (batch is None or not batch.num_rows):
                continue
            target = self.sink(ordinal)
            delivery = sending.delivery((bucket, cut), connector, target.mapper, batch, sends)
            assert delivery is not None
            with target.lock, circuits.watched(self.spec.place.state, ordinal, bucket):
                receipt = target.sink.write(delivery)
            receipts.append([ordinal, receipt.bucket, receipt.cut, dict(receipt.content)])
            refused.add(connector, delivery, receipt.refused)
        state = self.spec.place.state
        staged = errorstore.stage(state, cut, bucket, [*self._error_rows(held, cut, bucket), *refused.rows])
        return Frame(
            {"receipts": receipts, "errors": staged, "faults": faultlog.stage(state, cut, bucket, refused.faults)}, []
        )

    def _error_rows(self, held: Held, cut: int, bucket: int) -> Iterable[dict[str, object]]:
        name = self.spec.app
        for told in held.errors:
            yield errorrows.undecodable_row(name, cut, self.sources, told)
        for failure in held.outputs.failures if held.outputs else ():
            if not failure.routed:
                yield errorrows.failure_row(self.app, cut, bucket, failure)

    def sink(self, ordinal: int) -> OpenSink:
        """A sink, opened where it is not."""
        with self._lock:
            found = self._open.get(ordinal)
            if found is None:
                connector = self.sinks[ordinal]
                mapper = self._registry.make_sink_mapper(connector)
                found = OpenSink(connector, mapper, self._registry.open_sink(connector, self.spec.place))
                self._open[ordinal] = found
        return found

    def commit(self, head: dict[str, Any]) -> Frame:
        """Commit a cut at one sink."""
        target = self.sink(head["sink"])
        receipts = [Receipt(bucket, cut, content) for bucket, cut, content in head["receipts"]]
        with target.lock:
            target.sink.commit(head["cut"], receipts)
        return Frame({"ok": True}, [])

    # ---- housekeeping

    def close(self) -> None:
        """Close inputs and sinks, let go of kernels."""
        self.kernels.close()
        self.handover.close()
        for source in self._inputs.values():
            source.log.close()
        for target in self._open.values():
            target.sink.close()
        self._inputs.clear()
        self._open.clear()
        if self.watch is not None:
            self.watch.write()


class Apps:
    """All apps of a host, and its operations by name. `scratch` is the folder for its snapshots, `near` are the hosts beside it."""

    def __init__(self, scratch: Path, near: Neighbours | None = None) -> None:
        self._scratch = scratch
        self._near = near
        self._garbage = False
        self._apps: dict[str, LiveApp] = {}
        self._lock = threading.Lock()

    def define(self, spec: AppSpec) -> None:
        """Learn of an app; another version of the same one (same state folder) is closed."""
        with self._lock:
            if spec.id in self._apps:
                return
            for id_, other in list(self._apps.items()):
                if spec.state and (other.spec.state, other.spec.group) == (spec.state, spec.group):
                    self._apps.pop(id_).close()
                    self._garbage = True
            self._apps[spec.id] = LiveApp(spec, self._scratch, self._near)

    def forget(self, id_: str) -> None:
        """Let go of an app that has ended: its inputs, sinks and kernels. Another task that needs it defines it again."""
        with self._lock:
            app = self._apps.pop(id_, None)
        if app is not None:
            app.close()
            self._garbage = True

    def answer(self, head: dict[str, Any], parts: Sequence[Part]) -> Iterator[Frame]:
        """The frames that answer a request."""
        operation = head["op"]
        if operation == "define":
            self.define(AppSpec.from_json(head["spec"]))
            yield Frame({"ok": True}, [])
            return
        if operation == "ping":
            yield Frame({"ok": True, "apps": len(self._apps)}, [])
            return
        if operation == "forget":
            self.forget(head["app"])
            yield Frame({"ok": True}, [])
            return
        app = self._apps.get(head["app"])
        if app is None:
            yield Frame({"need": "app"}, [])
        elif operation == "read":
            rows = app.handover.rows(head)
            for row in rows if app.watch is None else app.watch.each("read", rows):
                yield Frame({"bucket": row.bucket}, row.parts)
            yield Frame({"end": True}, [])
        elif operation == "process":
            yield from self._process(app, head, parts)
        elif operation == "write":
            yield app.early.result(head)
        elif app.watch is None:
            yield self._single(app, operation, head, parts)
        else:
            yield app.watch.timed(operation, lambda: self._single(app, operation, head, parts))

    def _process(self, app: LiveApp, head: dict[str, Any], parts: Sequence[Part]) -> Iterator[Frame]:
        """The answer; once it is sent, the outputs are written, beside what is asked for next."""
        if app.watch is None:
            frame, outputs = app.process(head, parts)
        else:
            frame, outputs = app.watch.timed("process", lambda: app.process(head, parts))
        yield frame
        if outputs is not None:
            app.early.begin(outputs)

    def _single(self, app: LiveApp, operation: str, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        if operation == "hand":
            return Frame({"ok": True}, views(app.handover.handed(head)))
        if operation == "feed":
            return app.kernels.feed(head, parts)
        if operation == "commit":
            return app.commit(head)
        if operation == "find":
            return app.find(head, parts)
        if operation == "know":
            return Frame({"ok": True}, [])
        return Frame({"error": {"message": f"no operation {operation}"}}, [])

    def let_go_idle(self) -> None:
        """Drop what nobody has asked for in a long while, and when the host has nothing to do collect what dropped kernels have left."""
        now = time.monotonic()
        apps = list(self._apps.values())
        self._garbage |= sum(app.kernels.let_go_idle(now) for app in apps) > 0
        for app in apps:
            app.handover.let_go_idle(now)
        if self._garbage and max((app.kernels.last_use for app in apps), default=0.0) < now - QUIET:
            self._garbage = False
            gc.unfreeze()  # kernels are frozen after a load or a snapshot
            gc.collect()
            gc.freeze()
