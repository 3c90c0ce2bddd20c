"""What the REST APIs answer: the bodies of the contract, and its two codes."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, PlainTextResponse

from nadi.io.httpserver import Send

VALIDATION, FILE_PROCESSING = 800101, 800102
_TYPES = {VALIDATION: "validation error", FILE_PROCESSING: "file processing error"}


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


async def _send(send: Send, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
    fields = {"content-type": kind, "content-length": str(len(body)), **headers}
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
