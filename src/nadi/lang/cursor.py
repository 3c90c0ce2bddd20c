"""The place in the tokens while parsing: look, accept, expect; spans and error messages.

Whatever was asked for in vain at a place is remembered, so that an error there can tell all that was expected.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NoReturn

from nadi.errors import NadiError, Span, error
from nadi.lang.lexer import Lexed
from nadi.lang.tokens import KEYWORDS, Token

MAX_DEPTH = 100
"""How deep brackets may be nested."""

MAX_HEIGHT = 200
"""How deep the tree of one expression may be, where a chain such as `a or b or c` counts once, however long it is."""

MAX_CHAIN = 10_000
"""How many operators of one precedence may follow each other."""


class Cursor:
    """Walks over the tokens of one text."""

    __slots__ = (
        "depth",
        "errors",
        "file",
        "height",
        "lexical",
        "position",
        "source",
        "token",
        "tokens",
        "tried",
        "tried_at",
        "word",
    )

    def __init__(self, lexed: Lexed, source: str, file: str = "") -> None:
        self.tokens = lexed.tokens
        self.lexical = lexed.errors
        self.errors: list[NadiError] = list(lexed.errors)
        self.source, self.file = source, file
        self.depth = 0
        self.height = 0  # of the expression parsed last
        self.tried: list[str] = []
        self.tried_at = 0
        self.go_to(0)

    # ---- looking and moving ----

    def go_to(self, position: int) -> None:
        """Continue at a token."""
        self.position = position
        self.token = self.tokens[position]
        self.word = self.token.word

    def advance(self) -> Token:
        """Take the current token, whatever it is. The end of the text is never passed."""
        taken = self.token
        if taken.kind != "end":
            self.position += 1
            self.token = self.tokens[self.position]
            self.word = self.token.word
        return taken

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` places further on."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def try_for(self, what: str) -> None:
        """Remember what could stand here."""
        if self.tried_at != self.position:
            self.tried, self.tried_at = [], self.position
        if what not in self.tried:
            self.tried.append(what)

    def accept(self, word: str, shown: str = "") -> bool:
        """Take the keyword or operator if it stands here."""
        if self.word == word:
            self.advance()
            return True
        self.try_for(f"'{shown or word}'")
        return False

    def accept_any(self, *words: str) -> str:
        """Take one of the keywords or operators if it stands here; which, or ""."""
        if self.word and self.word in words:
            return self.advance().word
        for word in words:
            self.try_for(f"'{word}'")
        return ""

    def expect(self, word: str, shown: str = "") -> Token:
        """Take the keyword or operator, which must stand here."""
        if self.word != word:
            self.fail(f"'{shown or word}'")
        return self.advance()

    def name(self, what: str = "a name") -> str:
        """Take a name."""
        if not self.token.is_name:
            self.fail(what)
        return self.advance().value

    def string(self, what: str = "a string") -> str:
        """Take a string literal."""
        if self.token.kind != "string":
            self.fail(what)
        return self.advance().value

    # ---- spans ----

    def span(self, start: int) -> Span:
        """From the token at position `start` to the token taken last."""
        first, last = self.tokens[start], self.tokens[max(start, self.position - 1)]
        return Span(first.start, last.end, first.line, first.column, last.end_line, last.end_column)

    # ---- depth ----

    def enter(self) -> None:
        """Go one level deeper; `leave` goes back."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("TOO_DEEP", self.token.span, limit=MAX_DEPTH, what="levels of brackets")

    def leave(self) -> None:
        """Back from `enter`."""
        self.depth -= 1

    def grown(self, height: int) -> None:
        """Note the height of the expression just made."""
        if height > MAX_HEIGHT:
            raise self.error("TOO_DEEP", self.token.span, limit=MAX_HEIGHT, what="operators within each other")
        self.height = height

    def chained(self, operators: int) -> None:
        """Note the length that a chain has reached."""
        if operators > MAX_CHAIN:
            raise self.error("TOO_DEEP", self.token.span, limit=MAX_CHAIN, what="operators in a chain")

    # ---- errors ----

    def error(self, condition: str, span: Span, **parameters: object) -> NadiError:
        """An exception about a place in this text."""
        return error(condition, span, self.source, self.file, **parameters)

    def failure(self, *expected: str) -> NadiError:
        """The syntax error at the current token: everything tried here and `expected` could have stood here."""
        for what in expected:
            self.try_for(what)
        return self.syntax_error(self.token, self.tried)

    def fail(self, *expected: str) -> NoReturn:
        """Raise that error."""
        raise self.failure(*expected)

    def collect(self, problem: NadiError, begin: int) -> None:
        """Note the error of a statement that began at a position, unless a character or string that could not be read explains it."""
        start, end = self.tokens[begin].start, problem.diagnostic.span.end
        if not any(start <= e.diagnostic.span.start < end for e in self.lexical):
            self.errors.append(problem)

    def fail_at(self, position: int, *expected: str) -> NoReturn:
        """Raise a syntax error at an earlier token."""
        raise self.syntax_error(self.tokens[position], list(expected))

    def syntax_error(self, token: Token, expected: list[str]) -> NadiError:
        """The error for a token that is none of what was expected; names the keyword that may be meant."""
        options = _one_of(expected)
        keywords = [k for what in expected for k in what.strip("'").split()[:1] if what[0] == "'" and k in KEYWORDS]
        if token.kind == "name" and (near := _misspelt(token.word, keywords)):
            return self.error("MISSPELT_KEYWORD", token.span, found=token.shown, expected=options, keyword=near)
        return self.error("SYNTAX", token.span, found=token.shown, expected=options)


def _one_of(expected: list[str]) -> str:
    """`a, b or c`."""
    return expected[0] if len(expected) == 1 else ", ".join(expected[:-1]) + " or " + expected[-1]


def _misspelt(word: str, keywords: list[str]) -> str:
    """The keyword that `word` may be meant for, or ""."""
    ratio, near = max(((SequenceMatcher(None, word, k).ratio(), k) for k in keywords), default=(0.0, ""))
    return near if ratio >= 0.7 and word != near else ""
