"""The engine and the connectors without guarantees, under the stopwatch of `timed.py`: what delivery costs is what they save.

Kernels keep no state outside of themselves: no deltas, no bases. A `kafka` sink sends and forgets: no transaction, no idempotence, no row numbers, nobody waits
for the broker. A kill would lose rows; so would a broker that ends. What stays is what Spark itself does for a batch, its offsets and commits, and the cut log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from bench import timed
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.kernel.contract import Kernel
from nadi.plan.nodes import App

plan_app = timed.plan_app
connectors = timed.connectors
open_log = timed.open_log
make_source_mapper = timed.make_source_mapper
make_sink_mapper = timed.make_sink_mapper
make_ingress = timed.make_ingress

FLUSH_WITHIN = 30.0  # seconds, at the end of an app


class LooseKernel(timed.TimedKernel):
    """A kernel whose changes nobody keeps."""

    def delta(self) -> bytes:
        for _ in self._inner.dump():
            break  # with the begin of a dump the changes count as delivered, and what was noted of them does not pile up
        return b""


class LooseKafkaSink:
    """Sends and forgets."""

    def __init__(self, connector: Connector) -> None:
        options = connector.options
        self._topic = options["topic"]
        self._producer = Producer({"bootstrap.servers": options["bootstrap.servers"], "acks": "0", "linger.ms": 5})

    def write(self, delivery: Delivery) -> Receipt:
        for payload in delivery.payloads:
            while not self._sent(payload):
                self._producer.poll(0.1)
        self._producer.poll(0)
        return Receipt(delivery.bucket, delivery.cut)

    def _sent(self, payload: bytes) -> bool:
        try:
            self._producer.produce(self._topic, payload)
        except BufferError:
            return False
        return True

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing was promised."""

    def close(self) -> None:
        self._producer.flush(FLUSH_WITHIN)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    """A kernel whose state is nowhere else."""
    return LooseKernel(timed.engine.make_kernel(app, outputs, bucket, properties))


def open_sink(connector: Connector, place: Place) -> Sink:
    """A sink that sends and forgets; of other types than kafka the usual one."""
    return (
        timed.TimedSink(LooseKafkaSink(connector)) if connector.type == "kafka" else timed.open_sink(connector, place)
    )
