"""What bodies of JSON have in common: their texts are texts, and they are taken whatever they are called, where that is safe."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from pydantic import BaseModel, field_validator

from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.security.requests import SAFE, Headers, is_foreign, only

KIND = b"content-type"
JSON = b"application/json"
_OTHERS = (b"", b"application/x-www-form-urlencoded", b"text/plain", b"application/octet-stream")
"""What clients call a body of JSON that say nothing of it: `curl -d` calls all that it sends a form."""


class Body(BaseModel):
    """A body. A half of a surrogate pair, which JSON can write and no answer and no file can hold, is refused."""

    @field_validator("*", mode="after")
    @classmethod
    def _is_text(cls, value: object) -> object:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise ValueError("it has half of a character") from None
        return value


class JsonBodies:
    """Calls bodies JSON that clients of the reference call something else, for routes that take JSON; the others read what comes, whatever it is called.

    Only from who sends `Authorization`, and is no page of another origin. A page may send others a form or a plain text without asking them first, but no
    JSON, and no header of its own: where nobody needs credentials, that alone keeps pages of other origins out.
    """

    def __init__(self, inner: Application, forms: Iterable[str] = ()) -> None:
        """`forms` are patterns of paths that take forms."""
        self._inner = inner
        self._forms = tuple(forms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._means_json(scope):
            others = [(name, value) for name, value in scope["headers"] if name != KIND]
            scope = {**scope, "headers": [*others, (KIND, JSON)]}
        await self._inner(scope, receive, send)

    def _means_json(self, scope: Scope) -> bool:
        headers = scope["headers"]
        return (
            scope["method"] not in SAFE
            and any(name == b"authorization" for name, _ in headers)
            and not is_foreign(headers)
            and not any(fnmatchcase(scope["path"], pattern) for pattern in self._forms)
            and _kind(headers) in _OTHERS
        )


def is_json(headers: Headers) -> bool:
    """Whether a body is called JSON.

    >>> is_json([(b"content-type", b"application/json; charset=utf-8")]), is_json([])
    (True, False)
    """
    return _kind(headers) == JSON


def _kind(headers: Headers) -> bytes | None:
    """What a body is called, without parameters; b"" where nothing is said, None where it is said twice."""
    given = list(headers)
    if not any(name == KIND for name, _ in given):
        return b""
    found = only(given, KIND)
    return None if found is None else found.partition(b";")[0].strip().lower()
