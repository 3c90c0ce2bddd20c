"""An app of a node in a host: its plan, its inputs and sinks, and the kernels of its buckets. A cache; nothing is lost with it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.kernel.contract import Kernel
from nadi.kernel.rows.finds import GOES_ON
from nadi.pipeline.cutting.restored import begin_parts
from nadi.pipeline.cutting.seeds import seed_parts
from nadi.pipeline.executor.delivery import Delivery
from nadi.pipeline.executor.exchange import Exchanges
from nadi.pipeline.executor.handover import Handover, Neighbours
from nadi.pipeline.executor.livekernels import LiveKernels
from nadi.pipeline.executor.probe import AppProbe
from nadi.pipeline.executor.stopwatch import Stopwatch
from nadi.pipeline.executor.tablestores import open_stores
from nadi.pipeline.hosting.protocol import Frame, Part
from nadi.pipeline.inputs.brought import unpack_brought
from nadi.pipeline.inputs.fatrows import FatRow, unpack
from nadi.pipeline.inputs.rangereader import Input, Read, open_input, read_range
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.spec import AppSpec, planned
from nadi.pipeline.statelog.lines import POLICY


@contextmanager
def _in_time(spec: AppSpec) -> Iterator[None]:
    """End a find that takes too long: meanwhile the bucket stands still. Errors: QUERY_TOO_LONG."""
    until = time.monotonic() + spec.query_within / 1000

    def goes_on() -> None:
        if time.monotonic() > until:
            raise error("QUERY_TOO_LONG", app=spec.app, ms=f"{spec.query_within:,}")

    if not spec.query_within:
        yield
        return
    before = GOES_ON.set(goes_on)
    try:
        yield
    finally:
        GOES_ON.reset(before)


ROWS = msgspec.msgpack.Encoder(enc_hook=str)  # objects as their text


class LiveApp:
    """See the module's text. `current()` is the latest run (epoch) of it that has been here; cuts are worked on `during` a note, and kernels compute during
    another one (`computing`). Inputs and sinks are opened on first use."""

    def __init__(
        self,
        spec: AppSpec,
        scratch: Path,
        near: Neighbours | None,
        current: Callable[[], int],
        during: Callable[[], AbstractContextManager[None]],
        computing: Callable[[str], AbstractContextManager[None]] = lambda _note: nullcontext(),
    ) -> None:
        self.spec = spec
        self._engine = spec.load_engine()
        self._app = planned(self._engine, spec.text, spec.variables)
        self._sources = {c.ordinal: c for c in spec.sources(self._app)}
        self._inputs: dict[int, Input] = {}
        self._lock = threading.Lock()
        self.streams = {ordinal: c.stream for ordinal, c in self._sources.items()}
        self._place = spec.place_in(scratch)
        if spec.apart:
            self._place.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.watch = Stopwatch(self._place.state) if spec.profile else None
        self.handover = Handover(spec, self.read, near)
        host = 0 if near is None else near.index
        policy = getattr(self._engine, "LOG_POLICY", POLICY)  # that of a test has pieces of some bytes
        probe = AppProbe(self._app, self._sources)
        self._stores = open_stores(spec, self._app, self._place)
        self.kernels = LiveKernels(self._make_kernel, self._start, spec, scratch, host, policy, probe, self._stores)
        self._delivery = Delivery(spec, self._app, self._sources, self._place)
        delivery = self._delivery
        self.exchanges = Exchanges(
            self.kernels, delivery.deliver, delivery.streams, current, during, self.watch, computing
        )

    def _make_kernel(self, bucket: int) -> Kernel:
        made = self._engine.make_kernel(self._app, self.spec.outputs, bucket, self.spec.properties)
        return made if self.watch is None else self.watch.kernel(made)

    def _start(self, kernel: Kernel, bucket: int, started: int) -> None:
        """Give a kernel without a state what it begins with: a restored state, or the start of the app at `started` (ms)."""
        if self.spec.seed:
            kernel.load(seed_parts(self.spec, bucket))
        elif self.spec.begin:
            kernel.load(begin_parts(self.spec.begin, bucket))
        else:
            kernel.start(started)

    # ---- reading

    def _input(self, ordinal: int) -> Input:
        """An input, opened where it is not."""
        with self._lock:
            found = self._inputs.get(ordinal)
            if found is None:
                found = self._inputs[ordinal] = open_input(self.spec, self._app, self._sources[ordinal], self._place)
        return found

    def read(self, head: dict[str, Any]) -> Iterator[FatRow]:
        """The fat rows of some ranges of a cut, at last the clock rows, one per bucket."""
        told: list[list[int | None]] = []
        reads: list[list[int]] = []
        level = head.get("level", 0)
        total, started = 0, head["started"]
        brought = unpack_brought(head.get("brought"))
        for plain in head["ranges"]:
            wanted, state = Range(*plain), Read(measured=level > 0)
            source = self._input(wanted.ordinal)
            with source.lock:  # a task that was given up may still be reading
                yield from read_range(source, wanted, state, brought.get(wanted.ordinal))
            told.append([wanted.ordinal, wanted.partition, wanted.split, wanted.high, state.high])
            total += state.bytes
            if state.messages:
                reads.append([wanted.ordinal, state.spent, state.messages, state.late])
            if state.low is not None:
                started = min(started, state.low)  # kernels begin no later than their first message
        clock = {"k": "clock", "n": head["n"], "clock": head["clock"], "started": started, "ranges": told}
        if level:
            clock["level"] = level
        clock |= {name: head[name] for name in ("careful", "aside", "ask") if head.get(name)}
        for bucket in range(self.spec.buckets):
            yield FatRow(bucket, {**clock, "bytes": total, "reads": reads} if bucket == 0 else {**clock, "bytes": 0})

    # ---- what other processes of the node ask

    def answer(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The answer to a request. Raises ValueError for an operation that is none of an app's."""
        operation = head["op"]
        if operation not in ("find", "hand"):
            raise ValueError(f"an app of a node has no operation {operation}")
        if self.watch is None:
            return self._answer(operation, head, parts)
        return self.watch.timed(operation, lambda: self._answer(operation, head, parts))

    def _answer(self, operation: str, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        if operation == "find":
            return self._find(head, parts)
        return Frame({"ok": True}, [memoryview(body) for body in self.handover.handed(head)])

    def _find(self, head: dict[str, Any], parts: Sequence[Part]) -> Frame:
        """The rows of a bucket that an on-demand query is about or, given those of all buckets, what its selection makes of them.

        Where no kernel of the bucket is here: `need: kernel`.
        """
        with self.kernels.user(head["bucket"]) as live:
            if live is None:
                return Frame({"need": "kernel"}, [])
            question = self._engine.plan_on_demand(self._app, head["text"])
            given = [tuple(row) for row in unpack(parts[0])] if parts else None
            with _in_time(self.spec), nullcontext() if self._stores is None else self._stores.asking():
                rows = live.kernel.find(question) if given is None else live.kernel.select(question, given)
        return Frame({"ok": True}, [memoryview(ROWS.encode(rows))])

    # ---- housekeeping

    @property
    def last_use(self) -> float:
        """When one of its kernels was used last, by the monotonic clock."""
        return self.kernels.last_use

    def let_go_idle(self, now: float) -> int:
        """Drop what nobody has asked for in a long while; how many kernels went."""
        self.handover.let_go_idle(now)
        return self.kernels.let_go_idle(now)

    def close(self) -> None:
        """Close inputs and sinks, let go of kernels."""
        self.exchanges.close()
        self.kernels.close()
        self.handover.close()
        for source in list(self._inputs.values()):  # a cut that is still under way may open another one
            source.log.close()
        self._inputs.clear()
        self._delivery.close()
        if self._stores is not None:
            self._stores.close()
        if self.watch is not None:
            self.watch.write()
        if self.spec.apart:
            shutil.rmtree(self._place.state, ignore_errors=True)
