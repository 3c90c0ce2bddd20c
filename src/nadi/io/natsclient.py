"""NATS for code that is not asynchronous: one event loop thread per process, calls that always end.

nats-py is asyncio only. A `NatsClient` connects when it is first used and again, with back-off, after its connection was lost; it never hides a lost connection
(nats-py's own reconnecting would keep publishes in a buffer and leave open what became of them). Every call has a timeout; a call that was under way when the
connection went away fails at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

import nats
import nats.errors
from nats.aio.client import Client as Connection

from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.natsidentity import context, parted, replicas_of
from nadi.io.natstransport import SecuredTransport
from nadi.io.natstrust import trust_of
from nadi.io.retry import Gate, Policy
from nadi.replica.address import replica_of

T = TypeVar("T")
Observer = Callable[[bool], None]
"""Is told whether the connection was lost; otherwise there is one again."""

CONNECT_WITHIN = 3.0  # seconds
CALL_WITHIN = 10.0  # seconds
SEEK = 0.02  # seconds between two looks for a connection, at least
NO_STORE = 10049  # JetStream's code where a stream's files could not be made
WRONG_LAST = (10070, 10071, 10164)  # JetStream's codes for an expected last id or sequence that is not the last one


# A cache does not keep two threads from making the same thing at once: of two loops the one would never be heard of again.
_MAKING = threading.RLock()


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"nats-{process}", daemon=True).start()
    return loop


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked process gets one of its own."""
    with _MAKING:
        return _loop_of(os.getpid())


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine in the loop thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, event_loop())


class _Connection(Connection):
    """A connection of nats-py that always tells when it is lost, and says nothing before TLS where it is `secured`."""

    secured: ssl.SSLContext | None = None

    async def _connect_to_server(self, s: Any) -> None:
        if self.secured is not None:  # for each server of a list: nats-py would go on without ours after the first one
            self._transport = SecuredTransport(self.secured)
        await super()._connect_to_server(s)

    async def _process_op_err(self, e: Exception) -> None:
        # nats-py would send what is left, fail, and tell nobody
        self._pending, self._pending_data_size = [], 0
        await super()._process_op_err(e)


class NatsClient:
    """A connection to one server (or to several: `url` may be a comma-separated list). Where the URL names an identity, it is to the one server that has it.
    `replicas` is on how many servers what is made for the URL should be, `replica` the socket of the event sync that is asked before anything is written (None:
    there is no copy).

    >>> client = NatsClient("nats://127.0.0.1:4222")                                  # doctest: +SKIP
    >>> client.call(lambda nc: nc.publish("greetings", b"hello"))                     # doctest: +SKIP
    """

    def __init__(self, url: str, user: str = "", password: str = "", policy: Policy = Policy(20, 1_000)) -> None:  # noqa: B008
        self.url = url
        self._addresses, self._identity = parted(url)
        self._trust = trust_of(url)
        self.replicas = replicas_of(url)
        self.replica = replica_of(url)[1]
        self.copied: dict[
            str, Any
        ] = {}  # by stream what publishes to it, where there is a copy (`nadi.io.copiedappends`)
        self.name = f"NATS server {self._addresses}"
        self._user = user or None
        self._password = password or None
        self._gate = Gate(self.name, policy)
        self._connection: Connection | None = None
        self._connecting: asyncio.Lock | None = None
        self._calls: set[asyncio.Timeout] = set()
        self._observers: set[Observer] = set()
        self._returning: asyncio.Task[None] | None = None
        self._closed = False
        self._process = os.getpid()

    def call(self, operation: Callable[[Connection], Awaitable[T]], seconds: float = CALL_WITHIN) -> T:
        """The result of an asynchronous operation on the connection; not to be called in the loop thread.

        Errors: CONNECTION_UNAVAILABLE (not connected, connection lost, no answer in time), NadiErrors of the operation.
        """
        if self._process != os.getpid():  # forked: the connection and its loop are the parent's
            self._process, self._connection, self._connecting, self._calls = os.getpid(), None, None, set()
        return submit(self.perform(operation, seconds)).result(seconds + CONNECT_WITHIN + 5)

    async def perform(self, operation: Callable[[Connection], Awaitable[T]], seconds: float = CALL_WITHIN) -> T:
        """As `call`, for coroutines in the loop thread."""
        connection = await self._connected()
        try:
            async with asyncio.timeout(seconds) as limit:
                self._calls.add(limit)
                try:
                    return await operation(connection)
                finally:
                    self._calls.discard(limit)
        except TimeoutError as reason:  # nats.errors.TimeoutError is one
            said = "the connection was lost" if connection.is_closed else f"no answer within {seconds:g} s"
            raise self._unavailable(said) from reason
        except nats.errors.NoRespondersError as reason:
            raise self._unavailable("JetStream is not ready") from reason
        except nats.errors.MaxPayloadError as reason:
            raise error(
                "REFUSED", connector=self.name, reason=f"the message is larger than {connection.max_payload} bytes"
            ) from reason
        except (nats.errors.Error, OSError) as reason:
            raise self._unavailable(str(reason) or type(reason).__name__) from reason

    def observe(self, told: Observer) -> None:
        """Have `told` called in the loop thread when the connection was lost, and when there is one again. As long as anybody observes, it is sought."""
        self._observers.add(told)
        if self._connection is None or self._connection.is_closed:
            event_loop().call_soon_threadsafe(self._seek)

    def ignore(self, told: Observer) -> None:
        """The end of `observe`."""
        self._observers.discard(told)

    def _seek(self) -> None:
        if self._returning is None or self._returning.done():
            self._returning = asyncio.create_task(self._return())

    async def _return(self) -> None:
        while self._observers and not self._closed:
            try:
                await self._connected()
            except ConnectionUnavailableException:
                await asyncio.sleep(max(SEEK, self._gate.remaining() / 1000))
            else:
                self._tell(False)
                return

    def _tell(self, lost: bool) -> None:
        for told in tuple(self._observers):
            told(lost)

    def close(self) -> None:
        """Close the connection; the client can not be used again."""
        self._closed = True
        if self._connection is not None and not self._connection.is_closed:
            submit(self._connection.close()).result(CALL_WITHIN)

    async def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed:
                return self._connection
            if self._closed:
                raise self._unavailable("the client is closed")
            if self._gate.remaining():
                raise self._unavailable(self._gate.last_error)
            return await self._connect()

    async def _connect(self) -> Connection:
        connection = _Connection()
        errors: list[Exception] = []

        async def note(reason: Exception) -> None:
            errors[:] = [reason]  # told to whoever calls next; nats-py would write it to the log

        async def lost() -> None:
            if self._connection is connection:  # an attempt that failed has lost nothing
                self._lost()

        try:
            proof = self._proof(connection)
        except OSError as reason:
            said = self._unread(reason)
            self._gate.failed(said)
            raise self._unavailable(said) from reason
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                await connection.connect(
                    [u.strip() for u in self._addresses.split(",")],
                    name="nadi",
                    allow_reconnect=False,
                    reconnect_time_wait=0.05,  # type: ignore[arg-type]  # seconds; nats-py sleeps for it and declares an int
                    max_reconnect_attempts=1,
                    connect_timeout=int(CONNECT_WITHIN),
                    ping_interval=5,
                    max_outstanding_pings=3,
                    pending_size=32 * 1024 * 1024,
                    error_cb=note,
                    disconnected_cb=lost,
                    user=self._user,
                    password=self._password,
                    **proof,
                )
        except (nats.errors.Error, OSError, TimeoutError, asyncio.CancelledError) as reason:
            if isinstance(reason, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
                raise
            # nats-py leaves the socket open where the other side accepted and said nothing; that closing it fails, too, is no news
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await connection.close()
            said = str(errors[0] if errors else reason) or "no answer"
            self._gate.failed(said)
            raise self._unavailable(said) from reason
        self._gate.succeeded()
        self._connection = connection
        return connection

    def _proof(self, connection: _Connection) -> dict[str, Any]:
        """What nats-py is told of TLS where the URL says whom to trust. Errors: OSError, where a file is not there: nobody has that identity any more."""
        if self._identity is not None:
            known = context(self._identity)
        elif self._trust is not None:
            known = self._trust.context()
        else:
            return {}
        connection.secured = known
        return {"tls": known, "tls_handshake_first": True}

    def _unread(self, reason: OSError) -> str:
        if self._identity is None:
            files = ", ".join(map(str, self._trust.files if self._trust else ()))
            return f"of {files} one cannot be used ({reason.strerror or reason})"
        return f"its key {self._identity} cannot be read ({reason.strerror}): the node that it belongs to does not run"

    def _lost(self) -> None:
        now = asyncio.get_running_loop().time()
        for limit in tuple(self._calls):
            if not limit.expired():  # one that is over already may take a while to end, and cannot be told again
                limit.reschedule(now)
        self._tell(True)
        if self._observers and not self._closed:
            self._seek()

    def _unavailable(self, reason: str) -> ConnectionUnavailableException:
        made = error("CONNECTION_UNAVAILABLE", connector=self.name, reason=reason)
        assert isinstance(made, ConnectionUnavailableException)
        return made


@cache
def _shared(url: str, user: str, password: str, _process: int) -> NatsClient:
    return NatsClient(url, user, password)


def shared(url: str, user: str = "", password: str = "") -> NatsClient:
    """The client of this process for a URL and a user; it is kept and must not be closed."""
    with _MAKING:
        return _shared(url, user, password, os.getpid())


async def api(connection: Connection, subject: str, body: object = None, prefix: str = "$JS.API.") -> dict[str, Any]:
    """The answer of JetStream to a request; {} where what was asked for does not exist.

    Errors: CONNECTION_UNAVAILABLE (JetStream is not ready or cannot make files), REFUSED.
    """
    payload = b"" if body is None else json.dumps(body).encode()
    answer = await connection.request(prefix + subject, payload, timeout=CALL_WITHIN)
    found: dict[str, Any] = json.loads(answer.data)
    return check(found, f"JetStream ({subject})")


def check(found: dict[str, Any], what: str) -> dict[str, Any]:
    """An answer that is not an error; {} for "not found". Errors: SEQUENCE_TAKEN, CONNECTION_UNAVAILABLE, REFUSED."""
    wrong = found.get("error")
    if wrong is None:
        return found
    if wrong["code"] == 404:
        return {}
    if wrong.get("err_code") in WRONG_LAST:
        raise error("SEQUENCE_TAKEN", connector=what)
    if (
        wrong["code"] == 503 or wrong.get("err_code") == NO_STORE
    ):  # a full disk, files that a deleted stream leaves for a moment
        raise error("CONNECTION_UNAVAILABLE", connector=what, reason=wrong.get("description", "not ready"))
    raise error("REFUSED", connector=what, reason=wrong.get("description", str(wrong)))
