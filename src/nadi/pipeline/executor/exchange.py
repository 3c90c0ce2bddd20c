"""One exchange: what a request brings for the buckets of a group in this host, through kernels, state log and sinks, to a receipt.

    kernel of bucket 0 ─► kernel of bucket 1 ─► … ─► one object with all deltas, synced ─┐
         └► sinks              └► sinks                                                  ├─► receipt
                                     └───────────────────────────────────────────────────┘

The cut is in the cut log before, so whatever fails afterwards the same cut is made again with the same rows under the same numbers, and sinks know them. A
kernel does not outlive a failure between its cut and the sync; a sink's failure after it costs no more than writing again.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from nadi.errors import NadiError
from nadi.kernel.contract import Kernel
from nadi.pipeline.executor.carefully import One, one_by_one
from nadi.pipeline.executor.jobs import Receipt
from nadi.pipeline.executor.livekernels import At, LiveKernels, Standing, Step
from nadi.pipeline.executor.outcome import Outcome
from nadi.pipeline.executor.stopwatch import Stopwatch
from nadi.pipeline.hosting.atwork import kernel_of, message_of
from nadi.pipeline.hosting.protocol import failure_head
from nadi.pipeline.inputs.fatrows import Gathered
from nadi.pipeline.statelog.lines import Line

T = TypeVar("T")

_TRYING = threading.Lock()  # one cut at a time is tried in a host, so that it is known whose message a host dies of

WRITERS = 8  # writes to the sinks of an app side by side; more buckets than that wait for each other
_LINE = msgspec.msgpack.Decoder(Line)

Written = dict[str, Any]
Deliver = Callable[[int, int, Outcome], Written]
"""Hands what a cut of a bucket gave to the sinks: (bucket, cut, outcome) → receipts, errors, faults."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for a group: cut `n` of the run `epoch`, of which so many messages are set `aside`, for the buckets in `at`. `ask` is the request."""

    app: str
    epoch: int
    n: int
    at: Mapping[int, At]
    aside: int = 0
    ask: str = ""

    def receipt(self, state: str, **more: Any) -> Receipt:
        """What is told of it."""
        return {"app": self.app, "epoch": self.epoch, "n": self.n, "state": state, "buckets": [], **more}

    def failed(self, reason: BaseException) -> Receipt:
        """That it failed, and why; what has no name stands in the host's log besides."""
        if not isinstance(reason, NadiError):
            traceback.print_exception(reason)
        return self.receipt("failed", error=failure_head(reason)["error"])

    def starved(self, guilty: One | None = None) -> Receipt:
        """That there was no memory for it, which counts as a death; and the message for which there was none."""
        place = None if guilty is None else [*guilty.place, guilty.position]
        return {**self.failed(MemoryError("a kernel has no memory left")), "starved": True, "guilty": place}


def read_at(told: Sequence[Any]) -> At:
    """Where a bucket stands, as requests have it: `[tip, packed line or None]`."""
    tip, line = told
    return At(tip, None if line is None else _LINE.decode(line))


@dataclass(slots=True)
class Spent:
    """Seconds that a cut has cost: of the processor, to read it and in its kernels, and in all; of waiting for its sinks, when all else was done."""

    computed: float = 0.0
    worked: float = 0.0
    wrote: float = 0.0


class Exchanges:
    """Takes orders for one app. `current()` is the latest run (epoch) of it that has been here; cuts are taken `during` a note that the app is at work;
    `delivers` are the streams that have sinks; what a kernel is at is noted while it is `computing`."""

    def __init__(
        self,
        kernels: LiveKernels,
        deliver: Deliver,
        delivers: frozenset[str],
        current: Callable[[], int],
        during: Callable[[], AbstractContextManager[None]],
        watch: Stopwatch | None,
        computing: Callable[[str], AbstractContextManager[None]] = lambda _note: nullcontext(),
    ) -> None:
        self._computing = computing
        self._kernels = kernels
        self._deliver = deliver
        self._delivers = delivers
        self._current = current
        self._during = during
        self._watch = watch
        self._writers = ThreadPoolExecutor(WRITERS, "writes")
        self._adding = threading.Lock()
        self._closed = False

    def take(self, order: Order, read: Callable[[], Mapping[int, Gathered]]) -> Receipt:
        """Process a cut; `read` gives what the buckets are given, and is asked unless all of them have taken the cut. Never fails: it tells of a failure.

        The app may be let go of meanwhile, as it is updated or undeployed: what fails then fails for that, and whoever wants the cut brings the app again.
        """
        begin, spent = time.thread_time(), Spent()
        try:
            with self._during(), self._kernels.using(order.at):
                receipt = self._take(order, read, spent)
        except MemoryError:
            receipt = order.starved()
        except Exception as reason:
            receipt = order.receipt("need", need=["spec"]) if self._closed else order.failed(reason)
        worked = spent.worked + time.thread_time() - begin
        return {**receipt, "worked": worked, "computed": spent.computed, "wrote": spent.wrote}

    def _take(self, order: Order, read: Callable[[], Mapping[int, Gathered]], spent: Spent) -> Receipt:
        kernels = self._kernels
        if order.epoch < self._current() or kernels.is_late(order.at, order.epoch, order.n):
            return order.receipt("fenced")
        which = order.epoch, order.n, order.aside
        standing = {bucket: kernels.stand(bucket, at, *which) for bucket, at in sorted(order.at.items())}
        if Standing.LACKING in standing.values():
            return order.receipt("need", need=["line"])
        before = time.thread_time()
        given = read() if Standing.READY in standing.values() else {}
        if any(gathered.careful for gathered in given.values()):
            ready = [bucket for bucket, found in standing.items() if found is Standing.READY]
            guilty = self._try(order, ready, given)
            if guilty is not None:
                return order.starved(guilty)
            return order.receipt("need", need=["line"], probed=True)
        steps: list[Step] = []
        writes: list[Future[Written]] = []
        try:
            for bucket, found in standing.items():
                steps.append(self._step(order, bucket, found, given))
                writes.append(self._begin(steps[-1], spent))
            spent.computed = time.thread_time() - before
            steps = self._timed("process", lambda: kernels.keep(steps))
        except BaseException:
            kernels.discard(steps)
            wait(writes)  # nobody writes when this cut comes again
            raise
        kept = time.monotonic()
        wait(writes)
        spent.wrote = time.monotonic() - kept
        told = [{**(step.told or {}), **write.result()} for step, write in zip(steps, writes, strict=True)]
        return order.receipt("done", buckets=told)

    def _try(self, order: Order, buckets: Sequence[int], given: Mapping[int, Gathered]) -> One | None:
        """Take a cut without any effect, message by message; whoever sees this process die knows which one it was. -> the one for which there was no memory."""
        for bucket in buckets:
            with _TRYING, self._kernels.lent(bucket, given[bucket]) as kernel:
                guilty = self._try_one(order, kernel, given[bucket])
            if guilty is not None:
                return guilty
        return None

    def _try_one(self, order: Order, kernel: Kernel, given: Gathered) -> One | None:
        with self._computing(kernel_of(order.app, order.n, order.ask)):
            for one in one_by_one(given):
                with self._computing(message_of(order.app, order.n, *one.place, one.position)):
                    try:
                        kernel.process([one.arrival], one.until)
                    except MemoryError:
                        return one
            kernel.process([], given.clock)
        return None

    def _step(self, order: Order, bucket: int, found: Standing, given: Mapping[int, Gathered]) -> Step:
        if found is Standing.TAKEN:
            return self._kernels.taken(bucket, order.epoch)
        gathered = given[bucket]
        if (gathered.n, gathered.aside) != (order.n, order.aside):
            raise ValueError(f"rows of cut {gathered.n} came for cut {order.n}")
        with self._computing(kernel_of(order.app, order.n, order.ask)):
            return self._timed("process", lambda: self._kernels.process(bucket, gathered, order.epoch))

    def _begin(self, step: Step, spent: Spent) -> Future[Written]:
        """The write of what a cut of a bucket gave, in a thread where it may take a while."""
        outcome = step.outcome
        write = partial(self._deliver, step.bucket, step.cut, outcome)
        if outcome.sends or any(b.num_rows and s in self._delivers for s, b in outcome.outputs.batches.items()):
            return self._writers.submit(self._write, write, spent)
        done: Future[Written] = Future()
        done.set_result(write())
        return done

    def _write(self, write: Callable[[], Written], spent: Spent) -> Written:
        begin = time.thread_time()
        try:
            return self._timed("write", write)
        finally:
            with self._adding:
                spent.worked += time.thread_time() - begin

    def _timed(self, phase: str, action: Callable[[], T]) -> T:
        return action() if self._watch is None else self._watch.timed(phase, action)

    def close(self) -> None:
        """Let the threads go when they have done what they are at."""
        self._closed = True
        self._writers.shutdown(wait=False)
