"""Regular expressions of `java.util.regex`, run by engines whose steps are bounded (`nadi.functions.boundedpatterns`).

`compiled(pattern)` writes in Python's syntax what differs: named groups `(?<n>…)` and `\\k<n>`, `\\Q…\\E`, `\\z`, `\\Z`, `\\h`, `\\v`, `\\R`, `\\e`, `\\cX`,
`\\0n`, `\\x{h}`, `\\p{…}` (POSIX, general categories, java…), unions, intersections and nested sets in classes, flags in the middle of a pattern, comments
mode, line ends (Java's `.` and `$` know `\\r`, `\\u0085`, `\\u2028` and `\\u2029` too). As in Java, `\\d`, `\\w`, `\\s` and ignoring case mean ASCII unless the
flags `u` or `U` say otherwise. Possessive quantifiers and atomic groups are the same in both.

Refused with a sentence: `\\G`, `\\X`, `\\N{…}`, `\\b{g}`, scripts and blocks in `\\p{…}`, look-behind of no fixed width, references to open groups,
patterns that may take exponential time (`nadi.functions.backtracking`), and those that this Python misreads (`nadi.functions.possessive`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from nadi.functions.backtracking import DOUBLES, TooManyWays, doubling
from nadi.functions.boundedpatterns import Found, Pattern
from nadi.functions.javaclasses import ClassReader, Unsupported, escaped
from nadi.functions.linearpatterns import BEFORE_END
from nadi.functions.possessive import MISREAD, is_misread

_LINE_ENDS = "\\n\\r\\x85\\u2028\\u2029"
_LINE_START = "(?:\\A|(?:(?<=[\\n\\x85\\u2028\\u2029])|(?<=\\r)(?!\\n))(?!\\Z))"
_LINE_STOP = "(?=[\\r\\x85\\u2028\\u2029]|\\Z|(?<!\\r)\\n)"
_NEWLINE = "(?:\\r\\n|[\\n\\x0b\\x0c\\r\\x85\\u2028\\u2029])"
_FLAGS = frozenset("idmsuxU")
LONGEST = 64 * 2**20  # characters of a text that a replacement makes
DEEPEST = 50  # groups within groups: without a limit Python's own one on frames decides, which depends on who calls

SHOWN = 200  # characters of a pattern that an error repeats: it may come with an event


class PatternError(ValueError):
    """A pattern that Java would not take, or that cannot be translated; the text says where and why."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Pattern:
    """A Java pattern as one of Python's syntax, whose time is bounded.

    >>> compiled("(?<year>\\\\d{4})-\\\\k<year>").match("2024-2024")[1]
    '2024'
    >>> bool(compiled("[a-z&&[^aeiou]]+").fullmatch("rhythm"))
    True

    Raises:
        PatternError: see the class.
    """
    try:
        translated = _Translation(pattern).run()
        made = Pattern(translated, re.ASCII, pattern)
        if doubling(translated, re.ASCII):
            raise Unsupported(DOUBLES)
        if is_misread(translated, re.ASCII):
            raise Unsupported(MISREAD)
    except (re.error, Unsupported, TooManyWays, OverflowError) as reason:
        raise _unusable(pattern, str(reason)) from reason
    return made


def _unusable(pattern: str, reason: str) -> PatternError:
    shown = pattern if len(pattern) <= SHOWN else f"{pattern[:SHOWN]}…"
    return PatternError(f"the pattern {shown!r} cannot be used: {reason}")


class _Translation:
    """One pass over a pattern. `flags` are those in force; groups that they opened are closed with the group they stand in."""

    def __init__(self, pattern: str) -> None:
        self.source = pattern
        self.at = 0
        self.out: list[str] = []
        self.flags = frozenset[str]()
        self.groups = 0
        self.stack: list[tuple[frozenset[str], int]] = []
        self.opened = 0  # how many flag groups stand open at this level

    def run(self) -> str:
        while self.at < len(self.source):
            self._step()
        if self.stack:
            raise Unsupported("a group is not closed")
        self._close_flags()
        return "".join(self.out)

    def _step(self) -> None:
        char = self.source[self.at]
        if "x" in self.flags and (char in " \t\n\x0b\f\r" or char == "#"):
            self._skip(char)
            return
        self.at += 1
        match char:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._alternative()
            case ".":
                self.out.append(
                    "[\\s\\S]" if "s" in self.flags else "[^\\n]" if "d" in self.flags else f"[^{_LINE_ENDS}]"
                )
            case "^":
                self.out.append(_LINE_START if "m" in self.flags else "\\A")
            case "$":
                self.out.append(_LINE_STOP if "m" in self.flags else BEFORE_END)
            case "{":
                self._repeat()
            case "*" | "+" | "?":
                self.out.append(char)
            case _:
                self.out.append(escaped(char))

    def _skip(self, char: str) -> None:
        """White space and comments of the flag x."""
        if char != "#":
            self.at += 1
            return
        end = self.source.find("\n", self.at)
        self.at = len(self.source) if end < 0 else end

    def _repeat(self) -> None:
        found = re.compile(r"[0-9]+(?:,[0-9]*)?\}").match(self.source, self.at)
        if found is None:
            raise Unsupported(f"'{{' at {self.at} begins no count")
        self.out.append("{" + found[0])
        self.at = found.end()

    # ---- groups and flags

    def _alternative(self) -> None:
        """A flag set in the middle holds for the following alternatives too."""
        self.out.append(")" * self.opened + "|")
        if self.opened:
            self.out.append(_flag_group(self.flags))
            self.opened = 1

    def _close_flags(self) -> None:
        self.out.append(")" * self.opened)
        self.opened = 0

    def _check_depth(self) -> None:
        if len(self.stack) + self.opened + sum(opened for _flags, opened in self.stack) > DEEPEST:
            raise Unsupported(f"groups are nested more than {DEEPEST} deep")

    def _close(self) -> None:
        if not self.stack:
            raise Unsupported(f"')' at {self.at - 1} closes nothing")
        self._close_flags()
        self.flags, self.opened = self.stack.pop()
        self.out.append(")")

    def _enter(self, head: str, flags: frozenset[str] | None = None) -> None:
        self.stack.append((self.flags, self.opened))
        self.opened = 0
        self.flags = self.flags if flags is None else flags
        self.out.append(head)
        self._check_depth()

    def _open(self) -> None:
        rest = self.source[self.at :]
        if not rest.startswith("?"):
            self.groups += 1
            self._enter("(")
            return
        for head in ("?:", "?=", "?!", "?<=", "?<!", "?>"):
            if rest.startswith(head):
                self.at += len(head)
                self._enter("(" + head)
                return
        if named := re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>").match(rest):
            self.groups += 1
            self.at += named.end()
            self._enter(f"(?P<{named[1]}>")
            return
        switch = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(rest)
        if switch is None or not set(switch[1] + (switch[2] or "")) <= _FLAGS:
            raise Unsupported(f"'({rest[:3]}' is no group of Java")
        self.at += switch.end()
        flags = (self.flags | frozenset(switch[1])) - frozenset(switch[2] or "")
        if switch[3] == ":":
            self._enter(_flag_group(flags), flags)
        elif flags != self.flags:
            self.flags = flags
            self.out.append(_flag_group(flags))
            self.opened += 1
            self._check_depth()

    # ---- escapes

    def _escape(self) -> None:
        if self.at >= len(self.source):
            raise Unsupported("it ends with a backslash")
        char = self.source[self.at]
        self.at += 1
        match char:
            case "Q":
                end = self.source.find("\\E", self.at)
                end = len(self.source) if end < 0 else end
                self.out.append("".join(map(escaped, self.source[self.at : end])))
                self.at = min(end + 2, len(self.source))
            case "E":
                raise Unsupported("\\E without \\Q")
            case "k":
                self._named_reference()
            case "A" | "B" | "b":
                if self.source.startswith("{", self.at):
                    raise Unsupported(f"\\{char}{{…}} is not supported")
                self.out.append(f"\\{char}")
            case "z":
                self.out.append("\\Z")
            case "Z":
                self.out.append(BEFORE_END)
            case "R":
                self.out.append(_NEWLINE)
            case "G" | "X" | "N":
                raise Unsupported(f"\\{char} is not supported")
            case _ if char in "123456789":
                self._reference(char)
            case _:
                reader = ClassReader(self.source, self.at - 1, "U" in self.flags, ignoring="i" in self.flags)
                found = reader.escape()
                self.at = reader.at
                self.out.append(found.text())

    def _named_reference(self) -> None:
        found = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self.source, self.at)
        if found is None:
            raise Unsupported("\\k needs the name of a group: \\k<name>")
        self.at = found.end()
        self.out.append(f"(?P={found[1]})")

    def _reference(self, digits: str) -> None:
        """As many digits as make the number of a group that there is; a group that does not exist never matches."""
        while self.at < len(self.source) and self.source[self.at] in "0123456789":
            longer = digits + self.source[self.at]
            if int(longer) > self.groups:
                break
            digits = longer
            self.at += 1
        self.out.append(f"(?:\\{digits})" if int(digits) <= self.groups else "(?!)")

    def _class(self) -> None:
        reader = ClassReader(self.source, self.at, "U" in self.flags, "x" in self.flags, "i" in self.flags)
        found = reader.members()
        self.at = reader.at
        self.out.append(found.text())


def _flag_group(flags: frozenset[str]) -> str:
    """The head of a group with the flags that Python has to know; the others are written out."""
    if "i" not in flags:
        return "(?-i:" if not flags & {"u", "U"} else "(?u-i:"
    return "(?iu:" if flags & {"u", "U"} else "(?i:"


# ---- replacing and splitting ---------------------------------------------------------------------------------------


def replaced(pattern: Pattern, text: str, replacement: str, count: int = 0) -> str:
    """`Matcher.replaceAll`, or the first `count`. `$1` and `${name}` are groups, a backslash takes what follows as it is. As in Java nobody looks at the
    replacement where nothing matches.

    >>> replaced(compiled("(\\\\w+)@(\\\\w+)"), "ann@work", "$2: $1")
    'work: ann'

    Raises:
        PatternError: something matches, and the replacement names a group that the pattern has not; or the text would become too long.
    """

    def put(found: Found | re.Match[str]) -> str:
        parts = _replacement(pattern, replacement)
        return "".join(p if isinstance(p, str) else found[p[0]] or "" for p in parts)

    parts: list[str] = []
    begin = length = 0
    for number, found in enumerate(pattern.finditer(text), 1):
        parts += text[begin : found.start()], put(found)
        begin = found.end()
        length += len(parts[-1])
        if length > LONGEST:
            raise PatternError(f"what is put in has more than {LONGEST} characters")
        if number == count:
            break
    return "".join(parts) + text[begin:]


@lru_cache(maxsize=1024)
def _replacement(pattern: Pattern, replacement: str) -> tuple[str | tuple[int], ...]:
    parts: list[str | tuple[int]] = []
    at = 0
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            if at == len(replacement):
                raise PatternError("the replacement ends with a backslash")
            parts.append(replacement[at])
            at += 1
        elif char == "$":
            group, at = _group_reference(pattern, replacement, at)
            parts.append((group,))
        else:
            parts.append(char)
    return tuple(parts)


def _group_reference(pattern: Pattern, replacement: str, at: int) -> tuple[int, int]:
    if named := re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(replacement, at):
        if named[1] not in pattern.groupindex:
            raise PatternError(f"the pattern has no group {named[1]!r}")
        return pattern.groupindex[named[1]], named.end()
    if at >= len(replacement) or replacement[at] not in "0123456789":
        raise PatternError("'$' in a replacement must name a group; write '\\$' for the sign")
    number = int(replacement[at])
    if number > pattern.groups:
        raise PatternError(f"the pattern has no group {number}")
    at += 1
    while at < len(replacement) and replacement[at] in "0123456789":
        longer = number * 10 + int(replacement[at])
        if longer > pattern.groups:
            break
        number, at = longer, at + 1
    return number, at


def split(pattern: Pattern, text: str) -> list[str]:
    """`Pattern.split`: empty parts at the end are left out, and one before a match of no width at the beginning.

    >>> split(compiled(","), "a,,b,,"), split(compiled(""), "ab")
    (['a', '', 'b'], ['a', 'b'])
    """
    parts: list[str] = []
    begin = 0
    for found in pattern.finditer(text):
        if found.end() == 0:
            continue
        parts.append(text[begin : found.start()])
        begin = found.end()
    if not parts:
        return [text]
    parts.append(text[begin:])
    while parts and not parts[-1]:
        parts.pop()
    return parts
