"""Where the requests of an http sink go: a URL and a method that may depend on the row, and what a row may choose of them.

    http://host/things/{{id}}?by={{user}}    scheme and host are the app's: a value stays the part of path or query that it was meant to be
    {{url}}  http://{{host}}/in              the row chooses the host: only without credentials, else whoever sends events chooses who gets them

A value in the path is percent-encoded but for `/`, one in the query as a whole. A row whose URL or method is none is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

import httpx
import pyarrow as pa

from nadi.config.loopback import with_port
from nadi.errors import NOWHERE, Span, error
from nadi.io.contract import Connector, Delivery
from nadi.io.mappers.columns import as_text
from nadi.io.sinks.numbers import TextOption, text_option

_FIXED = re.compile(r"https?://[^/?#{}\s]+[/?#]", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER = re.compile(r"'([^':]+):([^']*)'")
_PLAIN_HEADERS = {"content-type", "accept", "user-agent"}
_PORTS = range(1, 65_536)
AS_IT_IS = None


class Unusable(ValueError):
    """A URL or a method that no request can be made of; the text says why."""


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A URL with attributes in it. `safe` has for each of them the characters that are not percent-encoded, None where the value stays as it is."""

    option: TextOption
    safe: tuple[str | None, ...]

    @property
    def chooses_host(self) -> bool:
        """Whether a row chooses whom it is sent to."""
        return AS_IT_IS in self.safe

    def values(self, delivery: Delivery) -> list[str]:
        """The URL of each payload, of the attributes of its first row; not checked yet."""
        texts, names = self.option.template.texts, self.option.template.attributes
        if not names:
            return [texts[0]] * len(delivery.payloads)
        firsts = delivery.batch.take(pa.array(delivery.firsts, pa.int64()))
        kinds = {c.name: c.type for c in self.option.connector.schema.columns}
        columns = [as_text(firsts.column(name), kinds[name]).to_pylist() for name in names]
        return [self._filled(row) for row in zip(*columns, strict=True)]

    def _filled(self, row: Sequence[str | None]) -> str:
        texts = self.option.template.texts
        values = ("null" if v is None else v for v in row)
        parts = (v if safe is AS_IT_IS else quote(v, safe=safe) for v, safe in zip(values, self.safe, strict=True))
        return texts[0] + "".join(value + text for value, text in zip(parts, texts[1:], strict=True))


def url_template(connector: Connector, url: str, span: Span = NOWHERE) -> UrlTemplate:
    """The checked `publisher.url`. Errors: OPTION_INVALID."""
    option = text_option(connector, "publisher.url", url, span)
    before, safe = "", list[str | None]()
    for text in option.template.texts[:-1]:
        before += text
        fixed = _FIXED.match(before)
        safe.append(AS_IT_IS if fixed is None else "" if "?" in before or "#" in before else "/")
        before += "{}"
    made = UrlTemplate(option, tuple(safe))
    if not made.chooses_host:
        try:
            checked_url(option.template.texts[0] if not safe else before.replace("{}", "x") + option.template.texts[-1])
        except Unusable as reason:
            raise invalid(connector, "publisher.url", url, f"http://host:port/path ({reason})", span) from None
    return made


def checked_url(text: str) -> httpx.URL:
    """A URL that a request can be sent to.

    >>> checked_url("http://localhost:8080/in").port
    8080

    Raises:
        Unusable: it is none.
    """
    try:
        url = httpx.URL(text)
        host = url.host and url.raw_host.decode("ascii")  # both read it, and refuse different ones
        host.encode("idna")  # what the resolver does: it refuses what httpx does not
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as reason:
        raise Unusable(f"not a URL: {reason}") from None
    if url.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise Unusable("not a URL: it begins with http:// or https:// and a host")
    if url.port is not None and url.port not in _PORTS:
        raise Unusable(f"not a URL: there is no port {url.port}")
    return url


def server_of(url: httpx.URL) -> str:
    """host:port of a URL that was checked.

    >>> server_of(checked_url("HTTPS://Shop/a")), server_of(checked_url("http://shop:81"))
    ('shop:443', 'shop:81')
    """
    return with_port(url.host, url.port or (443 if url.scheme == "https" else 80))


def check_folder(text: str) -> None:
    """Whether a URL is in the folder it seems to be in. Errors: Unusable (`..` leads out of it)."""
    path = re.split(r"[?#]", text, maxsplit=1)[0]
    if not {".", ".."}.isdisjoint(unquote(path).split("/")):
        raise Unusable("its path has a part '.' or '..'")


def shown(url: str) -> str:
    """A URL for messages, without user and password.

    >>> shown("http://ada:secret@localhost/in?by=a@b"), shown("http://localhost/in")
    ('http://localhost/in?by=a@b', 'http://localhost/in')
    """
    return re.sub(r"(?<=//)[^/?#]*@", "", url, count=1)


def checked_method(text: str) -> str:
    """A method. Errors: Unusable."""
    if not _METHOD.fullmatch(text):
        raise Unusable(f"not a method: {text[:40]!r}")
    return text


def header_option(connector: Connector, span: Span = NOWHERE) -> dict[str, str]:
    """`headers="'name:value','name:value'"`. Errors: OPTION_INVALID, which does not show them: they may be credentials."""
    text = connector.options.get("headers", "")
    found = {name.strip(): value.strip() for name, value in _HEADER.findall(text)}
    whole = not text.strip() or (found and not _HEADER.sub("", text).strip(" ,"))
    if not whole or not all(_METHOD.fullmatch(n) and v.isascii() and v.isprintable() for n, v in found.items()):
        raise invalid(connector, "headers", "…", "'name:value','name:value', in ASCII", span)
    return found


def check_url(connector: Connector, span: Span = NOWHERE) -> None:
    """Whether requests can be sent to `publisher.url`. Errors: OPTION_INVALID."""
    url_template(connector, connector.options["publisher.url"], span)


def check_method(connector: Connector, span: Span = NOWHERE) -> None:
    """Errors: OPTION_INVALID."""
    method = connector.options.get("method", "POST")
    if not text_option(connector, "method", method, span).template.attributes and not _METHOD.fullmatch(method):
        raise invalid(connector, "method", method, "a method, as POST", span)


def check_secrets(connector: Connector, span: Span = NOWHERE) -> None:
    """Whether it is for the app to say who gets credentials and headers. Errors: OPTION_INVALID."""
    options = connector.options
    headers = {name.lower() for name in header_option(connector, span)}
    url = url_template(connector, options["publisher.url"], span)
    secret = "basic.auth.username" in options or "@" in options["publisher.url"].partition("://")[2].partition("/")[0]
    if url.chooses_host and (secret or headers - _PLAIN_HEADERS):
        wanted = "http://host/… with a host that no attribute changes: the events would choose who gets the credentials and headers of the sink"
        raise invalid(connector, "publisher.url", options["publisher.url"], wanted, span)


CHECKS = (check_url, check_method, check_secrets)


def invalid(connector: Connector, name: str, value: str, wanted: str, span: Span) -> Exception:
    """OPTION_INVALID."""
    return error(
        "OPTION_INVALID", span, where=f"@sink of {connector.stream} (http)", name=name, value=value, wanted=wanted
    )
