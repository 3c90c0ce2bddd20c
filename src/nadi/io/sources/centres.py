"""The ingress of a source that reads the same messages from several data centres, each of which has a broker of its own: what comes first counts.

Every centre has a thread that reads its log, one partition of it, and hands what it reads to the journal, which appends what is new (`nadi.io.journalseen`). So
cuts, replay and revisions know nothing of centres: the journal has each message once, in the order in which the messages came. Up to where a centre was read is
remembered with what was taken: a centre is read again from there, not from what its broker was told.

A centre that is away holds up nothing. When it is back, it is read from where it was left, and what the others have brought meanwhile is dropped. Numbers that
no centre has brought are told (`nadi.io.journalseen.Rules`): in the log, and as a message that is known to be none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass

from nadi.errors import NadiError
from nadi.io.contract import Connector, Ingress, Log, Messages, Place
from nadi.io.journal import EVENT_BYTES, Journal, open_journal, required
from nadi.io.journallog import RETENTION_MS, open_journal_log
from nadi.io.journalmessages import Event
from nadi.io.journalseen import JournalSeen, Rules, remember
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.io.natsclient import shared, submit
from nadi.io.retry import Policy, failed, short, succeeded
from nadi.io.seen import MARK, BeginMark, Bounds, Outcome, PlaceMark, to_text
from nadi.io.sources import centre_marks
from nadi.io.sources.properties import transport_names
from nadi.io.wakes import TRUSTED, Wakes
from nadi.io.wallclock import WALL
from nadi.plan.options import HOURS, Option, flag, integer

AT_ONCE = 5_000  # messages that are handed to the journal at a time
LOOK = 1.0  # seconds between looks at a log that cannot ring
STOP_WITHIN = 15.0  # seconds
UNNUMBERED = "the message does not say who has published it and which number it has: it cannot be known when it comes from another data centre"

_LOG = logging.getLogger("nadi.io.centres")

OPTIONS = (
    Option("journal.retention.hours", kind="int", least=0, most=HOURS, doc="as of `http`", default="24"),
    Option(
        "gap.after",
        kind="int",
        least=0,
        doc=(
            "ms after which a number that is missing is [told](datacentres.md#numbers-that-are-missing) "
            "though a centre may still bring it; 60000"
        ),
        default="60000",
    ),
)
"""Options of all sources with several centres."""


@dataclass(frozen=True, slots=True)
class Centre:
    """One of the brokers: what it is called, and how its log is opened; `partition` is that of the log."""

    name: str
    open: Callable[[], Log]
    partition: int = 0


class CentresIngress:
    """See the module's text."""

    def __init__(self, connector: Connector, place: Place, centres: Sequence[Centre]) -> None:
        """Errors: CONNECTION_UNAVAILABLE where the node has no journal."""
        self._who = f"{connector.type} source of {connector.stream}"
        self._journal = open_journal(place.journal, place.identity)
        patience = integer(connector.options, "gap.after", 60_000)
        rules = Rules(self._who, Bounds(), patience, len(centres))
        self._seen = seen = remember(self._journal, shared(required(place.journal)), connector.ordinal, rules)
        binary = flag(connector.options, "is.binary.message", False)
        kept = transport_names(connector)
        self._readers = [
            _Reader(self._who, number, centre, self._journal, seen, _Making(connector.ordinal, number, kept, binary))
            for number, centre in enumerate(centres)
        ]

    def start(self) -> None:
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        for reader in self._readers:
            reader.end()
        for reader in self._readers:
            reader.join()
        self._seen.end()


@dataclass(frozen=True, slots=True)
class _Making:
    """How events of the journal are made of the messages of a centre."""

    ordinal: int
    centre: int
    kept: tuple[str, ...]
    binary: bool

    def events(self, messages: Messages, partition: int, now: int) -> list[Event]:
        found: list[Event] = []
        payloads: Sequence[bytes] = messages.payloads
        for i, position in enumerate(messages.positions.tolist()):
            properties = messages.properties[i] if messages.properties else {}
            place = centre_marks.Place(self.centre, partition, position)
            mark, body = centre_marks.marked(bytes(payloads[i]), properties, place, self.binary)
            about = {name: properties[name] for name in self.kept if name in properties}
            if mark is None:
                about[MARK] = to_text(PlaceMark(self.centre, partition, position))
                about[UNREADABLE] = UNNUMBERED
            else:
                about[MARK] = to_text(mark)
            if len(body) > EVENT_BYTES:
                about[UNREADABLE] = f"the message of {len(body)} bytes is larger than the journal takes"
                body = body[:1000]
            found.append((now, body, about))
        return found


class _Reader:
    """Reads one centre, in a thread of its own."""

    def __init__(
        self, who: str, number: int, centre: Centre, journal: Journal, seen: JournalSeen, making: _Making
    ) -> None:
        self._who = f"{who} at {centre.name}"
        self._number = number
        self._centre = centre
        self._journal = journal
        self._seen = seen
        self._making = making
        self._policy = Policy(50, 5_000)
        self._bell = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"centre-{number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stopping = True
        self._bell.set()

    def join(self) -> None:
        self._thread.join(STOP_WITHIN)
        succeeded(self._who)

    # ---- the thread

    def _run(self) -> None:
        attempt = 0
        while not self._stopping:
            try:
                log = self._centre.open()
                try:
                    for _ in self._read(log):
                        attempt = 0
                finally:
                    log.close()
            except NadiError as reason:
                attempt += 1
                self._away(short(reason), attempt)
            except CancelledError:
                return  # the process ends
            except Exception as reason:
                attempt += 1
                _LOG.exception("%s cannot be read", self._who)
                self._away(f"{type(reason).__name__}: {reason}", attempt)

    def _away(self, reason: str, attempt: int) -> None:
        delay = self._policy.delay(attempt) / 1000
        failed(self._who, reason, delay)
        if attempt == 1:
            _LOG.warning("%s is away: %s", self._who, reason)
        self._bell.clear()
        if not self._stopping:
            self._bell.wait(delay)

    def _read(self, log: Log) -> Iterator[None]:
        """Read from where the journal has been brought to, until the source stops; yields whenever something has gone well."""
        partition = self._centre.partition
        if isinstance(log, Wakes):
            log.wake(self._bell.set)
        known = submit(self._seen.position(self._number, partition)).result()
        at = self._begin(log.beginning(partition)) if known is None else known
        while not self._stopping:
            self._bell.clear()
            end = log.end(partition)
            succeeded(self._who)
            yield
            if at < end:
                at = self._taken(log, at, end)
                with suppress(NadiError):  # who wants to know how far it is hears it with the next ones
                    log.acknowledge(partition, at)
            elif not self._stopping:
                self._bell.wait(_patience(log))

    def _taken(self, log: Log, start: int, end: int) -> int:
        """Hand on the messages of [start, end); the position behind them."""
        partition = self._centre.partition
        try:
            for messages in log.read(partition, start, end):
                events = self._making.events(messages, partition, WALL.now())
                for at in range(0, len(events), AT_ONCE):
                    if self._stopping:
                        return start
                    self._submitted(events[at : at + AT_ONCE])
                    start = int(messages.positions[min(at + AT_ONCE, len(events)) - 1]) + 1
        except NadiError as reason:
            if reason.condition != "LOG_TRUNCATED":
                raise
            first = int(str(reason.parameters["first"]))
            _LOG.warning(
                "%s no longer has what is before %d: it is read from there, not from %d", self._who, first, start
            )
            return max(first, start)
        return end

    def _begin(self, position: int) -> int:
        """Keep where reading begins: whoever goes on later, also where nothing had come, has not to ask again what is the end, or a time."""
        mark = to_text(BeginMark(self._number, self._centre.partition, position))
        self._submitted([(WALL.now(), b"", {MARK: mark})])
        return position

    def _submitted(self, events: Sequence[Event]) -> Sequence[Outcome]:
        return self._journal.submit_once(self._making.ordinal, events).result()


def _patience(log: Log) -> float:
    """Seconds after which a log is looked at though it has not rung."""
    if not isinstance(log, Wakes):
        return LOOK
    at = log.next_look()
    return TRUSTED if at is None else max(0.0, min(TRUSTED, at - time.monotonic()))


def open_centres_log(connector: Connector, place: Place) -> Log:
    """What the ingress has appended, as a log."""
    hours = integer(connector.options, "journal.retention.hours", RETENTION_MS // 3_600_000)
    return open_journal_log(place.journal, place.identity, connector.ordinal, hours * 3_600_000)


def ingress(connector: Connector, place: Place, centres: Sequence[Centre]) -> Ingress:
    """The ingress of a source. Errors: CONNECTION_UNAVAILABLE."""
    return CentresIngress(connector, place, centres)
