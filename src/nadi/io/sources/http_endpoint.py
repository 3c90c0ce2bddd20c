"""What an http source does with messages: those that arrive while others are being appended to the journal are checked and appended together.

They are checked in a thread, as a body may take its time, and the server answers others meanwhile. The mapper runs only to check; the journal keeps the
body as it came, with the headers that the mapping reads (`trp:name`), and with what the message is known by where its client says that
(`nadi.io.sources.http_marks`): one that is in the journal already is answered like the first time, and not appended again.
"""

from __future__ import annotations

import base64
import hmac
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import numpy as np

from nadi.errors import NadiError, error
from nadi.io.contract import Connector, Messages, SourceMapper
from nadi.io.journal import EVENT_BYTES, Journal
from nadi.io.journalmessages import Event
from nadi.io.postanswer import RETRY, Answer, Header, too_large
from nadi.io.postconnection import Exchange
from nadi.io.postserver import PostServer
from nadi.io.seen import MARK, Outcome, to_text
from nadi.io.sources.http_marks import NAMES, mark_of
from nadi.io.sources.properties import transport_names
from nadi.io.wallclock import WALL
from nadi.plan.options import flag

BATCH = 2_000  # requests checked in one go …
BATCH_BYTES = 4 * 1024 * 1024  # … and their bytes, unless it is one
CHECKERS = 32  # threads that check, for all sources; a source has one at a time

ACCEPTED = Answer(202)
STOPPING = Answer(503, "the source is stopping", RETRY)
UNKNOWN = Answer(401, "credentials are needed", ((b"www-authenticate", b'Basic realm="nadi"'),))
REUSED = Answer(422, "the Idempotency-Key was given to another message before")
TOO_LARGE = too_large(EVENT_BYTES)


class HttpEndpoint:
    """One source. All but the checking happens in the server's loop."""

    def __init__(
        self,
        connector: Connector,
        journal: Journal,
        mapper: SourceMapper,
        server: PostServer,
        marks: bool = False,
        refused: Callable[[int], object] = lambda _count: None,
    ) -> None:
        """`marks` is whether it looks at what clients say that messages are known by: then the journal has a chooser. `refused` hears of messages that are
        refused for what they are.

        Errors: OPTION_MISSING, where credentials are asked for and not named."""
        self._marks = marks
        self._ordinal = connector.ordinal
        self._journal = journal
        self._mapper = mapper
        self._server = server
        self._refused = refused
        self._kept = tuple((name.lower().encode(), name) for name in transport_names(connector))
        self._login = login(connector)
        self._waiting: deque[Exchange] = deque()
        self._busy = False
        self.stopping = False

    def refusal(self, headers: Sequence[Header]) -> Answer | None:
        """Why no message with such headers is taken."""
        if self._login and not any(n == b"authorization" and hmac.compare_digest(v, self._login) for n, v in headers):
            self._refused(1)
            return UNKNOWN
        if self._marks and _is_marked(headers):
            try:
                mark_of(headers)
            except ValueError as reason:
                self._refused(1)
                return Answer(400, str(reason))
        return STOPPING if self.stopping else None

    def take(self, exchange: Exchange, headers: Sequence[Header]) -> None:
        """Take a message; it is answered when it is on the disk."""
        if self._kept:
            exchange.properties = {
                text: v.decode("latin-1") for raw, text in self._kept for n, v in headers if n == raw
            }
        if self._marks and _is_marked(headers) and (mark := mark_of(headers)) is not None:
            exchange.properties = {**exchange.properties, MARK: to_text(mark)}
        self._waiting.append(exchange)
        if not self._busy:
            self._busy = True
            self._server.soon(self._next)  # after what else has come with it

    def _next(self) -> None:
        """Begin with what waits."""
        taken: list[Exchange] = []
        size = 0
        while self._waiting and len(taken) < BATCH and (not taken or size + self._waiting[0].size <= BATCH_BYTES):
            taken.append(self._waiting.popleft())
            size += taken[-1].size
        self._busy = bool(taken)
        if taken:
            checkers().submit(self._accept, taken)

    def _accept(self, taken: Sequence[Exchange]) -> None:
        """Check, and append what is good. In a thread of the checkers."""
        try:
            now = WALL.now()
            refused = check(self._mapper, taken, now)
            good = [exchange for i, exchange in enumerate(taken) if i not in refused]
            bad = [(taken[i], answer) for i, answer in refused.items()]
            if bad:
                self._refused(len(bad))
            if not good:
                self._server.call(self._over, bad)
                return
            events: list[Event] = [(now, e.body, e.properties) for e in good]

            def stored(told: Future[int]) -> None:
                reason = told.exception()
                answer = ACCEPTED if reason is None else answer_of(reason)
                self._server.call(self._over, [*bad, *((e, answer) for e in good)])

            def chosen(told: Future[Sequence[Outcome]]) -> None:
                reason = told.exception()
                answers = [_CHOSEN[o] for o in told.result()] if reason is None else [answer_of(reason)] * len(good)
                if reused := answers.count(REUSED):
                    self._refused(reused)
                self._server.call(self._over, [*bad, *zip(good, answers, strict=True)])

            if self._marks and any(MARK in e.properties for e in good):
                self._journal.submit_once(self._ordinal, events).add_done_callback(chosen)
            else:
                self._journal.submit(self._ordinal, events).add_done_callback(stored)
        except Exception as reason:
            self._server.call(self._over, [(e, answer_of(reason)) for e in taken])

    def _over(self, answered: Sequence[tuple[Exchange, Answer]]) -> None:
        self._next()
        self._server.answer(answered)


_CHOSEN = {Outcome.TAKEN: ACCEPTED, Outcome.REPEATED: ACCEPTED, Outcome.REUSED: REUSED}


def _is_marked(headers: Iterable[Header]) -> bool:
    """Whether a client says what its message is known by."""
    return not NAMES.isdisjoint([name for name, _ in headers])


@cache
def checkers() -> ThreadPoolExecutor:
    """The threads that check."""
    return ThreadPoolExecutor(CHECKERS, thread_name_prefix="check")


def check(mapper: SourceMapper, taken: Sequence[Exchange], now: int) -> dict[int, Answer]:
    """The answers to requests that no events can be made of, by their indices."""
    count = len(taken)
    with_properties = any(e.properties for e in taken)
    properties = [e.properties for e in taken] if with_properties else ()
    messages = Messages(
        np.arange(count, dtype=np.int64), np.full(count, now, np.int64), [e.body for e in taken], properties=properties
    )
    refused = {f.position: Answer(400, f.reason) for f in reversed(mapper.decode(messages).failures)}
    if with_properties:
        refused |= {i: TOO_LARGE for i, e in enumerate(taken) if len(e.body) + _length(e.properties) > EVENT_BYTES}
    return refused


def _length(properties: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in properties.items())


def answer_of(reason: BaseException) -> Answer:
    """What a client hears of an error."""
    if not isinstance(reason, NadiError):
        return Answer(500, f"{type(reason).__name__}: {reason}")
    if reason.condition == "MESSAGE_TOO_LARGE":
        return TOO_LARGE
    return Answer(503, reason.diagnostic.message, RETRY)


def login(connector: Connector) -> bytes:
    """The value of the header `Authorization` that is asked for, b"" for none. Errors: OPTION_MISSING."""
    options = connector.options
    if not flag(options, "basic.auth.enabled", False):
        return b""
    for name in ("basic.auth.username", "basic.auth.password"):
        if not options.get(name):
            raise error("OPTION_MISSING", where=f"@source of {connector.stream} (http)", name=name)
    pair = f"{options['basic.auth.username']}:{options['basic.auth.password']}"
    return b"Basic " + base64.b64encode(pair.encode())
