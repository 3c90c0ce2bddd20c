"""XML that others have written: whatever is wrong with it is a ValueError, and little stays little.

A document type is refused before anything is parsed: it is what defines entities, of which a few may stand for gigabytes, and what names files and
addresses. Without one the parser fetches and expands nothing but characters. How deep elements lie in each other is bounded, as in JSON (`nadi.received`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from nadi.received import DEEPEST, TOO_DEEP

XSI = "http://www.w3.org/2001/XMLSchema-instance"
NIL = f"{{{XSI}}}nil"
"""The attribute of an element that stands for null, as the parser names it."""

_BETWEEN = re.compile(r"\s*")
_ASIDE = (("<?", "?>"), ("<!--", "-->"))
"""What may stand before a document type or the first element, beside spaces: how it begins and ends."""
_DECLARED = re.compile(r"\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_FIRST_NAME = re.compile(r"<[^\s/>]++")
_UNICODE = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def document(payload: bytes) -> Element:
    """The element around the root element of a document in UTF-8.

    Errors: ValueError, with the reason.

    >>> [child.tag for child in document(b"<a><b/></a>")]
    ['a']
    """
    try:
        text = payload.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    begin = _begin(text)
    if text.startswith("<!DOCTYPE", begin):
        raise ValueError("document types and entities are not supported")
    declared = _DECLARED.match(text)
    if declared is not None and declared[1].lower() not in _UNICODE:
        raise ValueError(f"it says that it is in {declared[1][:40]}, and UTF-8 is read only")
    around = Element("")
    around.append(_root(_with_xsi(text, begin)))
    if _is_deep(around, payload):
        raise ValueError(TOO_DEEP)
    return around


def _begin(text: str) -> int:
    """Where the document type stands, or the first element. No text is read twice."""
    at = 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        opening, closing = next((found for found in _ASIDE if text.startswith(found[0], at)), ("", ""))
        if not opening or (end := text.find(closing, at + len(opening))) < 0:
            return at
        at = end + len(closing)


def _root(text: str) -> Element:
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as reason:
        raise ValueError(f"not XML: {reason}") from None


def _with_xsi(text: str, begin: int) -> str:
    """Siddhi marks null by `xsi:nil` without saying what `xsi` is: it is said here."""
    if "xsi:nil" not in text or "xmlns:xsi" in text:
        return text
    return text[:begin] + _FIRST_NAME.sub(rf'\g<0> xmlns:xsi="{XSI}"', text[begin:], count=1)


def _is_deep(around: Element, payload: bytes) -> bool:
    if payload.count(b"</") <= DEEPEST:  # each level but the last has an end
        return False
    level = list(around)
    for _ in range(DEEPEST):
        level = [child for element in level for child in element]
        if not level:
            return False
    return True


def local(tag: str) -> str:
    """A name without its namespace.

    >>> local("{urn:x}a"), local("a")
    ('a', 'a')
    """
    return tag[tag.rfind("}") + 1 :]


def is_nil(element: Element) -> bool:
    """Whether an element says that it is null."""
    return element.get(NIL, "").strip() in ("true", "1")


def written(element: Element) -> str:
    """An element as XML, without the text behind it."""
    alone = copy(element)
    alone.tail = None
    return ElementTree.tostring(alone, encoding="unicode")


def elements(parent: Element, name: str) -> Iterator[Element]:
    """The children of a name, whatever namespace they are in."""
    return (child for child in parent if local(child.tag) == name)
