"""`nadi errors`: what an app could not take: listed, shown, sent again, forgotten."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nadi.cli.query import known_apps, running
from nadi.config.deployment import read_deployment, state_lookups
from nadi.errors import error
from nadi.errors.readable import readable
from nadi.io.controllog import shown_time
from nadi.io.errorstore import ErrorStore, Row, Wanted, row_of
from nadi.pipeline import errorview
from nadi.pipeline.errorview import ErrorView, view_of
from nadi.pipeline.repeats import send_again


@dataclass(frozen=True, slots=True)
class Errors:
    """The error store of an app, and the state folder of its node."""

    app: str
    state: Path
    view: ErrorView

    @property
    def store(self) -> ErrorStore:
        return self.view.store

    def sent(self) -> dict[str, int]:
        """When (ms) what was sent again."""
        return self.view.sent()


def opened(app: str, state: Path, config: Path | None) -> Errors:
    """The error store of an app, named or as the path of its state folder. Errors: NO_STATE, ERROR_STORE_ELSEWHERE, INVALID_SETTING."""
    if (Path(app) / "cuts").is_dir():
        state, app = Path(app).resolve().parent, Path(app).resolve().name
    folder = state / app
    if not folder.is_dir():
        raise error("NO_STATE", app=app, folder=state, hint=known_apps(app, state))
    settings = read_deployment(config, state_lookups(state)).error_store if config is not None else None
    return Errors(app, state, view_of(app, folder, settings))


def wanted_of(ids: Sequence[str], origin: str, stream: str, since: str, until: str) -> Wanted:
    """Filters as they were given."""
    try:
        return errorview.wanted_of(ids, origin, stream, since, until)
    except ValueError as problem:
        name, _, reason = str(problem).partition(": ")
        raise typer.BadParameter(reason, param_hint=f"--{name}") from None


def show_list(of: Errors, wanted: Wanted, limit: int, as_json: bool) -> int:
    """Print the rows that are meant, oldest first; -> exit status (0, also where there are none)."""
    sent = of.sent()
    if as_json:
        rows = [{**row, "replayed": sent.get(row["id"])} for row in of.store.rows(wanted, limit)]
        print(readable(json.dumps(rows, ensure_ascii=False, indent=2), "\n"))
        return 0
    rows = [*of.store.rows(wanted, limit)]
    console = Console()
    if not rows:
        same = "is empty" if wanted == Wanted() else "has no such row"
        console.print(f"{of.app}: the error store {same}")
        return 0
    table = Table(
        "id", "time (UTC)", "origin", "position", "reason", "payload", "", title=of.store.name, title_justify="left"
    )
    for row in rows:
        time = datetime.fromtimestamp(row["time"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        mark = "replayed" if row["id"] in sent else ""
        cells = (row["id"], time, row["origin"], _position(row), row["reason"], str(row["payload"]), mark)
        table.add_row(*(Text(readable(cell)) for cell in cells))
    console.print(table, markup=False)
    return 0


def _position(row: Row) -> str:
    return "" if row["position"] is None else f"{row.get('partition', 0)}/{row['position']}"


def show_row(of: Errors, id_: str, as_json: bool) -> int:
    """Print one row, with its whole payload; -> exit status. Errors: ERROR_NOT_FOUND."""
    row = row_of(of.store, of.app, id_)
    when = of.sent().get(id_)
    if as_json:
        print(readable(json.dumps({**row, "replayed": when}, ensure_ascii=False, indent=2), "\n"))
        return 0
    for name, value in _told(row, when).items():
        print(f"{name:10}{readable(str(value))}")
    print()
    print(readable(str(row["payload"]), "\n\t"))
    return 0


def _told(row: Row, when: int | None) -> dict[str, Any]:
    told = {"id": row["id"], "time": shown_time(row["time"]), "origin": row["origin"], "stream": row["stream"]}
    if row["position"] is not None:
        told["position"] = _position(row)
    told |= {"reason": row["reason"], "cut": row["cut"]}
    told["replay"] = "no: " + row["final"] if "final" in row else "yes" if when is None else f"done, {shown_time(when)}"
    if "encoding" in row:
        told["payload is"] = row["encoding"]
    return told


def replay(
    of: Errors, ids: Sequence[str], wanted: Wanted | None, *, again: bool, payload: str | None, within: float
) -> int:
    """Send rows again through the running app: those of the ids, or all that are wanted; -> exit status.

    Errors: APP_NOT_RUNNING, ERROR_NOT_FOUND, ERROR_REPLAYED, ERROR_NOT_REPLAYABLE, ANSWER_LATE, DISK_FULL.
    """
    live = running(of.app, of.state, within)
    if wanted is None:
        rows = [row_of(of.store, of.app, id_) for id_ in dict.fromkeys(ids)]
        done = send_again(
            live, rows, repeat=again, payload=None if payload is None else payload_given(payload), within=within
        )
    else:
        done = send_again(live, of.store.rows(wanted), repeat=again, skip=True, within=within)
    print(f"{_rows(done.count)} sent again")
    if done.before:
        print(f"{_rows(len(done.before))} left out: sent again before")
    for id_, reason in (done.impossible or {}).items():
        print(f"{id_} left out: {readable(reason)}")
    return 0


def payload_given(text: str) -> bytes:
    """The bytes of a text, `@file`, or `-` for the standard input.

    >>> payload_given('{"n": 1}')
    b'{"n": 1}'
    """
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as problem:
            raise typer.BadParameter(f"{text[1:]}: {problem.strerror}", param_hint="--payload") from problem
    return text.encode()


def purge(of: Errors, wanted: Wanted) -> int:
    """Forget the rows that are meant; -> exit status. Errors: DISK_FULL, those of a database."""
    print(f"{_rows(of.store.purge(wanted))} purged")
    return 0


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
