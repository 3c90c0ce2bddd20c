"""Text that others wrote, for a person to read: it shows what is in it, and does nothing to the screen.

An event may hold line ends (which would make one line of a log look like two), escape sequences (which move the cursor, colour, or retitle a terminal) and
characters that turn the direction of what follows. All that people read goes through here: the log sink, messages of errors, tables and panels.
"""

from __future__ import annotations

import re
from collections.abc import Container

# Control characters, line and paragraph separators, format characters but for the joiners (letters and emoji need them), halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def readable(text: str, keep: Container[str] = "") -> str:
    r"""The text with what is not for the eye as `\n`, `\t`, `\uXXXX`; a character in `keep` stays. Of a JSON text this makes a JSON text of the same value.

    >>> print(readable("cold\nINFO all is well"), readable("\x1b[2J"), readable("\u202efdp.exe"))
    cold\nINFO all is well \u001b[2J \u202efdp.exe
    """
    if text.isprintable():
        return text

    def written(found: re.Match[str]) -> str:
        char = found[0]
        return char if char in keep else _SHORT.get(char) or _units(char)

    return _HIDDEN.sub(written, text)


def _units(char: str) -> str:
    r"""As JSON writes a character.

    >>> print(_units("\x07"), _units("\U000e0001"))
    \u0007 \udb40\udc01
    """
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
