"""Text to tokens. Never stops at an error: what has no meaning is reported and left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from nadi.errors import NadiError, Span, error
from nadi.lang.tokens import Kind, Token
from nadi.lang.tree import Comment

_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r\n\v]+ )
    | (?P<name> [A-Za-z_][A-Za-z_0-9]* )
    | (?P<comment> --[^\r\n]* | /\* [\s\S]*? (?: \*/ | \Z ) )
    | (?P<float> (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][-+]?[0-9]+ )? [fF] )
    | (?P<double> (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][-+]?[0-9]+ )? [dD]
                | [0-9]+ (?: \.[0-9]* )? [eE][-+]?[0-9]+
                | [0-9]*\.[0-9]+ )
    | (?P<long> [0-9]+[lL] )
    | (?P<int> [0-9]+ )
    | (?P<operator> \.\.\. | -> | == | != | <= | >= | [:;.()\[\],=*+?\-/%<>@\#!] )
    | (?P<triple> \"{3} (?: \\[\s\S] | (?! \"{3} ) [^\\] )* \"{3} )
    | (?P<string> ' [^\x00-\x1f'"]* ' | (?! \"{3} ) " [^\x00-\x1f"]* " )
    | (?P<quoted> ` [^`]* ` )
    """,
    re.VERBOSE,
)
MOST_CHARACTERS = 2_000_000
"""In a text. An app of 10,000 queries has a quarter of it."""
MOST_ERRORS = 100
"""That are told of one text; reading stops there, so that any text is answered in time that grows with its length."""

VARIABLE = re.compile(r"\$\{(\w+)\}")
"""A place that a value stands for."""

MOST_UNCLOSED = 5

_ESCAPE = re.compile(r"\\(?:([btnfr\"'\\])|u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2}))")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_IN_SCRIPT = re.compile(
    r"""[{}] | "(?:\\.|[^"\\\r\n])*" | '(?:\\.|[^'\\\r\n])*' | //[^\r\n]* | /\*[\s\S]*?\*/""",
    re.VERBOSE,
)
_BRACE = re.compile(r"[{}]")


@dataclass(slots=True)
class Lexed:
    """The tokens of a text (the last one is of kind "end"), its comments, and what could not be read."""

    tokens: list[Token] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    errors: list[NadiError] = field(default_factory=list)


def unescape(text: str) -> str:
    """The inside of a `\"\"\"…\"\"\"` literal with its escapes (those of Java) read; a backslash before anything else stays."""

    def plain(found: re.Match[str]) -> str:
        simple, unicode, octal = found.groups()
        if simple:
            return _ESCAPED.get(simple, simple)
        return chr(int(unicode, 16)) if unicode else chr(int(octal, 8))

    return _ESCAPE.sub(plain, text) if "\\" in text else text


def literal_value(literal: str, variables: Mapping[str, str]) -> str:
    """The value of a string literal with its quotes. Of `${name}` in it that of the variable, whatever is in it; names without one stay as they are.

    >>> literal_value("'to ${city}'", {"city": "it's"}), literal_value("'to ${city}'", {})
    ("to it's", 'to ${city}')
    """
    triple = literal.startswith('"""')
    inside = literal[3:-3] if triple else literal[1:-1]
    parts = VARIABLE.split(inside) if variables else [inside]  # texts and names in turn
    return "".join(
        variables.get(part, f"${{{part}}}") if i % 2 else (unescape(part) if triple else part)
        for i, part in enumerate(parts)
    )


def script_end(text: str, start: int) -> int:
    """The offset after the brace that closes the one at `start`, or -1.

    Braces in strings and comments of the script do not count, unless that leaves the body open: an apostrophe in a
    comment of a language with other comment marks must not swallow the rest of the app.
    """
    for pattern in (_IN_SCRIPT, _BRACE):
        depth = 0
        for found in pattern.finditer(text, start):
            brace = found.group()
            depth += (brace == "{") - (brace == "}")
            if depth == 0:
                return found.end()
    return -1


class _Lexer:
    """Holds the place in the text: offset, line, and where the line starts."""

    __slots__ = ("file", "lexed", "line", "line_start", "text", "unclosed", "variables")

    def __init__(self, text: str, file: str, variables: Mapping[str, str]) -> None:
        self.text, self.file, self.variables = text, file, variables
        self.line, self.line_start = 1, 0
        self.lexed = Lexed()
        self.unclosed = 0

    def run(self) -> Lexed:
        text, match, tokens = self.text, _TOKEN.match, self.lexed.tokens
        position = 1 if text.startswith("\ufeff") else 0
        while position < len(text):
            found = match(text, position)
            if found is None:
                if len(self.lexed.errors) >= MOST_ERRORS:
                    break
                position = self.irregular(position)
                continue
            kind, end = cast("str", found.lastgroup), found.end()
            if kind == "blank":
                self.count_lines(position, end)
            elif kind == "name":
                word = found.group()
                column = position - self.line_start + 1
                tokens.append(
                    Token(
                        "name",
                        word.lower(),
                        word,
                        word,
                        position,
                        end,
                        self.line,
                        column,
                        self.line,
                        column + end - position,
                    )
                )
            elif kind == "comment":
                self.comment(position, end)
            else:
                self.literal(kind, position, end)
            position = end
        self.add("end", "", "", "", len(text), len(text))
        return self.lexed

    def count_lines(self, start: int, end: int) -> None:
        """Move the line counter over text[start:end]."""
        newlines = self.text.count("\n", start, end)
        if newlines:
            self.line += newlines
            self.line_start = self.text.rfind("\n", start, end) + 1

    def place(self, start: int, end: int) -> Span:
        """The span of text[start:end], which starts where the lexer is; moves on to its end."""
        line, column = self.line, start - self.line_start + 1
        self.count_lines(start, end)
        return Span(start, end, line, column, self.line, end - self.line_start + 1)

    def add(self, kind: Kind, word: str, text: str, value: str, start: int, end: int) -> None:
        at = self.place(start, end)
        self.lexed.tokens.append(
            Token(kind, word, text, value, start, end, at.line, at.column, at.end_line, at.end_column)
        )

    def literal(self, group: str, start: int, end: int) -> None:
        text = self.text[start:end]
        match group:
            case "operator":
                self.add("operator", text, text, text, start, end)
            case "triple" | "string":
                self.add("string", "", text, literal_value(text, self.variables), start, end)
            case "quoted":
                self.add("quoted", "", text, text[1:-1], start, end)
            case _:
                self.add(cast("Kind", group), "", text, text, start, end)

    def comment(self, start: int, end: int) -> None:
        own_line = not self.text[self.line_start : start].strip(" \t\r\v\ufeff")
        span = self.place(start, end)
        self.lexed.comments.append(Comment(self.text[start:end], len(self.lexed.tokens), own_line, span=span))

    def irregular(self, start: int) -> int:
        """Read a function body, or report what cannot be read; the offset to go on from."""
        text, character = self.text, self.text[start]
        if character == "{":
            # to look for the end goes through the whole text; after a few that have none it is not looked for any more
            end = script_end(text, start) if self.unclosed < MOST_UNCLOSED else -1
            self.unclosed += end < 0
            if end > 0:
                self.add("script", "", text[start:end], text[start + 1 : end - 1], start, end)
                return end
            self.report("UNTERMINATED", start, start + 1, what="the body of the function", closer="'}'")
            return start + 1
        if text.startswith('"""', start):
            return self.unterminated("the text", '\'"""\'', start, len(text))
        if character == "`":
            return self.unterminated("the quoted name", "'`'", start, self.line_end(start))
        if character in "'\"":
            return self.broken_string(start)
        self.report("UNKNOWN_CHARACTER", start, start + 1, found=repr(character))
        self.count_lines(start, start + 1)
        return start + 1

    def broken_string(self, start: int) -> int:
        """A string that stops at the end of its line, or a '…' with a " in it."""
        quote, end = self.text[start], self.line_end(start)
        closing = self.text.find(quote, start + 1, end)
        if closing > 0:
            self.report("STRING_CHARACTER", start, closing + 1, quote="single" if quote == "'" else "double")
            self.add("string", "", self.text[start : closing + 1], self.text[start + 1 : closing], start, closing + 1)
            return closing + 1
        return self.unterminated("the string", f"{quote} on the same line", start, end)

    def unterminated(self, what: str, closer: str, start: int, end: int) -> int:
        self.report("UNTERMINATED", start, end, what=what, closer=closer)
        self.add("string", "", self.text[start:end], self.text[start + 1 : end], start, end)
        return end

    def line_end(self, start: int) -> int:
        end = self.text.find("\n", start)
        end = len(self.text) if end < 0 else end
        return end - 1 if self.text[end - 1 : end] == "\r" else end

    def report(self, condition: str, start: int, end: int, **parameters: object) -> None:
        line, line_start = self.line, self.line_start
        span = self.place(start, end)
        self.line, self.line_start = line, line_start
        self.lexed.errors.append(error(condition, span, self.text, self.file, **parameters))


def tokenise(text: str, file: str = "", variables: Mapping[str, str] | None = None) -> Lexed:
    """All tokens of a text, its comments, and an error for each place that cannot be read (the first MOST_ERRORS of them).

    `variables` are the values of `${name}` in strings; the text of a token, and of errors, has the place still.

    Of a text of more than MOST_CHARACTERS nothing is read.
    """
    if len(text) > MOST_CHARACTERS:
        span = Span(0, 1, 1, 1, 1, 2)
        lexed = _Lexer("", file, {}).run()
        lexed.errors.append(
            error("TEXT_TOO_LONG", span, text[:80], file, length=f"{len(text):,}", limit=f"{MOST_CHARACTERS:,}")
        )
        return lexed
    return _Lexer(text, file, variables or {}).run()
