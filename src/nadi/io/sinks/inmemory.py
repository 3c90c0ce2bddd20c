"""`@sink(type='inMemory', topic='t')`: to the apps of this node that listen to the topic; exactly once, as the sink `nats` says."""

from __future__ import annotations

from nadi.io.contract import Connector, Place, Sink
from nadi.io.options import Option
from nadi.io.registry import SinkKind
from nadi.io.sinks.nats import NatsSink
from nadi.io.sinks.numbers import text_option
from nadi.io.sources.inmemory import memory, subject


def _open(connector: Connector, place: Place) -> Sink:
    topic = text_option(connector, "topic", connector.options["topic"])
    return NatsSink(memory(place), topic, connector, place, subject)


KIND = SinkKind((Option("topic", required=True),), _open, local=True)
