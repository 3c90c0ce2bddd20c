"""What a request says of who asks: its header `Authorization`, cookies, the page that it comes from."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LONGEST = 8_192  # characters of a header that is read
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Basic:
    """A user name and a password."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token, or the first half of one."""

    token: str = field(repr=False)


def authorization(header: bytes) -> Basic | Bearer | None:
    """What a header `Authorization` has; None where it cannot be read, or has another scheme.

    >>> authorization(b"Basic YWRtaW46c2VjcmV0")
    Basic(name='admin')
    >>> authorization(b"Bearer abc").token
    'abc'
    """
    if len(header) > LONGEST:
        return None
    scheme, _, rest = header.partition(b" ")
    match scheme.lower():
        case b"basic":
            return _basic(rest.strip())
        case b"bearer":
            return _bearer(rest.strip())
    return None


def _basic(encoded: bytes) -> Basic | None:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Basic(name, password) if colon and name else None


def _bearer(token: bytes) -> Bearer | None:
    """A token has no spaces, and nothing but ASCII."""
    if not token or not all(33 <= c <= 126 for c in token):
        return None
    return Bearer(token.decode())


def only(headers: Headers, name: bytes) -> bytes | None:
    """The value of a header that comes once; None where it does not come, or more than once."""
    found = [value for given, value in headers if given == name]
    return found[0] if len(found) == 1 else None


def cookie(headers: Headers, name: str) -> str:
    """The value of a cookie; "" where there is none, or more than one of this name: which of them is meant cannot be known.

    >>> cookie([(b"cookie", b"a=1; HID=x")], "HID"), cookie([(b"cookie", b"HID=x; HID=y")], "HID")
    ('x', '')
    """
    found = []
    for given, value in headers:
        if given != b"cookie" or len(value) > LONGEST:
            continue
        for part in value.decode("latin-1").split(";"):
            written, _, content = part.strip().partition("=")
            if written == name:
                found.append(content)
    return found[0] if len(found) == 1 else ""


def is_foreign(headers: Headers) -> bool:
    """Whether a page of another origin asks. Programs that are no browsers say nothing about it.

    >>> is_foreign([(b"host", b"node:9443"), (b"origin", b"https://evil.example")])
    True
    >>> is_foreign([(b"host", b"node:9443"), (b"origin", b"https://node:9443")]), is_foreign([(b"host", b"node:9443")])
    (False, False)
    """
    given = list(headers)
    origins = [value for name, value in given if name == b"origin"]
    if origins:
        host = only(given, b"host")
        return len(origins) > 1 or host is None or _place(origins[0]) != host.lower()
    return any(name == b"sec-fetch-site" and value in (b"cross-site", b"same-site") for name, value in given)


def _place(origin: bytes) -> bytes | None:
    """Host and port of an origin; None for `null` and what is none."""
    try:
        return urlsplit(origin.decode("ascii")).netloc.lower().encode() or None
    except (UnicodeDecodeError, ValueError):
        return None


def set_cookie(
    name: str, value: str, path: str, *, seconds: int | None = None, lax: bool = False, script: bool = False
) -> str:
    """A header `Set-Cookie`: only over https, only for requests from the same site, not for scripts unless `script`. `seconds` 0 removes it.

    Errors: ValueError, for a value that would become more than one.

    >>> set_cookie("HID", "x", "/portal")
    'HID=x; Path=/portal; Secure; SameSite=Strict; HttpOnly'
    """
    if any(not 33 <= ord(c) <= 126 or c in ';,"\\' for c in value + path):
        raise ValueError(f"no value of a cookie {name}")
    parts = [f"{name}={value}", f"Path={path}", "Secure", f"SameSite={'Lax' if lax else 'Strict'}"]
    parts += [] if script else ["HttpOnly"]
    parts += [] if seconds is None else [f"Max-Age={seconds}"]
    return "; ".join(parts)
