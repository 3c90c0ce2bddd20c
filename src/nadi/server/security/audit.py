"""The audit log: who came, who was let in or refused, who changed what. Structured, with the logger's name `nadi.audit`; never a secret.

note("login", Origin("ada", "10.0.0.1", "/login/portal"), "ok", grant="password")

| event | outcomes |
|---|---|
| `login` | `ok`, `refused`, `too many`, `failed` (the identity provider did not answer) |
| `token` | `refused`: one that is not known, has expired, or was used before; `too many`: of those that are not known |
| `logout` | `ok` |
| `not permitted` | `refused` |
| `foreign origin` | `refused`: a page of another site asked in a user's name |
| `change` | `ok`, `refused`: a deployment, a grant, whatever takes a permission and is no question; with the answer's status |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import structlog

LONGEST = 200  # characters of a value that a stranger may have chosen

_log = structlog.get_logger("nadi.audit")
logging.getLogger("nadi.audit").setLevel(logging.INFO)  # who came is noted though a deployment wants less of all else


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from: the user that it names, the address, the path."""

    user: str
    address: str
    path: str


def note(event: str, origin: Origin, outcome: str, **more: object) -> None:
    """Add an entry; a warning where the outcome is not `ok`."""
    write = _log.info if outcome == "ok" else _log.warning
    write(
        event,
        outcome=outcome,
        user=plain(origin.user),
        address=plain(origin.address),
        path=plain(origin.path),
        **{name: plain(value) if isinstance(value, str) else value for name, value in more.items()},
    )


def plain(text: str) -> str:
    """A text on one line, without what a terminal obeys, and not too long.

    >>> plain("eve" + chr(10) + "user=ada")
    'eve\\\\nuser=ada'
    >>> plain("x" * 300)[-3:]
    'xx…'
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: LONGEST + 1])
    return shown if len(text) <= LONGEST and len(shown) <= LONGEST else shown[:LONGEST] + "…"
