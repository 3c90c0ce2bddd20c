"""What nodes say to each other, as JSON over HTTP.

| request | answers |
|---|---|
| `POST /resourceManager/heartbeat` | 200 accepted or rejected (as who comes without `nadi` is), 204 nobody leads, 301 another manager leads |
| `POST /cluster/messages`, everything else | 200 |

The body of a heartbeat and of its answers has the keys of the contract, and under `nadi` what it has no place for; keys that are not known are ignored.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from nadi.cluster.messages import (
    Cleaned,
    Delete,
    Deploy,
    Done,
    Drain,
    Elsewhere,
    Farewell,
    Forget,
    Granted,
    Heartbeat,
    Message,
    Move,
    Nobody,
    Owners,
    Poke,
    Record,
    Rejected,
    Restart,
    Restore,
    Stranger,
    Unknown,
    Where,
)

HEARTBEAT = "/resourceManager/heartbeat"
MESSAGES = "/cluster/messages"
METERS_WITHIN = 5_000  # ms for a worker to say what it has counted
REJECTED, LEFT = "REJECTED", "LEFT"  # joinedState, beside that of who is granted a lease; LEFT is ours
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        Poke,
        Cleaned,
        Deploy,
        Delete,
        Drain,
        Move,
        Restart,
        Record,
        Restore,
        Forget,
        Done,
        Unknown,
        Nobody,
        Where,
        Owners,
    )
}
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Malformed(Exception):
    """A body that is no message."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a body; None for none. `headers` are those of an answer that is passed on."""

    status: int
    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)


class Network(Protocol):
    """Asks nodes for a path of their REST API, in the manager's loop: `nadi.server.distributed.network.HttpNetwork`."""

    def request(
        self, address: str, method: str, path: str, body: bytes = b"", within: int = 30_000
    ) -> Coroutine[Any, Any, Answer]: ...


def path_of(message: Message) -> str:
    """Where a request goes."""
    return HEARTBEAT if isinstance(message, Heartbeat) else MESSAGES


def interface(address: str) -> dict[str, Any]:
    """An address as the contract writes it.

    >>> interface("https://10.0.0.5:9443")
    {'host': '10.0.0.5', 'port': 9443}
    """
    parts = urlsplit(address)
    return {"host": parts.hostname or "", "port": parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)}


# ---- requests


def request_body(message: Message) -> bytes:
    """The body of a request."""
    if not isinstance(message, Heartbeat):
        return _tagged(message)
    metrics = {name: value for name, value in _plain(message.metrics).items() if value is not None}
    body = {
        "id": message.id,
        "httpsInterface": interface(message.address),
        "state": message.state,
        "isReceiverNode": message.receiver,
        "workerMetrics": _metrics(metrics) if metrics else None,
        "nadi": _plain(message),
    }
    return msgspec.json.encode(body)


def _metrics(found: dict[str, Any]) -> dict[str, Any]:
    names = {"cpu": "systemCPU", "process": "processCPU", "memory": "memoryUsage"}
    return {names[name]: value for name, value in found.items()}


class _Interface(msgspec.Struct):
    host: str
    port: int


class _Contracted(msgspec.Struct):
    """What every heartbeat of the contract has."""

    id: str
    httpsInterface: _Interface  # noqa: N815 - the contract's name


def heartbeat_of(body: bytes) -> Heartbeat | Stranger:
    """The heartbeat in a body; without our key that of a worker of another system. Errors: Malformed."""
    found = _object(body)
    own = found.get("nadi")
    if own is None:
        return _stranger(found)
    try:
        return msgspec.convert(own, Heartbeat)
    except msgspec.ValidationError as reason:
        raise Malformed(str(reason)) from reason


def _stranger(found: dict[str, Any]) -> Stranger:
    try:
        said = msgspec.convert(found, _Contracted)
    except msgspec.ValidationError as reason:
        raise Malformed(f"the heartbeat has neither a key 'nadi' nor those of the contract: {reason}") from reason
    return Stranger(said.id, f"https://{said.httpsInterface.host}:{said.httpsInterface.port}")


def message_of(body: bytes) -> Message:
    """What is in a body of `/cluster/messages`. Errors: Malformed."""
    found = _object(body)
    kind = _KINDS.get(str(found.get("kind")))
    if kind is None:
        raise Malformed(f"'{found.get('kind')}' is no kind of message")
    try:
        return msgspec.convert(found.get("content"), kind)
    except msgspec.ValidationError as reason:
        raise Malformed(str(reason)) from reason


# ---- answers


def answer_to(message: Message, interval: int, retries: int) -> Answer:
    """The answer that carries a message. `interval` and `retries` are what the contract has workers know of their leader."""
    match message:
        case Granted():
            body = {
                "leader": {
                    "httpsInterface": interface(message.leader),
                    "heartbeatInterval": interval,
                    "heartbeatMaxRetry": retries,
                },
                "connectedManagers": [{"httpsInterface": interface(m)} for m in message.managers],
                "joinedState": message.joined,
                "nadi": _plain(message),
            }
            return Answer(200, msgspec.json.encode(body))
        case Rejected():
            said = {"reason": message.reason} if message.reason else {}
            return Answer(200, msgspec.json.encode({"joinedState": REJECTED, **said, "nadi": _plain(message)}))
        case Farewell():
            return Answer(200, msgspec.json.encode({"joinedState": LEFT, "nadi": _plain(message)}))
        case Elsewhere():
            body = {"leader": {"httpsInterface": interface(message.leader)}, "nadi": _plain(message)}
            return Answer(301, msgspec.json.encode(body))
        case Nobody():
            return Answer(204, None)
    return Answer(200, _tagged(message))


def answered(asked: Message, status: int, body: bytes) -> Message:
    """What an answer says to a request. Errors: Malformed, also for a status that is no answer."""
    if not isinstance(asked, Heartbeat):
        if status != 200:
            raise Malformed(f"status {status}")
        return message_of(body)
    if status == 204:
        return Nobody()
    kind: type[Message] | None = {301: Elsewhere, 200: Granted}.get(status)
    if kind is None:
        raise Malformed(f"status {status}")
    found = _object(body)
    kind = {REJECTED: Rejected, LEFT: Farewell}.get(str(found.get("joinedState")), kind)
    try:
        return msgspec.convert(found.get("nadi"), kind)
    except msgspec.ValidationError as reason:
        raise Malformed(str(reason)) from reason


def _tagged(message: Message) -> bytes:
    return msgspec.json.encode({"kind": type(message).__name__, "content": _plain(message)})


def _plain(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(message)
    return found


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as reason:
        raise Malformed(str(reason)) from reason
    if not isinstance(found, dict):
        raise Malformed("the body is no JSON object")
    return found
