"""`@sink(type='inMemory', topic='t')`: to the apps of this node that listen to the topic; exactly once, as the sink `nats` says or, in a pair, as
`nadi.io.memorytopics` does."""

from __future__ import annotations

from nadi.errors import Span
from nadi.io.contract import Connector, Place, Sink
from nadi.io.registry import SinkKind
from nadi.io.sinks.nats import NatsSink
from nadi.io.sinks.numbers import text_option
from nadi.io.sources.inmemory import copied, memory, subject
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits
from nadi.plan.options import Option


def _open(connector: Connector, place: Place) -> Sink:
    topic = text_option(connector, "topic", connector.options["topic"])
    client = copied(place)
    if client is not None:
        from nadi.io.memorytopics import TopicSink

        return TopicSink(client, topic, connector, place)
    return NatsSink(memory(place), topic, connector, place, subject)


def _check(connector: Connector, span: Span) -> None:
    text_option(connector, "topic", connector.options["topic"], span)


KIND = SinkKind(
    (Option("topic", required=True, doc="the topic; may have `{{attribute}}` in it"),),
    _open,
    checks=(_check,),
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="messages carry their numbers, and after a failure the tail of the stream is read for those that are there",
        refuses="a message that is larger than the server takes",
        announces=False,
        journal=True,
        local=True,
        header=False,
        topics=None,
        moved="",
        alone=(),
    ),
    loops=(),
)
