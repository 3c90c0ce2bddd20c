"""Character classes of `java.util.regex`: sets of characters, read and written as what Python's `re` understands.

Each set is one text that matches one character: `[…]` where that is enough, an alternative or a look-ahead where Java combines sets.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from nadi.functions.javaalphabetic import is_alphabetic


class Unsupported(ValueError):
    """What cannot be translated, as a sentence."""


@dataclass(frozen=True, slots=True)
class Members:
    """`items` is what would stand in brackets, `others` texts of sets that brackets cannot hold; `negated` all but those."""

    items: str = ""
    others: tuple[str, ...] = ()
    negated: bool = False

    def text(self) -> str:
        if not self.others:
            if not self.items:
                return "[\\s\\S]" if self.negated else "(?!)"
            return f"[{'^' if self.negated else ''}{self.items}]"
        sets = [*([f"[{self.items}]"] if self.items else []), *self.others]
        whole = sets[0] if len(sets) == 1 else f"(?:{'|'.join(sets)})"
        return f"(?:(?!{whole})[\\s\\S])" if self.negated else whole

    def joined(self, other: Members) -> Members:
        if other.negated or other.others:
            return Members(self.items, (*self.others, other.text()))
        return Members(self.items + other.items, self.others)


def escaped(char: str) -> str:
    """A character that stands for itself, in brackets and outside.

    >>> escaped("a"), escaped("-"), escaped("\\n")
    ('a', '\\\\-', '\\\\\\n')
    """
    return char if char.isalnum() or char == "_" or ord(char) > 127 else "\\" + char


def one_of(items: str, negated: bool = False) -> Members:
    return Members(items, (), negated)


_DIGIT, _WORD, _SPACE = "0-9", "a-zA-Z0-9_", " \\t\\n\\x0b\\f\\r"
_ASCII = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "h": " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    "v": "\\n\\x0b\\f\\r\\x85\\u2028\\u2029",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": _SPACE,
}


_OF_WORDS = ("Nd", "Pc", "Mn", "Mc", "Me")


def _is_blank(char: str) -> bool:
    return char == "\t" or unicodedata.category(char) == "Zs"


def _is_graph(char: str) -> bool:
    return unicodedata.category(char) not in ("Zs", "Zl", "Zp", "Cc", "Cs", "Cn")


_TESTS: dict[str, Callable[[str], bool]] = {
    "Alphabetic": is_alphabetic,
    "Letter": str.isalpha,
    "Digit": lambda c: unicodedata.category(c) == "Nd",
    "Lowercase": str.islower,
    "Uppercase": str.isupper,
    "White_Space": lambda c: c.isspace() and c not in "\x1c\x1d\x1e\x1f",
    "Punctuation": lambda c: unicodedata.category(c).startswith("P"),
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaLetter": str.isalpha,
    "javaDigit": lambda c: unicodedata.category(c) == "Nd",
    "javaLetterOrDigit": lambda c: c.isalpha() or unicodedata.category(c) == "Nd",
    "javaWhitespace": lambda c: c.isspace() and c not in "\x85\xa0\u2007\u202f",
    "word": lambda c: is_alphabetic(c) or c in "\u200c\u200d" or unicodedata.category(c) in _OF_WORDS,
    "alnum": lambda c: is_alphabetic(c) or unicodedata.category(c) == "Nd",
    "xdigit": lambda c: c in "ABCDEFabcdefＡＢＣＤＥＦａｂｃｄｅｆ" or unicodedata.category(c) == "Nd",
    "blank": _is_blank,
    "graph": _is_graph,
    "print": lambda c: _is_graph(c) or (_is_blank(c) and c != "\t"),
    "cased": lambda c: c.islower() or c.isupper() or unicodedata.category(c) == "Lt",
    "Lu|Ll|Lt": lambda c: unicodedata.category(c) in ("Lu", "Ll", "Lt"),
}
_POSIX_OF_UNICODE = {
    "LOWER": "Lowercase",
    "UPPER": "Uppercase",
    "ALPHA": "Alphabetic",
    "DIGIT": "Digit",
    "ALNUM": "alnum",
    "PUNCT": "Punctuation",
    "GRAPH": "graph",
    "PRINT": "print",
    "BLANK": "blank",
    "CNTRL": "Cc",
    "XDIGIT": "xdigit",
    "SPACE": "White_Space",
}
"""What the names of POSIX mean where the flag `U` is set."""
_OF_ONE_CASE = ("Lowercase", "Uppercase", "javaLowerCase", "javaUpperCase")


_TRIED = (
    *range(0x40001),  # of planes 4 to 13, in which Unicode has nothing, one character stands for all
    *range(0xE0000, 0xF0001),  # and of each of the two planes for private use its first one,
    *(0xFFFFE, 0xFFFFF, 0x100000),  # but for two at the end that are no characters
    *(0x10FFFE, 0x10FFFF, 0x110000),
)


@cache
def _ranges(name: str) -> str:
    """The characters of a test or a general category as the inside of brackets; found once, by trying all that may differ."""
    test = _TESTS.get(name) or (lambda c: unicodedata.category(c).startswith(name))
    items: list[str] = []
    first: int | None = None
    for code in _TRIED:
        inside = code <= sys.maxunicode and test(chr(code))
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            items.append(f"\\U{first:08x}-\\U{code - 1:08x}")
            first = None
    return "".join(items)


_KINDS = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfon"}
_CATEGORIES = frozenset({"L", "M", "N", "P", "S", "Z", "C"}) | frozenset(
    f"{group}{kind}" for group, kinds in _KINDS.items() for kind in kinds
)


def property_set(name: str, unicode: bool, ignoring: bool = False) -> str:
    """What `\\p{name}` means, with the flag `U`, and where case is ignored.

    Raises:
        Unsupported: scripts, blocks, unknown names.
    """
    if unicode and name.upper() in _POSIX_OF_UNICODE:
        return _ranges(_without_case(_POSIX_OF_UNICODE[name.upper()], ignoring))
    if name in _POSIX:
        return _POSIX[name]
    if name == "L1":
        return "\\x00-\\xff"
    bare = name.removeprefix("Is").removeprefix("general_category=").removeprefix("gc=")
    if name in _TESTS and name.startswith("java"):
        return _ranges(_without_case(name, ignoring))
    if name.startswith("Is") and bare in _TESTS and bare[0].isupper() and "|" not in bare:
        return _ranges(_without_case(bare, ignoring))
    if bare in _CATEGORIES:
        return _ranges(_without_case(bare, ignoring))
    raise Unsupported(f"the property {name!r} is not supported")


def _without_case(name: str, ignoring: bool) -> str:
    """Where case is ignored, Java takes all cases of a property that means one."""
    if not ignoring:
        return name
    return "cased" if name in _OF_ONE_CASE else "Lu|Ll|Lt" if name in ("Lu", "Ll", "Lt") else name


class ClassReader:
    """Reads escapes and classes of a pattern; `at` is where it stands, for a class behind its '['."""

    def __init__(
        self, source: str, at: int, unicode: bool = False, comments: bool = False, ignoring: bool = False
    ) -> None:
        self.source = source
        self.at = at
        self._unicode = unicode
        self._comments = comments
        self._ignoring = ignoring
        self._depth = 0

    def members(self) -> Members:
        """A class up to its ']'."""
        self._depth += 1
        if self._depth > 50:
            raise Unsupported("classes are nested more than 50 deep")
        negated = self._take("^")
        sets = [self._union(first=True)]
        while self._take("&&"):
            sets.append(self._union(first=False))
        if not self._take("]"):
            raise Unsupported("a class is not closed")
        self._depth -= 1
        sets = [found for found in sets if found != Members()]  # beside '&&' nothing means everything
        if not sets:
            raise Unsupported("a class is empty")
        if len(sets) == 1:
            return Members(sets[0].items, sets[0].others, negated)
        *guards, last = [s.text() for s in sets]
        text = f"(?:{''.join(f'(?={g})' for g in guards)}{last})"
        return Members("", (text,), negated)

    def _take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _union(self, first: bool) -> Members:
        found = Members()
        while self.at < len(self.source):
            char = self.source[self.at]
            if self.source.startswith("&&&", self.at):
                raise Unsupported("'&&&' in a class")
            if self.source.startswith("&&", self.at) or (char == "]" and not first):
                return found
            first = False
            if self._comments and char in " \t\n\x0b\f\r":
                self.at += 1
            elif char == "[":
                self.at += 1
                found = found.joined(self.members())
            else:
                found = found.joined(self._item())
        raise Unsupported("a class is not closed")

    def _item(self) -> Members:
        """A character, a range or an escape."""
        one = self._single()
        if isinstance(one, Members):
            return one
        after = self.source[self.at + 1 : self.at + 2]
        if (
            not self.source.startswith("-", self.at)
            or after in ("]", "[", "")
            or self.source.startswith("-&&", self.at)
        ):
            return one_of(escaped(one))
        self.at += 1
        last = self._single()
        if isinstance(last, Members) or last < one:
            raise Unsupported(f"a range from {one!r} does not end with a later character")
        return one_of(f"{escaped(one)}-{escaped(last)}")

    def _single(self) -> Members | str:
        char = self.source[self.at]
        self.at += 1
        return self._escaped() if char == "\\" else char

    def escape(self) -> Members:
        """An escape behind its backslash, as a set; `at` must stand on the letter."""
        found = self._escaped()
        return found if isinstance(found, Members) else one_of(escaped(found))

    def _escaped(self) -> Members | str:
        if self.at >= len(self.source):
            raise Unsupported("it ends with a backslash")
        char = self.source[self.at]
        self.at += 1
        if char.lower() in _ASCII:
            return self._letter_set(char)
        match char:
            case "p" | "P":
                return one_of(property_set(self._property_name(), self._unicode, self._ignoring), char == "P")
            case "t" | "n" | "r" | "f" | "a" | "e":
                return {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}[char]
            case "u":
                return self._code_unit()
            case "x":
                return self._hexadecimal()
            case "0":
                return self._octal()
            case "c":
                return chr(ord(self._next()) ^ 64)
            case _ if char.isascii() and char.isalpha():
                raise Unsupported(f"\\{char} means nothing here")
            case _:
                return char

    def _letter_set(self, char: str) -> Members:
        low = char.lower()
        if self._unicode and low in "dws":
            name = {"d": "Digit", "w": "word", "s": "White_Space"}[low]
            return one_of(_ranges(name), char != low)
        return one_of(_ASCII[low], char != low)

    def _next(self) -> str:
        if self.at >= len(self.source):
            raise Unsupported("it ends within an escape")
        self.at += 1
        return self.source[self.at - 1]

    def _property_name(self) -> str:
        if self._take("{"):
            end = self.source.find("}", self.at)
            if end < 0:
                raise Unsupported("\\p{ is not closed")
            name = self.source[self.at : end]
            self.at = end + 1
            return name
        return self._next()

    def _digits(self, count: int, digits: str) -> str:
        taken = self.source[self.at : self.at + count]
        if len(taken) < count or any(c not in digits for c in taken):
            raise Unsupported(f"an escape needs {count} digits, found {taken!r}")
        self.at += count
        return taken

    def _code_unit(self) -> str:
        """`\\uhhhh`; two surrogates one after the other are one character."""
        high = int(self._digits(4, "0123456789abcdefABCDEF"), 16)
        if 0xD800 <= high < 0xDC00 and self._take("\\u"):
            low = int(self._digits(4, "0123456789abcdefABCDEF"), 16)
            return chr(0x10000 + (high - 0xD800 << 10) + (low - 0xDC00))
        return chr(high)

    def _hexadecimal(self) -> str:
        if not self._take("{"):
            return chr(int(self._digits(2, "0123456789abcdefABCDEF"), 16))
        end = self.source.find("}", self.at)
        text = self.source[self.at : end] if end >= 0 else ""
        if not text or any(c not in "0123456789abcdefABCDEF" for c in text) or int(text, 16) > sys.maxunicode:
            raise Unsupported("\\x{…} needs the number of a character")
        self.at = end + 1
        return chr(int(text, 16))

    def _octal(self) -> str:
        taken = ""
        while (
            len(taken) < 3
            and self.source[self.at : self.at + 1] in tuple("01234567")
            and int(taken + self.source[self.at], 8) < 256
        ):
            taken += self._next()
        if not taken:
            raise Unsupported("\\0 needs octal digits")
        return chr(int(taken, 8))
