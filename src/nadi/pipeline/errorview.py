"""The error store of an app, for those who look into it, send rows again or purge them: while the app runs, and while it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nadi.config import ErrorStoring
from nadi.errors import error
from nadi.io.controllog import ControlFile, ControlLog
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import KINDS, ErrorStore, Wanted
from nadi.io.errorstores import error_store, noted_store
from nadi.pipeline.live import read_live


@dataclass(frozen=True, slots=True)
class ErrorView:
    """The error store of an app and its control log, whose records are the marks of what was sent again."""

    app: str
    store: ErrorStore
    control: ControlLog

    def sent(self) -> dict[str, int]:
        """When (ms) what was sent again."""
        return self.control.sent_again()


def view_of(app: str, folder: Path, settings: ErrorStoring | None) -> ErrorView:
    """That of the app of a state folder, which is there. `settings` are those of the node's deployment.yaml, where somebody knows them.

    Errors: ERROR_STORE_ELSEWHERE, INVALID_SETTING, STATE_FILE_NOT_READABLE.
    """
    live = read_live(folder)
    if live is not None and live.spec.travels:
        return ErrorView(app, live.spec.open_errors(), live.spec.open_control())
    control = ControlFile(folder)
    if settings is not None and (settings.datasource is not None or not noted_store(folder)):
        return ErrorView(app, error_store(folder.resolve(), app, settings), control)
    if live is not None:
        return ErrorView(app, live.spec.open_errors(), control)
    elsewhere = noted_store(folder)
    if elsewhere:
        raise error("ERROR_STORE_ELSEWHERE", app=app, store=elsewhere)
    return ErrorView(app, FileErrorStore(folder), control)


def wanted_of(ids: Sequence[str], origin: str, stream: str, since: str, until: str) -> Wanted:
    """Filters as they are written. Errors: ValueError, with what is wanted."""
    if origin and origin not in KINDS:
        raise ValueError(f"origin: '{origin}' is not one of {', '.join(KINDS)}")
    return Wanted(frozenset(ids), origin, stream, moment("since", since), moment("until", until))


def moment(name: str, text: str) -> int | None:
    """A time in ms; None for no text. Errors: ValueError, which begins with the name.

    >>> moment("since", "1970-01-01T00:01:00Z"), moment("since", "1700000000000"), moment("since", "")
    (60000, 1700000000000, None)
    """
    if not text:
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        wanted = "a time as 2026-11-21T15:00:00Z (UTC where no zone is given), or ms since 1970"
        raise ValueError(f"{name}: '{text}' is not {wanted}") from None
    zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)
