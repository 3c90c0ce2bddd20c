"""The text of an app as the commands read it."""

from __future__ import annotations

from pathlib import Path

from nadi.errors import error


def app_text(path: Path) -> str:
    """What is in a file. Errors: APP_NOT_READABLE."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        raise error("APP_NOT_READABLE", file=str(path), reason=reason) from reason
