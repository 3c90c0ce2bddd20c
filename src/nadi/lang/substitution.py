"""`${name}` in the text of an app.

What a value may do depends on where it stands. Inside a string it can be any text, and is written so that it cannot end the string. Elsewhere it is a name, a
number or a time. Comments and the bodies of functions are left alone: `${…}` is JavaScript there.

Values in the strings of `@source`, `@sink` and `@store` say how to reach others, and may be secrets. `settled` leaves their places in the text, so that what is
stored or shown of an app does not have them; whoever plans the app has them beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nadi.errors import NadiError, Span, error
from nadi.lang.lexer import MOST_ERRORS, MOST_UNCLOSED, VARIABLE, literal_value, script_end
from nadi.lang.literals import string_text

_STRETCH = re.compile(
    r"""
      (?P<comment> --[^\r\n]* | /\*[\s\S]*?(?:\*/|\Z) )
    | (?P<triple> \"{3} (?: \\[\s\S] | (?! \"{3} ) [^\\] )* \"{3} )
    | (?P<unclosed> \"{3} )
    | (?P<string> ' [^\x00-\x1f'"]* ' | (?! \"{3} ) " [^\x00-\x1f"]* " )
    | (?P<quoted> ` [^`]* ` )
    | (?P<variable> \$\{\w+\} )
    | (?P<script> \{ )
    | (?P<connection> @ \s* (?: source | sink | store ) \s* \( )
    | (?P<opening> \( )
    | (?P<closing> \) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""The stretches of a text that matter here; those of the lexer are written as it has them."""

WHICH = (
    "type", "ref", "file.uri", "dir.uri", "topic", "topic.list", "partition.no.list", "destination", "subject",
)  # fmt: skip
"""Options that say what a connection is or which log it reads, not how it is reached: an app with another value is another app."""

_KIND = re.compile(rf"\b(?:{'|'.join(map(re.escape, WHICH))})\s*=\s*\Z", re.IGNORECASE)
"""Before the value of such an option."""

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?[lLfFdD]?"
_PLAIN = re.compile(rf"{_NUMBER}|[A-Za-z_][A-Za-z_0-9]*|[0-9]+ [A-Za-z]+(?: (?:and )?[0-9]+ [A-Za-z]+)*")
_CLOSES_NAME = re.compile(r"[`\x00-\x1f]")


@dataclass(slots=True)
class _Filled:
    """What has been made of a text so far."""

    pieces: list[str] = field(default_factory=list)
    errors: list[NadiError] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)


def substitute(text: str, variables: Mapping[str, str], *, file: str = "") -> str:
    """The text with every `${name}` replaced by the variable's value; values are not searched again.

    Raises:
        SiddhiParserException: VARIABLE_NOT_SET, VARIABLE_NOT_PLAIN, for the first name to which it applies.

    >>> substitute("define stream ${name} (a int);", {"name": "S"})
    'define stream S (a int);'
    >>> substitute("from S[a == '${city}'] select a insert into T;", {"city": "x'] delete"})
    'from S[a == "x\\'] delete"] select a insert into T;'
    """
    replaced, errors = substitute_collecting(text, variables, file=file)
    if errors:
        raise errors[0]
    return replaced


def substitute_collecting(
    text: str, variables: Mapping[str, str], *, file: str = ""
) -> tuple[str, tuple[NadiError, ...]]:
    """As `substitute`, but names without a value that fits become their own name, and are reported (the first MOST_ERRORS of them)."""
    found = _filled(text, variables, file, keeping=False)
    return "".join(found.pieces), tuple(found.errors)


def settled(text: str, variables: Mapping[str, str], *, file: str = "") -> tuple[str, dict[str, str]]:
    """The text with all values but those of connections, and the values of these.

    Raises:
        SiddhiParserException: as `substitute`.

    >>> settled("@sink(type='http', publisher.url='${u}') define stream S (${n} int);", {"u": "http://a", "n": "a"})
    ("@sink(type='http', publisher.url='${u}') define stream S (a int);", {'u': 'http://a'})
    """
    kept, connections, errors = settled_collecting(text, variables, file=file)
    if errors:
        raise errors[0]
    return kept, connections


def settled_collecting(
    text: str, variables: Mapping[str, str], *, file: str = ""
) -> tuple[str, dict[str, str], tuple[NadiError, ...]]:
    """As `settled`, with all errors, as `substitute_collecting` has them."""
    found = _filled(text, variables, file, keeping=True)
    return "".join(found.pieces), found.kept, tuple(found.errors)


def _filled(text: str, variables: Mapping[str, str], file: str, keeping: bool) -> _Filled:
    made = _Filled()
    place, copied, unclosed = 0, 0, 0
    depth = 0  # of brackets within an annotation of a connection
    if "${" not in text:
        made.pieces.append(text)
        return made
    while found := _STRETCH.search(text, place):
        kind, stretch, place = str(found.lastgroup), found.group(), found.end()
        if kind == "unclosed":
            break  # to the end of the text it is a string that is not closed, which is an error
        if kind == "script":
            # to look for the end goes through the whole text; after a few that have none it is not looked for any more
            end = script_end(text, found.start()) if unclosed < MOST_UNCLOSED else -1
            unclosed += end < 0
            place = end if end > 0 else place
        elif kind in ("connection", "opening"):
            depth += kind == "connection" or depth > 0
        elif kind == "closing":
            depth -= depth > 0
        elif kind != "comment" and VARIABLE.search(stretch):
            made.pieces.append(text[copied : found.start()])
            copied = place
            keeps = keeping and depth > 0 and kind in ("string", "triple") and not _is_kind(text, found.start())
            made.pieces.append(_with_values(made, found, variables, file, keeps))
    made.pieces.append(text[copied:])
    return made


def _with_values(made: _Filled, found: re.Match[str], variables: Mapping[str, str], file: str, keeps: bool) -> str:
    """A literal or a variable with its values; one that `keeps` its places stays as it is."""
    text, kind, stretch = found.string, found.lastgroup, found.group()
    values: dict[str, str] = {}
    for place in VARIABLE.finditer(stretch):
        name, start = place[1], found.start() + place.start()
        value, problem = variables.get(name), ""
        if value is None:
            problem = "VARIABLE_NOT_SET"
        elif kind in ("variable", "quoted") and not _fits(value, kind, text[start - 1 : start]):
            problem = "VARIABLE_NOT_PLAIN"
        if problem and len(made.errors) < MOST_ERRORS:
            span = _span(text, start, found.start() + place.end())
            made.errors.append(error(problem, span, text, file, name=name))
        values[name] = name if problem or value is None else value
    if keeps:
        made.kept |= values
        return stretch
    if kind in ("variable", "quoted"):
        return VARIABLE.sub(lambda place: values[place[1]], stretch)
    return string_text(literal_value(stretch, values))


def _is_kind(text: str, start: int) -> bool:
    """Whether the string that starts there says what a connection is."""
    return _KIND.search(text, max(0, start - 50), start) is not None


def _fits(value: str, kind: str, before: str) -> bool:
    """Whether a value is one token, or a time, where it stands."""
    if kind == "quoted":
        return not _CLOSES_NAME.search(value)
    return _PLAIN.fullmatch(value) is not None and not (value.startswith("-") and before == "-")


def _span(text: str, start: int, end: int) -> Span:
    """The span of a stretch inside one line."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(start, end, line, column, line, column + end - start)
