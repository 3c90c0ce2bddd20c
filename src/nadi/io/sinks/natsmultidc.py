"""`@sink(type='natsMultiDC', destination='s', bootstrap.servers='nats://west:4222,nats://east:4222')`: every row to subjects of two NATS servers.

In each of them exactly once, as `nadi.io.sinks.nats` does it; what happens where one is away says `nadi.io.sinks.centres`.

With `publish='active'` only the cluster publishes whose turn it is (`nadi.io.sinks.turns`), under the same name and incarnation whichever it is. Each server
refuses whoever had the turn before (`nadi.io.sinks.natsfence`), and knows which rows it has: the node keeps nothing of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nadi.errors import NadiError, Span, error
from nadi.io.addresses import check_servers
from nadi.io.centreoptions import addresses, at_centre, check_centres
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.jetstream import MESSAGE_ID, Outgoing
from nadi.io.natsreach import reaches_of_centres, read_of_centres
from nadi.io.registry import SinkKind
from nadi.io.sinks import centres, ledger
from nadi.io.sinks.nats import NatsSink, checked_subject
from nadi.io.sinks.natsfence import Fence
from nadi.io.sinks.natsturn import NatsFollower, NatsSwitch, register_of
from nadi.io.sinks.numbers import Numbers, numbers
from nadi.io.sinks.turns import TurnSink
from nadi.io.sources.centre_marks import LIFE
from nadi.io.sources.nats import client_of, destination
from nadi.io.turn import OPTIONS as OPTIONS_OF_TURNS
from nadi.io.turn import Known, Turn, TurnCentre, check_turns, takes_turns, turn_key
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits
from nadi.plan.options import Option


class CentreNatsSink(NatsSink):
    """The sink of one centre."""

    def _made_by(self, bucket: int) -> str:
        return centres.publisher(self._connector, self._place, bucket)


class TurnNatsSink(CentreNatsSink):
    """The sink of one centre for the cluster whose turn it is."""

    def __init__(self, connector: Connector, place: Place, known: Known) -> None:
        self._register = register_of(connector)
        super().__init__(self._register.client, checked_subject(connector), connector, place)
        self._known = known
        self._life = ""
        self._fences: dict[int, Fence] = {}  # by bucket

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: the server has noted each cut."""

    def _before(self, delivery: Delivery) -> None:
        if delivery.bucket not in self._fences:
            self._fences[delivery.bucket] = self._begun(delivery.bucket)

    def _published(self, delivery: Delivery, messages: list[Outgoing], follows: bool) -> dict[str, int]:
        """Publish what the stream does not have. Errors: FENCED, where somebody else has begun."""
        try:
            self._append(delivery, messages)
        except NadiError as reason:
            del self._fences[delivery.bucket]
            if reason.condition != "SEQUENCE_TAKEN":
                raise
            self._before(delivery)  # the stream may only have forgotten that this one had begun
            self._once_more(delivery, messages)
        return {}

    def _once_more(self, delivery: Delivery, messages: list[Outgoing]) -> None:
        try:
            self._append(delivery, messages)
        except NadiError as reason:
            del self._fences[delivery.bucket]
            if reason.condition != "SEQUENCE_TAKEN":
                raise
            raise self._fenced(delivery.bucket) from reason

    def _append(self, delivery: Delivery, messages: list[Outgoing]) -> None:
        fence, rows = self._fences[delivery.bucket], numbers(delivery)
        there = {self._identity(delivery.bucket, of) for of in rows if fence.delivered.has(of)}
        fence.append([m for m in messages if m.headers[MESSAGE_ID] not in there], rows)

    def _begun(self, bucket: int) -> Fence:
        """Whoever published the rows of the bucket before cannot do so any more. Errors: FENCED, where it is somebody else's turn."""
        rows = self._register.make()
        turn, last = self._register.turn()
        if turn < self._known.turn:  # the server was away when the turn was given
            turn = self._carried(last)
        if turn.centre != self._connector.options["centre"]:
            raise self._fenced(bucket)
        self._life = turn.life
        fence = Fence(self._register, rows, turn_key(self._connector, bucket))
        fence.begin(turn, self._made_by(bucket))
        return fence

    def _carried(self, last: int) -> Turn:
        """Tell the server of the turn that another one knows of; -> the turn that it knows then."""
        try:
            self._register.give(self._known.turn, last)
        except NadiError as reason:
            if reason.condition != "SEQUENCE_TAKEN":
                raise  # else somebody was faster
        return self._register.turn()[0]

    def _fenced(self, bucket: int) -> NadiError:
        return error("FENCED", connector=self._who, producer=turn_key(self._connector, bucket))

    def _made_by(self, bucket: int) -> str:
        return f"{turn_key(self._connector, bucket)}{LIFE}{self._life}"

    def _identity(self, bucket: int, of: Numbers) -> str:
        return f"{self._made_by(bucket)}/{of.group}/{of.number}"


def turns(connector: Connector) -> list[TurnCentre]:
    """The servers of a sink that takes turns, none where it always publishes."""
    if not takes_turns(connector):
        return []
    return [_turn_centre(at_centre(connector, connector.type, a, connector.options)) for a in addresses(connector)]


def _turn_centre(centre: Connector) -> TurnCentre:
    address = centre.options["bootstrap.servers"]
    return TurnCentre(centre.stream, address, lambda: NatsFollower(centre), lambda: NatsSwitch(centre))


def _open(connector: Connector, place: Place) -> Sink:
    names = addresses(connector)
    subject = checked_subject(connector)
    known = Known()

    def opened(number: int, address: str) -> Sink:
        at = at_centre(connector, connector.type, address, connector.options)
        if takes_turns(connector):
            return TurnNatsSink(at, place, known)
        kept = ledger.PartKept(ledger.kept(connector, place), f"centre-{number}")
        return CentreNatsSink(client_of(at.options), subject, at, place, kept=kept)

    def sinks() -> Sequence[Sink]:
        return [opened(number, address) for number, address in enumerate(names)]

    inner = centres.CentresSink(connector, place, names, sinks)
    if not takes_turns(connector):
        return inner
    return TurnSink(connector, inner, lambda: [centre.follower() for centre in turns(connector)], known)


def _check_subject(connector: Connector, span: Span) -> None:
    if checked_subject(connector, span).template.attributes and takes_turns(connector):
        where, wanted = (
            f"@sink of {connector.stream} (natsMultiDC)",
            "one subject, without {{attribute}}, as it publishes in turn",
        )
        value = destination(where, connector.options)
        raise error("OPTION_INVALID", span, where=where, name="destination", value=value, wanted=wanted)


KIND = SinkKind(
    (
        *centres.OPTIONS,
        *OPTIONS_OF_TURNS,
        Option("bootstrap.servers", required=True, doc="one address per centre, as of the source"),
        Option("destination", doc="as of `nats`", other="subject"),
        Option("subject", doc="another name of `destination`"),
        Option("username", doc="for the connections", secret=True),
        Option("password", doc="for the connections", secret=True),
        Option("is.binary.message", kind="bool", doc="Siddhi's, without effect: the mapper decides"),
    ),
    _open,
    checks=(check_centres, check_servers, _check_subject, partial(check_turns, "natsMultiDC")),
    turns=turns,
    reaches=reaches_of_centres,
    reads=read_of_centres,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="in each centre that is there: messages carry their numbers, and after a failure the tail of the stream is read for those that are there",
        refuses="a message that is larger than the server takes",
        announces=False,
        journal=False,
        local=True,
        header=False,
        topics=None,
        moved="",
        alone=(),
    ),
    loops=(),
)
