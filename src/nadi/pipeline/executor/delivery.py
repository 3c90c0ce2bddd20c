"""What a host hands on of a cut of a bucket: rows to the sinks of its app, error rows to the error store, what was refused to the fault log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from nadi.io import circuits
from nadi.io.contract import Connector, Place, Sink, SinkMapper
from nadi.pipeline.executor.outcome import Outcome
from nadi.pipeline.executor.probe import Told, written
from nadi.pipeline.outputs import deliveries, errorrows, stagedrows
from nadi.pipeline.outputs.refused import Refused
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App


@dataclass(slots=True)
class OpenSink:
    """A sink with its mapper; one user at a time."""

    connector: Connector
    mapper: SinkMapper
    sink: Sink
    lock: threading.Lock = field(default_factory=threading.Lock)


class Delivery:
    """The sinks of one app in this host, opened on first use. `sources` are its inputs by ordinal, which error rows name; `place` is that of the host."""

    def __init__(self, spec: AppSpec, app: App, sources: dict[int, Connector], place: Place) -> None:
        self._spec = spec
        self._place = place
        self._app = app
        self._sources = sources
        self._registry = spec.load_connectors()
        self._sinks = self._registry.connectors(app, "sink")
        self._open: dict[int, OpenSink] = {}
        self._lock = threading.Lock()

    @property
    def streams(self) -> frozenset[str]:
        """Those that have sinks."""
        return frozenset(connector.stream for connector in self._sinks)

    def deliver(self, bucket: int, cut: int, outcome: Outcome) -> dict[str, Any]:
        """Hand what a cut of a bucket gave to the sinks, stage its error rows and faults: `receipts` `[[sink, bucket, cut, content]]`, how many `errors` and
        `faults`, and (`carried`) these themselves where the node's folder is elsewhere; where something is
        measured, what was `sent`. Once more with the same is the same. Errors: those of the sinks."""
        receipts, refused = [], Refused(self._app, outcome.clock)
        measured: Told = {"marks": {}, "times": {}}
        for ordinal, connector in enumerate(self._sinks):
            batch = outcome.outputs.batches.get(connector.stream)
            sends = [send for send in outcome.sends if send.sink == ordinal]
            if not sends and (batch is None or not batch.num_rows):
                continue
            target = self._sink(ordinal)
            begin = time.perf_counter_ns() if outcome.level else 0
            delivery = deliveries.delivery((bucket, cut), connector, target.mapper, batch, sends)
            assert delivery is not None
            orders = None if sends else outcome.outputs.orders.get(connector.stream)
            delivery = replace(delivery, orders=orders, clock=outcome.clock, epoch=outcome.epoch)
            if outcome.level:
                spent = time.perf_counter_ns() - begin
                written(connector, delivery.batch.num_rows, len(delivery.payloads), spent, outcome.level, measured)
            with target.lock, circuits.watched(self._place.state, ordinal, bucket):
                receipt = target.sink.write(delivery)
            receipts.append([ordinal, receipt.bucket, receipt.cut, dict(receipt.content)])
            refused.add(connector, delivery, receipt.refused)
        rows, faults = [*self._error_rows(outcome, cut, bucket), *refused.rows], refused.faults
        told = {"receipts": receipts, "sent": measured} if outcome.level else {"receipts": receipts}
        if self._spec.apart:
            return {**told, **stagedrows.carried(rows, faults)}
        return {**told, **stagedrows.stage(self._place.state, cut, bucket, rows, faults)}

    def _error_rows(self, outcome: Outcome, cut: int, bucket: int) -> Iterator[dict[str, object]]:
        name = self._spec.app
        for told in outcome.errors:
            yield errorrows.undecodable_row(name, cut, self._sources, told)
        for failure in outcome.outputs.failures:
            if not failure.routed:
                yield errorrows.failure_row(self._app, cut, bucket, failure)

    def _sink(self, ordinal: int) -> OpenSink:
        """A sink, opened where it is not."""
        with self._lock:
            found = self._open.get(ordinal)
            if found is None:
                connector = self._sinks[ordinal]
                mapper = self._registry.make_sink_mapper(connector)
                found = OpenSink(connector, mapper, self._registry.open_sink(connector, self._place))
                self._open[ordinal] = found
        return found

    def close(self) -> None:
        """Close what is open."""
        for target in list(self._open.values()):  # a cut that is still under way may open another one
            target.sink.close()
        self._open.clear()
