"""What the REST APIs answer: the bodies of the contract, and its two codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse

from nadi.io.httpserver import Send

VALIDATION, FILE_PROCESSING = 800101, 800102
_MEANS = {
    302: "The browser goes on elsewhere",
    400: "The request is not what it should be",
    401: "The credentials or a permission are missing or wrong",
    403: "It cannot be done as things stand, or is too large",
    404: "It is not there",
    409: "It is there already, or in that state already",
    429: "Too many wrong passwords, or tokens that are not known; `Retry-After` says when to come back",
    500: "It failed; the body says why",
    503: "Not yet; `Retry-After` says when to ask again",
}
_TYPES = {VALIDATION: "validation error", FILE_PROCESSING: "file processing error"}


def declared(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Status codes for the OpenAPI document, as `responses` of a route takes them.

    >>> declared(404)
    {404: {'description': 'It is not there'}}
    """
    return {code: {"description": _MEANS[code]} for code in codes}


def message(status: int, text: str, kind: str = "success", headers: Mapping[str, str] | None = None) -> JSONResponse:
    """`{"type": …, "message": …}`."""
    return JSONResponse({"type": kind, "message": text}, status, dict(headers or {}))


def coded(status: int, code: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """`{"code": …, "type": …, "message": …}`."""
    body = {"code": code, "type": _TYPES.get(code, "error"), "message": text}
    return JSONResponse(body, status, dict(headers or {}))


def no_app(name: str) -> JSONResponse:
    """404 for an app that is not there."""
    return message(404, f"There is no Siddhi App with the provided name: {name}", "not-found")


def text(status: int, reason: str, headers: Mapping[str, str] | None = None) -> PlainTextResponse:
    """A plain text."""
    return PlainTextResponse(reason, status, dict(headers or {}))


async def send_text(send: Send, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
    """A plain text, from an ASGI application that has no response classes."""
    await _send(send, status, "text/plain; charset=utf-8", reason.encode(), headers or {})


async def send_coded(send: Send, status: int, code: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
    """As `coded`, likewise."""
    answer = coded(status, code, reason)
    await _send(send, status, "application/json", bytes(answer.body), headers or {})


async def send_json(send: Send, status: int, body: bytes | None) -> None:
    """A body that is JSON already, or none."""
    if body is None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    else:
        await _send(send, status, "application/json", body, {})


async def _send(send: Send, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
    fields = {"content-type": kind, "content-length": str(len(body)), **headers}
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
