"""What posted messages are answered, and how an answer is sent."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import msgspec

HEAD_BYTES = 64 * 1024  # of a request's head, of what stands between the bytes of a body, and of what comes after it

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` becomes the body, as JSON."""

    status: int
    reason: str = ""
    headers: tuple[Header, ...] = ()


RETRY = ((b"retry-after", b"1"),)
FULL = Answer(503, "the server has as many connections as it takes", RETRY)
BUSY = Answer(503, "too much is waiting to be kept", RETRY)
LATE = Answer(408, "the request did not come in time")
FAILED = Answer(500, "the request failed")
NO_HOST = Answer(400, "the header Host is missing")
NOT_POST = Answer(405, "messages come as POST", ((b"allow", b"POST"),))
NOT_CHUNKED = Answer(501, "the only Transfer-Encoding is chunked")
ENCODED = Answer(415, "messages come without Content-Encoding", ((b"accept-encoding", b"identity"),))
TOO_LONG = Answer(431, f"what is not the body of a request may have {HEAD_BYTES} bytes")


def too_large(largest: int) -> Answer:
    return Answer(413, f"a message may have {largest} bytes")


@lru_cache(maxsize=64)
def rendered(answer: Answer, closes: bool, headless: bool, second: int) -> bytes:
    """An answer as it is sent at a second of the clock."""
    body = msgspec.json.encode({"error": answer.reason}) if answer.reason else b""
    headers = [
        (b"date", formatdate(second, usegmt=True).encode()),
        (b"content-length", str(len(body)).encode()),
        *answer.headers,
    ]
    if body:
        headers.append((b"content-type", b"application/json"))
    if closes:
        headers.append((b"connection", b"close"))
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    first = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n".encode()
    return first + lines + b"\r\n" + (b"" if headless else body)
