"""Text as Java counts it: in UTF-16 units, so that a character beyond U+FFFF is two."""

from __future__ import annotations


def units(text: str) -> str:
    """The text with one Python character per UTF-16 unit.

    >>> len(units("a😀")), units("plain") == "plain"
    (3, True)
    """
    if text.isascii() or max(text) <= "\uffff":
        return text
    raw = text.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, memoryview(raw).cast("H")))


def joined(text: str) -> str:
    """The text of units. Half of a pair becomes "?", as Java writes it when text leaves the app.

    >>> joined(units("a😀")), joined(units("a😀")[:2])
    ('a😀', 'a?')
    """
    if text.isascii():
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return whole.encode("utf-8", "replace").decode("utf-8")
