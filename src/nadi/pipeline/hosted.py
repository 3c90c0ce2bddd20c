"""What lives in a host: apps with their inputs and sinks, and the kernels of their buckets. A cache; nothing is lost with it.

A kernel is found by (query, bucket) and recognised by its *token*, which is random, new after every cut and stored with the state. Whoever comes
with another token than the kernel's gets `need: state` and must feed the frames of the state first.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nadi.errors import error
from nadi.io import errorstore, faultlog
from nadi.io.contract import Connector, Delivery, Receipt, Sink, SinkMapper
from nadi.kernel.contract import Kernel, Outputs
from nadi.kernel.control import CONTROL
from nadi.pipeline import errorrows
from nadi.pipeline.fatrows import FatRow, Gathered, gather, pack, to_ipc, unpack
from nadi.pipeline.frames import Directory, base_stream, delta_stream, from_frames, to_frames
from nadi.pipeline.protocol import Frame, Part
from nadi.pipeline.reading import Input, Range, Read, open_input, read_range
from nadi.pipeline.refused import Refused
from nadi.pipeline.spec import AppSpec

IDLE_KERNEL = 1_800.0  # seconds after which the cache lets go of a kernel
SIZES_EVERY = 2.0  # seconds: counting entries costs as much as there is state
KEPT_OPEN = 8  # feedings under way
ROWS = msgspec.msgpack.Encoder(enc_hook=str)  # objects as their text


@dataclass(slots=True)
class Held:
    """A live kernel: at `token` after cut `cut`; `before` was its token before that cut, whose answer and outputs are kept for repeated tasks."""

    kernel: Kernel
    token: str
    before: str = ""
    cut: int = -1
    clock: int = 0
    answer: Frame | None = None
    outputs: Outputs | None = None
    errors: list[list[Any]] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    counted: float = 0.0
    used: float = 0.0


@dataclass(slots=True)
class OpenSink:
    """A sink with its mapper; one user at a time."""

    connector: Connector
    mapper: SinkMapper
    sink: Sink
    lock: threading.Lock = field(default_factory=threading.Lock)


class LiveApp:
    """One app in this host: its plan, its inputs and sinks opened on first use, its kernels."""

    def __init__(self, spec: AppSpec) -> None:
        self.spec = spec
        self._engine = spec.load_engine()
        self._registry = spec.load_connectors()
        self.app = self._engine.plan_app(spec.text)
        # without a state folder it is the middle of somebody's own query, whose ends are DataFrames
        self.sources = spec.sources(self.app) if spec.state else ()
        self.sinks = self._registry.connectors(self.app, "sink") if spec.state else ()
        self.streams = {c.ordinal: c.stream for c in self.sources}
        self._inputs: dict[int, Input] = {}
        self._open: dict[int, OpenSink] = {}
        self._kernels: dict[tuple[str, int], Held] = {}
        self._locks: dict[tuple[str, int], threading.Lock] = {}
        self._fed: dict[tuple[str, int, str], list[Part]] = {}
        self._lock = threading.Lock()

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

    # ---- kernels

    def feed(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """Take frames of a state, in order; `first` begins a new feeding."""
        key = (head["query"], head["bucket"], head["token"])
        with self._lock:
            if head["first"]:
                self._fed[key] = []
                while len(self._fed) > KEPT_OPEN:
                    self._fed.pop(next(iter(self._fed)))
            elif key not in self._fed:
                return Frame({"need": "state"}, [])
            self._fed[key].extend(parts)
        return Frame({"ok": True}, [])

    def process(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """One cut of one bucket: (state token, fat rows) → (new token, frames to write)."""
        place = (head["query"], head["bucket"])
        with self._kernel_lock(place):
            return self._process(place, head, parts)

    def _kernel_lock(self, place: tuple[str, int]) -> threading.Lock:
        """A kernel has one user at a time."""
        with self._lock:
            return self._locks.setdefault(place, threading.Lock())

    def _process(self, place: tuple[str, int], head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        directory = Directory.unpack(head["directory"])
        rows = [(unpack(h), body) for h, body in zip(head["heads"], parts, strict=True)]
        streams = {int(k): v for k, v in head["streams"].items()} if "streams" in head else self.streams
        gathered = gather(rows, streams)
        held = self._kernels.get(place)
        repeated = held is not None and held.before == directory.token and held.cut == gathered.n
        if held is not None and repeated and held.answer is not None and not head.get("want"):
            return held.answer
        if held is None or held.token != directory.token:
            held = self._kernel_at(place, directory, gathered.started)
            if held is None:
                return Frame({"need": "state"}, [])
        self._kernels.pop(place, None)  # a kernel that fails half-way is not met again
        answer = self._run(held, directory, gathered, head.get("want"))
        self._kernels[place] = held
        return answer

    def _kernel_at(self, place: tuple[str, int], directory: Directory, started: int) -> Held | None:
        with self._lock:
            fed = self._fed.pop((*place, directory.token), None)
        if directory.frames and fed is None:
            return None
        kernel = self._engine.make_kernel(self.app, self.spec.outputs, place[1], self.spec.properties)
        if not directory.token:
            kernel.start(started)
        elif fed is None or len(fed) != directory.frames:
            return None
        else:
            kernel.load(from_frames(fed))
        return Held(kernel, directory.token)

    def _run(self, held: Held, directory: Directory, gathered: Gathered, want: list[str] | None) -> Frame:
        kernel = held.kernel
        outputs = kernel.process(gathered.arrivals, gathered.clock)
        delta = kernel.delta()
        based = not directory.token or directory.wants_base(len(delta))
        stream = base_stream(kernel.dump()) if based else delta_stream(delta)
        frames: list[Part] = [*to_frames(stream)]
        held.before, held.token, held.cut = held.token, secrets.token_hex(8), gathered.n
        held.clock = gathered.clock
        held.used = time.monotonic()
        if held.used - held.counted > SIZES_EVERY:
            held.entries, held.counted = kernel.size(), held.used
        head = {
            "token": held.token,
            "cut": held.cut,
            "base": based,
            "frames": len(frames),
            "due": kernel.next_timer(),
            "in": {stream: n for stream, n in gathered.events.items() if stream != CONTROL},
            "out": {k: b.num_rows for k, b in outputs.batches.items()},
            "entries": held.entries,
            "highs": [[o, p, high] for (o, p), high in sorted(gathered.highs.items())],
            "bytes": gathered.bytes,
        }
        if want is not None:
            given = [name for name in want if name in outputs.batches]
            bodies = [to_ipc(outputs.batches[name]) for name in given]
            failures = [f.message for f in outputs.failures]
            told = {**head, "outputs": given, "failed": len(failures), "failures": failures[:5]}
            return Frame(told, [*_views(frames), *_views(bodies)])
        held.outputs, held.errors = outputs, gathered.errors
        held.answer = Frame(head, _views(frames))
        return held.answer

    # ---- on-demand queries

    def find(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The rows of a bucket that a query is about or, given those of all buckets, what its selection makes of them.

        Where no kernel of the bucket is here: `need: kernel`.
        """
        place = (head["query"], head["bucket"])
        with self._kernel_lock(place):
            held = self._kernels.get(place)
            if held is None:
                return Frame({"need": "kernel"}, [])
            held.used = time.monotonic()
            question = self._engine.plan_on_demand(self.app, head["text"])
            given = [tuple(row) for row in unpack(parts[0])] if parts else None
            rows = held.kernel.find(question) if given is None else held.kernel.select(question, given)
        return Frame({"ok": True}, [memoryview(ROWS.encode(rows))])

    # ---- writing

    def write(self, head: dict[str, Any]) -> Frame:
        """Hand the outputs of a cut to the sinks. Errors: OUTPUTS_GONE where this host no longer has them, those of the sinks."""
        bucket, cut = head["bucket"], head["cut"]
        held = self._kernels.get((head["query"], bucket))
        if held is None or held.token != head["token"] or held.outputs is None:
            raise error("OUTPUTS_GONE", cut=cut, bucket=bucket)
        receipts, refused = [], Refused(self.app, held.clock)
        for ordinal, connector in enumerate(self.sinks):
            batch = held.outputs.batches.get(connector.stream)
            if batch is None or not batch.num_rows:
                continue
            target = self.sink(ordinal)
            payloads, firsts = target.mapper.encode(batch)
            delivery = Delivery(bucket, cut, batch, payloads, firsts)
            with target.lock:
                receipt = target.sink.write(delivery)
            receipts.append([ordinal, receipt.bucket, receipt.cut, dict(receipt.content)])
            refused.add(connector, delivery, receipt.refused)
        state = self.spec.place.state
        staged = errorstore.stage(state, cut, bucket, [*self._error_rows(held, cut), *refused.rows])
        return Frame(
            {"receipts": receipts, "errors": staged, "faults": faultlog.stage(state, cut, bucket, refused.faults)}, []
        )

    def _error_rows(self, held: Held, cut: int) -> Iterable[dict[str, object]]:
        name = self.spec.app
        for told in held.errors:
            yield errorrows.undecodable_row(name, cut, self.sources, told)
        for failure in held.outputs.failures if held.outputs else ():
            if not failure.routed:
                yield errorrows.failure_row(name, cut, failure)

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

    def let_go_idle(self) -> None:
        """Drop kernels that nobody asked for in a long while; a later task feeds them again."""
        before = time.monotonic() - IDLE_KERNEL
        for place, held in list(self._kernels.items()):
            if held.used < before:
                self._kernels.pop(place, None)

    def close(self) -> None:
        """Close inputs and sinks."""
        for source in self._inputs.values():
            source.log.close()
        for target in self._open.values():
            target.sink.close()
        self._inputs.clear()
        self._open.clear()


class Apps:
    """All apps of a host, and its operations by name."""

    def __init__(self) -> None:
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
            self._apps[spec.id] = LiveApp(spec)

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
        app = self._apps.get(head["app"])
        if app is None:
            yield Frame({"need": "app"}, [])
        elif operation == "read":
            for row in app.read(head):
                yield Frame({"bucket": row.bucket}, _views([pack(row.head), row.body]))
            yield Frame({"end": True}, [])
        else:
            yield self._single(app, operation, head, parts)

    def _single(self, app: LiveApp, operation: str, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        if operation == "process":
            return app.process(head, parts)
        if operation == "feed":
            return app.feed(head, parts)
        if operation == "write":
            return app.write(head)
        if operation == "commit":
            return app.commit(head)
        if operation == "find":
            return app.find(head, parts)
        if operation == "know":
            return Frame({"ok": True}, [])
        return Frame({"error": {"message": f"no operation {operation}"}}, [])

    def let_go_idle(self) -> None:
        for app in list(self._apps.values()):
            app.let_go_idle()


def _views(parts: Sequence[Part]) -> list[memoryview]:
    return [memoryview(p) for p in parts]
