"""`@sink(type='http', publisher.url='http://host/path')`: one request per payload, at least once, in order within a bucket.

The receiver may drop what it has: the headers `Nadi-Producer`, `Nadi-Group`, `Nadi-Number` and `Nadi-Count` (see `nadi.io.sinks.numbers`) are the same when a
request is repeated, after a failed attempt as after a restart of the node.

| answer | what follows |
|---|---|
| 2xx, 3xx | delivered |
| none, 408, 425, 429, 5xx | tried again with back-off (`Retry-After` is followed up to 30 s), for up to a minute; then the whole cut is tried again |
| another 4xx | refused for good: what follows is said by `on.error` (see `nadi.io.sinks.refusals`) |
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from nadi.errors import error
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.options import Option
from nadi.io.registry import SinkKind, map_type
from nadi.io.retry import Policy, failed, succeeded
from nadi.io.sinks.numbers import TextOption, headers, numbers, producer, text_option
from nadi.io.sinks.refusals import Refusals

TRY_FOR = 60.0  # seconds
ANSWER_WITHIN = 30.0  # seconds
LONGEST_RETRY_AFTER = 30.0  # seconds
RETRIED = {408, 425, 429}
CONTENT_TYPES = {"json": "application/json", "xml": "application/xml", "csv": "text/csv", "text": "text/plain"}
_HEADER = re.compile(r"'([^':]+):([^']*)'")


@dataclass(frozen=True, slots=True)
class Target:
    """How requests are made: url and method may depend on the row."""

    url: TextOption
    method: TextOption
    headers: Mapping[str, str]


class HttpSink:
    """Requests to one receiver; the client and its connections are kept."""

    guarantee = "at least once"

    def __init__(self, target: Target, client: httpx.Client, connector: Connector, place: Place) -> None:
        self._target = target
        self._client = client
        self._connector = connector
        self._place = place
        self._refusals = Refusals(connector, place)
        self._who = f"http sink of {connector.stream}"
        self._policy = Policy(100, 5_000)
        self._try_for = TRY_FOR

    def write(self, delivery: Delivery) -> Receipt:
        """Send the payloads one after another. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        made_by = producer(self._connector, self._place, delivery.bucket)
        urls, methods = self._target.url.values(delivery), self._target.method.values(delivery)
        refused = self._refusals.known(delivery)
        for i, (payload, of) in enumerate(zip(delivery.payloads, numbers(delivery))):
            if i in refused:
                continue
            about = {**self._target.headers, **headers(made_by, of)}
            said = self._refused(self._client.build_request(methods[i], urls[i], content=payload, headers=about))
            if said:
                refused[i] = said
        return Receipt(delivery.bucket, delivery.cut, {}, self._refusals.keep(delivery, refused))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: what was sent was sent."""

    def close(self) -> None:
        self._client.close()

    def _refused(self, request: httpx.Request) -> str:
        """ "" once the receiver has taken it; what it said where it refuses it for good and `on.error` says to go on."""
        until = time.monotonic() + self._try_for
        attempt = 0
        while True:
            attempt += 1
            reason, pause = self._attempt(request, attempt)
            if not reason or (pause < 0 and self._refusals.goes_on):
                succeeded(self._who)
                return reason
            if pause < 0:
                if not self._refusals.waits:
                    raise error("REFUSED", connector=f"{self._who} at {request.url}", reason=reason)
                pause = self._policy.delay(attempt) / 1000
            failed(self._who, reason, pause)
            if time.monotonic() + pause > until:
                raise error("CONNECTION_UNAVAILABLE", connector=f"{self._who} at {request.url}", reason=reason)
            time.sleep(pause)

    def _attempt(self, request: httpx.Request, attempt: int) -> tuple[str, float]:
        """What went wrong ("" for nothing), and after how many seconds to try again (-1: never)."""
        pause = self._policy.delay(attempt) / 1000
        try:
            answer = self._client.send(request)
        except httpx.TransportError as reason:
            return str(reason) or type(reason).__name__, pause
        if answer.status_code < 400:
            return "", 0.0
        said = f"{answer.status_code} {answer.text[:200]}".strip()
        if answer.status_code not in RETRIED and answer.status_code < 500:
            return said, -1.0
        asked = answer.headers.get("retry-after", "")
        return said, max(pause, min(float(asked), LONGEST_RETRY_AFTER)) if asked.isdecimal() else pause


def _headers(connector: Connector) -> dict[str, str]:
    """`headers="'name:value','name:value'"` and the content type. Errors: OPTION_INVALID."""
    text = connector.options.get("headers", "")
    found = {name.strip(): value.strip() for name, value in _HEADER.findall(text)}
    if text.strip() and (not found or _HEADER.sub("", text).strip(" ,")):
        where = f"@sink of {connector.stream} (http)"
        raise error("OPTION_INVALID", where=where, name="headers", value=text, wanted="'name:value','name:value'")
    if "content-type" not in {n.lower() for n in found}:
        found["Content-Type"] = CONTENT_TYPES.get(map_type(connector), "application/octet-stream")
    return found


def _open(connector: Connector, place: Place) -> Sink:
    options = connector.options
    url = options["publisher.url"]
    if not url.startswith(("http://", "https://", "{{")):
        where = f"@sink of {connector.stream} (http)"
        raise error("OPTION_INVALID", where=where, name="publisher.url", value=url, wanted="http://host:port/path")
    target = Target(
        text_option(connector, "publisher.url", url),
        text_option(connector, "method", options.get("method", "POST")),
        _headers(connector),
    )
    user = options.get("basic.auth.username")
    auth = (user, options.get("basic.auth.password", "")) if user else None
    client = httpx.Client(auth=auth, timeout=ANSWER_WITHIN, limits=httpx.Limits(max_connections=64))
    return HttpSink(target, client, connector, place)


KIND = SinkKind(
    (
        Option("publisher.url", required=True),
        Option("method"),
        Option("headers"),
        Option("basic.auth.username"),
        Option("basic.auth.password"),
    ),
    _open,
)
