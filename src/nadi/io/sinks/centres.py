"""A sink that publishes every row to several data centres, each of which has a broker of its own.

One centre after the other takes a cut. What is away for `away.after` ms holds nothing up: the sink goes on with the others and tries that centre again from
time to time, beside the cuts; what comes meanwhile is missing there. Readers that read all centres have it from another one (`nadi.io.sources.centres`):
the rows have the same publisher, incarnation and numbers in all of them. Where no centre takes a cut, it is written again, as with any sink whose target is
away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from functools import partial

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Connector, Delivery, Place, Receipt, Refusal, Sink
from nadi.io.retry import Policy, failed, persist, short, succeeded
from nadi.io.sinks import ledger
from nadi.io.sinks.numbers import producer
from nadi.io.sources.centre_marks import LIFE
from nadi.plan.options import Option, integer

OPTIONS = (
    Option("sequence.id", doc="by which name readers know the publisher; app, stream, number of the sink"),
    Option(
        "away.after",
        kind="int",
        least=0,
        doc="ms without an answer after which the sink goes on without a centre; 10000",
        default="10000",
    ),
)
"""Options of all sinks with several centres."""
AWAY_AFTER = 10_000  # ms
AGAIN = Policy(50, 1_000)  # while it is not away yet

_LOG = logging.getLogger("nadi.io.centres")


_LEAVING: dict[str, Future[Receipt]] = {}
"""Writes of outlets that were closed in the middle of them, by their keys: who comes after them waits, else they would take each other for a later run."""


class Outlet:
    """One centre. `sink` publishes there; used by the thread that writes, and while the centre is away by one of its own. No two with one `key` write at the
    same time."""

    def __init__(self, name: str, key: str, sink: Sink, patience: float) -> None:
        self.name = name
        self._key = key
        self.sink = sink
        self._patience = patience
        self._policy = Policy(500, 30_000)
        self._attempts = 0  # since it is away; 0: it is not
        self._next = 0.0  # when to try it again
        self._missed = 0  # cuts since then
        self._running: Future[Receipt] | None = None

    def write(self, delivery: Delivery) -> Receipt | None:
        """What came of a cut; None where the centre is away. Errors: those of the sink, but CONNECTION_UNAVAILABLE."""
        found: Receipt | None = None
        if self._running is None and time.monotonic() >= self._next:
            self._running = self._begun(delivery, 0.0 if self._attempts else self._patience)
            found = self._awaited(0.0 if self._attempts else self._patience)
        elif self._running is not None and self._running.done():
            self._awaited(0.0)  # an earlier cut: this one follows it
            if not self._attempts:
                return self.write(delivery)
        if found is None:
            self._missed += bool(len(delivery.payloads))
        return found

    def close(self) -> None:
        """Let go of the centre, as soon as nothing is on its way there any more."""
        running = self._running
        if running is None or running.done():
            self.sink.close()
        else:
            _LEAVING[self._key] = running
            running.add_done_callback(lambda _: self.sink.close())
        succeeded(self.name)

    def _begun(self, delivery: Delivery, seconds: float) -> Future[Receipt]:
        """A write that nobody has to wait for, tried again for some seconds where the centre does not take it."""
        told: Future[Receipt] = Future()
        before = _LEAVING.pop(self._key, None)

        def work() -> None:
            try:
                if before is not None:
                    before.exception()  # whatever became of it
                write = partial(self.sink.write, delivery)
                told.set_result(persist(self.name, write, int(seconds * 1000), AGAIN))
            except BaseException as reason:
                told.set_exception(reason)

        threading.Thread(target=work, name="centre-write", daemon=True).start()
        return told

    def _awaited(self, seconds: float) -> Receipt | None:
        assert self._running is not None
        try:
            found = self._running.result(seconds)
        except Late:
            if not self._attempts:
                self._away(f"no answer within {seconds:g} s")
            return None
        except ConnectionUnavailableException as reason:
            self._running = None
            self._away(short(reason))
            return None
        except NadiError:
            self._running = None
            raise
        self._running = None
        if self._attempts:
            _LOG.warning("%s is there again; %d cuts with rows are missing there", self.name, self._missed)
            succeeded(self.name)
        self._attempts = self._missed = 0
        return found

    def _away(self, reason: str) -> None:
        self._attempts += 1
        pause = self._policy.delay(self._attempts) / 1000
        self._next = time.monotonic() + pause
        failed(self.name, reason, pause)
        if self._attempts == 1:
            _LOG.warning("%s is away, the sink goes on with the other centres: %s", self.name, reason)


class CentresSink:
    """See the module's text. Every bucket has outlets of its own, which `open_sinks` makes: one sink per centre."""

    def __init__(
        self,
        connector: Connector,
        place: Place,
        names: Sequence[str],
        open_sinks: Callable[[], Sequence[Sink]],
    ) -> None:
        self._who = f"{connector.type} sink of {connector.stream}"
        self._names = [f"{self._who} at {name}" for name in names]
        self._key = f"{place.state} {connector.ordinal}"
        self._open = open_sinks
        self._patience = integer(connector.options, "away.after", AWAY_AFTER) / 1000
        self._outlets: dict[int, list[Outlet]] = {}
        self._committers: Sequence[Sink] = ()
        self._lock = threading.Lock()

    def write(self, delivery: Delivery) -> Receipt:
        """Write to all centres that are there. Errors: CONNECTION_UNAVAILABLE, where none is; FENCED, REFUSED, where one says so."""
        outlets = self._of(delivery.bucket)
        told = [outlet.write(delivery) for outlet in outlets]
        if not any(told) and delivery.payloads:
            raise error("CONNECTION_UNAVAILABLE", connector=self._who, reason="no centre is there")
        refused: dict[int, Refusal] = {}
        content: dict[str, str | int | bytes] = {}
        for number, receipt in enumerate(told):
            if receipt is not None:
                content |= {f"{number}/{name}": value for name, value in receipt.content.items()}
                refused |= {refusal.index: refusal for refusal in receipt.refused}
        return Receipt(delivery.bucket, delivery.cut, content, tuple(refused[i] for i in sorted(refused)))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Each centre's sink commits what was written there."""
        with self._lock:
            self._committers = self._committers or self._open()
        for number, sink in enumerate(self._committers):
            prefix = f"{number}/"
            sink.commit(cut, [Receipt(r.bucket, cut, _part(r, prefix)) for r in receipts])

    def close(self) -> None:
        for bucket in tuple(self._outlets):
            self.drop(bucket)
        for sink in self._committers:
            sink.close()

    def _of(self, bucket: int) -> list[Outlet]:
        with self._lock:
            if bucket not in self._outlets:
                sinks = self._open()
                self._outlets[bucket] = [
                    Outlet(name, f"{self._key} {name} {bucket}", sink, self._patience)
                    for name, sink in zip(self._names, sinks, strict=True)
                ]
            return self._outlets[bucket]

    def drop(self, bucket: int) -> None:
        """Forget the sinks of a bucket."""
        with self._lock:
            outlets = self._outlets.pop(bucket, [])
        for outlet in outlets:
            outlet.close()


def _part(receipt: Receipt, prefix: str) -> dict[str, str | int | bytes]:
    return {name.removeprefix(prefix): v for name, v in receipt.content.items() if name.startswith(prefix)}


def publisher(connector: Connector, place: Place, bucket: int) -> str:
    """Who publishes the rows of a bucket, with the incarnation: the run of the sink, which a new state folder begins anew."""
    name = connector.options.get("sequence.id")
    made_by = producer(connector, place, bucket) if name is None else f"{name}/{bucket}"
    return f"{made_by}{LIFE}{ledger.run(ledger.shared(connector, place))}"
