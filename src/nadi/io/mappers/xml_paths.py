"""Where values are in XML: paths of XPath, as far as they lead down from an element or the document.

`a/b`, `/root/a`, `//a`, `*`, `.`, `a[2]`, `a[@k='v']`, `a[b='v']`, `n:a` with a namespace of the mapping; at the end `@k` for an attribute, or `text()`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from nadi.io.mappers.xml_document import is_nil, written

_LAST = re.compile(r"(?:^|/)(?:@([^/\[\]@()\s]+)|(text\(\)))$")
_PREFIX = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True, slots=True)
class Place:
    """A path: from the document on (`absolute`) or from an element; `attribute` is that of the element at its end, "" for its content."""

    steps: str
    absolute: bool = False
    attribute: str = ""
    namespaces: dict[str, str] | None = None

    def all(self, around: Element, element: Element) -> list[Element]:
        """The elements at this place; `around` is the document that `element` is in."""
        begin = around if self.absolute else element
        return begin.findall(self.steps, self.namespaces) if self.steps != "." else [begin]

    def text(self, around: Element, element: Element) -> Content | None:
        """What stands at this place, where something is: the first, if there are several."""
        begin = around if self.absolute else element
        found = begin if self.steps == "." else begin.find(self.steps, self.namespaces)
        if found is None:
            return None
        if self.attribute:
            given = found.get(self.attribute)
            return None if given is None else Content(given)
        return content(found)


@dataclass(frozen=True, slots=True)
class Content:
    """A text; of an element with elements in it (`inner`) their XML. None is null."""

    text: str | None
    inner: bool = False


def content(element: Element) -> Content:
    """What an element holds."""
    if len(element):
        return Content(written(element), True)
    return Content(None) if is_nil(element) and not element.text else Content(element.text or "")


def namespaces_of(text: str) -> dict[str, str]:
    """The option `namespaces`: `prefix=address` with commas between them. Errors: ValueError.

    >>> namespaces_of("dt=urn:schemas-microsoft-com:datatypes, x=urn:x")
    {'dt': 'urn:schemas-microsoft-com:datatypes', 'x': 'urn:x'}
    """
    found: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        prefix, equals, address = (p.strip() for p in pair.partition("="))
        if not (equals and address and _PREFIX.fullmatch(prefix)):
            raise ValueError(f"namespaces: '{pair}' is not prefix=address")
        found[prefix] = address
    return found


def place_of(text: str, namespaces: Mapping[str, str]) -> Place:
    """A path as it is written. Errors: ValueError.

    >>> place_of("//stock/@exchange", {})
    Place(steps='.//stock', absolute=True, attribute='exchange', namespaces=None)
    >>> place_of("company/symbol/text()", {}).steps
    'company/symbol'
    """
    path = text.strip()
    last = _LAST.search(path)
    attribute = _qualified(last[1], namespaces, text) if last and last[1] else ""
    steps = path[: last.start()] if last else path
    absolute = path.startswith("/")
    if steps.startswith("//"):
        steps = "." + steps
    elif absolute:
        steps = steps[1:]
    steps = steps or "."
    if not path or (absolute and steps == "."):
        raise ValueError(f"'{text}' leads to no element")
    try:
        # a path that begins with a point is parsed in any case; a plain name may not be
        Element("x").findall(steps if steps.startswith(".") else f"./{steps}", dict(namespaces))
    except (SyntaxError, KeyError, TypeError, ValueError) as reason:
        said = f": {reason}" if isinstance(reason, SyntaxError) else ""
        raise ValueError(f"'{text}' is not a path that is supported{said}") from None
    return Place(steps, absolute, attribute, dict(namespaces) or None)


def _qualified(name: str, namespaces: Mapping[str, str], path: str) -> str:
    prefix, colon, rest = name.rpartition(":")
    if not colon:
        return name
    if prefix not in namespaces:
        raise ValueError(f"'{path}' has the prefix '{prefix}', which namespaces does not have")
    return f"{{{namespaces[prefix]}}}{rest}"
