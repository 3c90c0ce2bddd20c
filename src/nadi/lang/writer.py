"""What the printer writes on: tokens with blanks between them, into which the comments are put at the end.

A token knows the offset it had in the text it was read from, if it is the first or last one of a node. A comment is put before
the first token that came after it there. Printing what was printed gives the same text again, because the same tokens know
their offsets then.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree import Comment

INDENT = "    "


@dataclass(slots=True)
class _Piece:
    """A token: the line breaks or the blank before it, the text, its offset in the source (-1 unknown), the indentation of its line."""

    breaks: int
    blank: bool
    text: str
    offset: int
    indent: int


class Writer:
    """Collects tokens; `text` puts them together. A flat writer breaks no lines."""

    __slots__ = ("_blank", "_breaks", "_offset", "_pieces", "flat", "indent")

    def __init__(self, *, flat: bool = False) -> None:
        self.flat = flat
        self.indent = 0
        self._pieces: list[_Piece] = []
        self._breaks, self._blank, self._offset = 0, False, -1

    def open(self, span: Span) -> None:
        """The next token is the first one of a node."""
        self._offset = max(self._offset, span.start if span.line else -1)

    def close(self, span: Span) -> None:
        """The last token was the last one of a node."""
        if self._pieces and span.line:
            last = self._pieces[-1]
            last.offset = max(last.offset, span.end)

    def put(self, *words: str) -> None:
        """Write tokens, the first one after the blanks asked for, the others after a blank each."""
        for word in words:
            self._pieces.append(_Piece(self._breaks, self._blank, word, self._offset, self.indent))
            self._breaks, self._blank, self._offset = 0, True, -1
        self._blank = False

    def space(self) -> None:
        """A blank before the next token."""
        self._blank = True

    def line(self, count: int = 1) -> None:
        """The next token starts a line (after an empty one if `count` is 2)."""
        if self.flat:
            self._blank = True
        elif self._pieces:
            self._breaks = max(self._breaks, count)

    def text(self, comments: tuple[Comment, ...] = ()) -> str:
        """All that was written, with the comments at their places."""
        places = self._places(comments)
        out = _Lines()
        for i, piece in enumerate(self._pieces):
            for comment in places.get(i, ()):
                out.comment(comment, piece.breaks, piece.indent)
            out.token(piece)
        for comment in places.get(len(self._pieces), ()):
            out.comment(comment, 1, 0)
        return out.finished()

    def _places(self, comments: tuple[Comment, ...]) -> dict[int, list[_Placed]]:
        """Comments by the index of the token that they are put before.

        That is one of the tokens between the last one known to stand before the comment and the first one known to stand
        after it. A comment on a line of its own goes to the last start of a line there, any other as far to the front as it can.
        """
        places: dict[int, list[_Placed]] = {}
        known, place = 0, -1
        after_dashes = False  # the comment before this one ran to the end of its line
        for comment in comments:
            while known < len(self._pieces) and self._pieces[known].offset <= comment.span.start:
                known += 1
            front = self._front(known)
            own_line = comment.own_line or (after_dashes and front <= place)
            place = max(self._line_start(front, known) if own_line else front, place)
            places.setdefault(place, []).append(_Placed(comment.text, own_line))
            after_dashes = comment.text.startswith("--")
        return places

    def _front(self, known: int) -> int:
        """The first place for a comment before the token at `known`: behind the last known one, commas and closing brackets."""
        front = known
        while front > 0 and self._pieces[front - 1].offset < 0:
            front -= 1
        while front < known and self._pieces[front].text in (",", ";", ")", "]"):
            front += 1
        return front

    def _line_start(self, front: int, known: int) -> int:
        """The last token in [front, known] that starts a line; `front` where none does."""
        if known == len(self._pieces):
            return known
        return next((i for i in range(known, front - 1, -1) if self._pieces[i].breaks), front)


@dataclass(slots=True)
class _Placed:
    """A comment, and whether it gets a line of its own."""

    text: str
    own_line: bool


class _Lines:
    """The output while tokens and comments are put together."""

    __slots__ = ("begun", "ended", "parts", "spaced")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.begun = False  # a token has been written
        self.ended = False  # a comment ended the line: what follows starts a new one
        self.spaced = False  # the line breaks before the next token stand before its comment already

    def token(self, piece: _Piece) -> None:
        breaks = piece.breaks
        if self.ended:
            breaks = 1 if self.spaced else max(breaks, 1)
        if breaks:
            self.break_line(breaks, piece.breaks, piece.indent)
        elif piece.blank and self.parts:
            self.parts.append(" ")
        self.parts.append(piece.text)
        self.ended = self.spaced = False
        self.begun = True

    def comment(self, comment: _Placed, breaks: int, indent: int) -> None:
        text = comment.text
        if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")):
            text += "*/"  # the end of the text closed it
        if comment.own_line or not self.parts:
            if self.parts:
                self.break_line(1 if self.spaced else max(breaks, 1), breaks, indent)
            self.spaced = self.ended = True
        else:
            self.parts.append(" ")
            self.ended = self.ended or text.startswith("--")
        self.parts.append(text)

    def break_line(self, count: int, planned: int, indent: int) -> None:
        """Start a line; one that the layout did not plan is indented further."""
        self.parts.append("\n" * count + INDENT * (indent + (planned == 0 and self.begun)))

    def finished(self) -> str:
        return "".join(self.parts) + ("\n" if self.parts else "")
