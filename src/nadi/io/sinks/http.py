"""`@sink(type='http', publisher.url='http://host/path')`: one request per payload, at least once, in order within a bucket.

The receiver may drop what it has: the headers `Nadi-Producer`, `Nadi-Group`, `Nadi-Number` and `Nadi-Count` (see `nadi.io.sinks.numbers`) are the same when a
request is repeated, after a failed attempt as after a restart of the node.

| answer | what follows |
|---|---|
| 2xx, 3xx | delivered |
| none, 408, 425, 429, 5xx | tried again with back-off (`Retry-After` is followed up to 30 s), for up to a minute; then the whole cut is tried again |
| another 4xx | refused for good: what follows is said by `on.error` (see `nadi.io.sinks.refusals`) |

Where rows choose the host, each host has its payloads in order, side by side with the others (`nadi.io.sinks.httphosts`).

A row that makes no URL or method, or names a host that there is not, is refused likewise: no event can hold up those after it by what it says.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from nadi.errors import NOWHERE, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.authorities import authorities
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.reach import Reached
from nadi.io.registry import SinkKind, map_type, mapper_kind
from nadi.io.retry import Policy, failed, short, succeeded
from nadi.io.sinks import httphosts, httptarget
from nadi.io.sinks.httptarget import Unusable, UrlTemplate, header_option, url_template
from nadi.io.sinks.numbers import TextOption, headers, numbers, producer, text_option
from nadi.io.sinks.refusals import Refusals
from nadi.plan.connectortraits import AT_LEAST_ONCE, SinkTraits
from nadi.plan.options import Option

TRY_FOR = 60.0  # seconds
ANSWER_WITHIN = 30.0  # seconds
LONGEST_RETRY_AFTER = 30.0  # seconds
RETRIED = {408, 425, 429}
LARGEST_ANSWER = 65_536  # bytes that are read of an answer
SAID = 200  # characters of an answer that are told


@dataclass(frozen=True, slots=True)
class Target:
    """How requests are made: url and method may depend on the row."""

    url: UrlTemplate
    method: TextOption
    headers: Mapping[str, str]


class HttpSink:
    """Requests to one receiver; the client and its connections are kept."""

    def __init__(self, target: Target, client: httpx.Client, connector: Connector, place: Place) -> None:
        self._target = target
        self._client = client
        self._connector = connector
        self._place = place
        self._refusals = Refusals(connector, place)
        self._who = f"http sink of {connector.stream}"
        self._policy = Policy(100, 5_000)
        self._try_for = TRY_FOR
        self._hosts = httphosts.Circuits()
        self._sent = httphosts.Sent()
        self._waiting: set[str] = set()  # hosts that cuts are held up by, as they are called elsewhere

    def write(self, delivery: Delivery) -> Receipt:
        """Send the payloads one after another. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        made_by = producer(self._connector, self._place, delivery.bucket)
        urls, methods = self._target.url.values(delivery), self._target.method.values(delivery)
        refused, of = self._refusals.known(delivery), numbers(delivery)

        def request(i: int) -> httpx.Request | str:
            return self._request(urls[i], methods[i], delivery.payloads[i], headers(made_by, of[i]))

        left = [i for i in range(len(delivery.payloads)) if i not in refused]
        if self._target.url.chooses_host:
            self._to_hosts(delivery, urls, left, request, refused)
        else:
            for i in left:
                if said := self._refused(self._who, urls[i], request(i), self._try_for):
                    refused[i] = said
        return Receipt(delivery.bucket, delivery.cut, {}, self._refusals.keep(delivery, refused))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: what was sent was sent."""

    def close(self) -> None:
        for who in (self._who, *self._waiting):
            succeeded(who)  # nobody waits for it any more
        self._client.close()

    def _to_hosts(
        self,
        delivery: Delivery,
        urls: Sequence[str],
        left: Sequence[int],
        request: Callable[[int], httpx.Request | str],
        refused: dict[int, str],
    ) -> None:
        """Send payloads to the hosts that their rows chose, in order to each of them; what is refused is noted."""
        bucket, cut, payloads = delivery.bucket, delivery.cut, delivery.payloads

        def send(host: str, ours: list[int]) -> None:
            who = f"{self._who} at {host}"
            for i in ours:
                said = self._hosts.open(host) if self._refusals.goes_on else ""
                if not said:
                    said = self._to_host(who, host, urls[i], request(i))
                if said:
                    refused[i] = said
                else:
                    self._sent.note(bucket, cut, i, payloads[i])

        unsent = [i for i in left if not self._sent.has(bucket, cut, i, payloads[i])]
        httphosts.side_by_side(httphosts.by_host(urls, unsent), send)

    def _to_host(self, who: str, host: str, url: str, request: httpx.Request | str) -> str:
        """ "" once a host has taken it; why it never will, or did not for so long, where `on.error` says to go on."""
        probing = self._refusals.goes_on and self._hosts.half_open(host)
        try:
            said = self._refused(who, url, request, 0.0 if probing else self._try_for)
        except ConnectionUnavailableException as reason:
            if not self._refusals.goes_on:
                self._waiting.add(who)
                raise
            succeeded(who)  # nobody waits for it
            said = f"the host did not take it: {short(reason)}"
            self._hosts.gave_up(host, said)
            return said
        self._hosts.closed(host)
        return said

    def _request(self, url: str, method: str, payload: bytes, about: Mapping[str, str]) -> httpx.Request | str:
        """The request for a payload, or why there can be none."""
        written = {name.encode(): value.encode() for name, value in {**self._target.headers, **about}.items()}
        try:
            checked = httptarget.checked_url(url)
            if self._target.url.chooses_host:  # else it was looked at before the sink was opened
                self._check_reach(httptarget.server_of(checked))
            if self._target.url.safe:
                httptarget.check_folder(url)
            return self._client.build_request(
                httptarget.checked_method(method), checked, content=payload, headers=written
            )
        except Unusable as reason:
            return str(reason)

    def _check_reach(self, server: str) -> None:
        if not self._place.reach.has_host(server):
            raise Unusable(f"apps of this node may not reach {server}")

    def _refused(self, who: str, url: str, request: httpx.Request | str, try_for: float) -> str:
        """ "" once the receiver has taken it; why it never will where `on.error` says to go on. `try_for` is in seconds."""
        until = time.monotonic() + try_for
        attempt = 0
        while True:
            attempt += 1
            reason, pause = (request, -1.0) if isinstance(request, str) else self._attempt(request, attempt)
            if not reason or (pause < 0 and self._refusals.goes_on):
                succeeded(who)
                return reason
            if pause < 0:
                if not self._refusals.waits:
                    raise error("REFUSED", connector=f"{self._who} at {httptarget.shown(url)}", reason=reason)
                pause = self._policy.delay(attempt) / 1000
            failed(who, reason, pause)
            if time.monotonic() + pause > until:
                raise error(
                    "CONNECTION_UNAVAILABLE", connector=f"{self._who} at {httptarget.shown(url)}", reason=reason
                )
            time.sleep(pause)

    def _attempt(self, request: httpx.Request, attempt: int) -> tuple[str, float]:
        """What went wrong ("" for nothing), and after how many seconds to try again (-1: never)."""
        pause = self._policy.delay(attempt) / 1000
        try:
            answer = self._client.send(request, stream=True)
        except httpx.TransportError as reason:
            chosen = self._target.url.chooses_host and _no_such_host(reason)
            never = chosen or isinstance(reason, httpx.LocalProtocolError | httpx.UnsupportedProtocol)
            return str(reason) or type(reason).__name__, -1.0 if never else pause
        text = _beginning(answer)
        if answer.status_code < 400:
            return "", 0.0
        said = f"{answer.status_code} {text}".strip()
        if answer.status_code not in RETRIED and answer.status_code < 500:
            return said, -1.0
        asked = answer.headers.get("retry-after", "")
        return said, max(pause, min(float(asked), LONGEST_RETRY_AFTER)) if asked.isdecimal() else pause


def _beginning(answer: httpx.Response) -> str:
    """The first characters of an answer. A receiver may send without end, or little by little, or what grows when it is unpacked: what is over is not read."""
    until = time.monotonic() + ANSWER_WITHIN
    got = bytearray()
    with contextlib.closing(answer), contextlib.suppress(httpx.TransportError):  # the status has come, and says it all
        for part in answer.iter_raw():
            got += part
            if len(got) > LARGEST_ANSWER or time.monotonic() > until:
                break
    return got[: 4 * SAID].decode("utf-8", "replace")[:SAID]


def _no_such_host(reason: BaseException | None) -> bool:
    """Whether there is no host of that name, as the resolver says."""
    while reason is not None and not isinstance(reason, socket.gaierror):
        reason = reason.__cause__ or reason.__context__
    return reason is not None and reason.errno == socket.EAI_NONAME


def _reaches(connector: Connector) -> tuple[Reached, ...]:
    """The receiver, unless rows choose it: then each request is looked at. Errors: OPTION_INVALID."""
    target = url_template(connector, connector.options["publisher.url"])
    texts = target.option.template.texts
    return (
        ()
        if target.chooses_host
        else (Reached("publisher.url", host=httptarget.server_of(httptarget.checked_url("x".join(texts)))),)
    )


def _open(connector: Connector, place: Place) -> Sink:
    KIND.check(connector, NOWHERE)
    options = connector.options
    given = header_option(connector)
    if "content-type" not in {n.lower() for n in given}:
        given["Content-Type"] = mapper_kind(map_type(connector)).content_type
    target = Target(
        url_template(connector, options["publisher.url"]),
        text_option(connector, "method", options.get("method", "POST")),
        {"Accept-Encoding": "identity", **given},
    )
    user = options.get("basic.auth.username")
    auth = (user, options.get("basic.auth.password", "")) if user else None
    limits = httpx.Limits(max_connections=64)
    client = httpx.Client(auth=auth, timeout=ANSWER_WITHIN, limits=limits, verify=authorities())
    return HttpSink(target, client, connector, place)


KIND = SinkKind(
    (
        Option("publisher.url", required=True, doc="where to; may have `{{attribute}}` in it, see below"),
        Option("method", doc="`POST`; may have `{{attribute}}` in it", default="POST"),
        Option(
            "headers",
            doc="`'name:value','name:value'`; the content type follows from the mapper unless it is given",
            secret=True,
        ),
        Option("basic.auth.username", doc="the user", secret=True),
        Option("basic.auth.password", doc="the password", secret=True),
    ),
    _open,
    checks=httptarget.CHECKS,
    reaches=_reaches,
    traits=SinkTraits(
        guarantee=AT_LEAST_ONCE,
        why="the receiver gets the number of every row and can drop what it has seen",
        refuses="an answer of 4xx but 408, 425 and 429",
        announces=False,
        journal=False,
        local=False,
        header=False,
        topics=None,
        moved="does not refuse a run that was replaced: requests of one cut may come again, with the same Nadi-Number",
        alone=(),
    ),
    loops=(),
)
