"""`nadi query`: an on-demand query against an app that runs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nadi.errors import did_you_mean, error
from nadi.errors.readable import readable
from nadi.pipeline.live import Live, read_live
from nadi.pipeline.node import is_locked
from nadi.pipeline.ondemand import LOOK, Found, ask


def query(app: str, text: str, state: Path, within: float, as_json: bool) -> int:
    """Print what is found, or that the change is made; the exit status, 0.

    `as_json` prints a JSON list of objects. Errors: NO_STATE, APP_NOT_RUNNING, those of the query, ANSWER_LATE, CHANGE_FAILED.
    """
    return printed(ask(running(app, state, within), text, within), as_json)


def printed(found: Found | None, as_json: bool) -> int:
    """Print what was found (None: a change is made); the exit status, 0."""
    if found is None:
        print("[]" if as_json else "done")
    else:
        print(as_objects(found)) if as_json else show(found)
    return 0


def running(app: str, state: Path, within: float) -> Live:
    """The app that runs on a state folder, waited for while its node starts. Errors: NO_STATE, APP_NOT_RUNNING."""
    folder = state / app
    if not folder.is_dir():
        raise error("NO_STATE", app=app, folder=state, hint=known_apps(app, state))
    until = time.monotonic() + within
    while (live := read_live(folder)) is None:
        if not is_locked(state) or time.monotonic() > until:
            raise error("APP_NOT_RUNNING", app=app, folder=state)
        time.sleep(LOOK)
    return live


def known_apps(app: str, state: Path) -> str:
    """A half sentence that names the apps which ran on a state folder."""
    return did_you_mean(app, [path.parent.name for path in state.glob("*/cuts")])


def as_objects(found: Found) -> str:
    """The rows as a JSON list."""
    rows = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    return readable(json.dumps(rows, ensure_ascii=False))


def show(found: Found) -> None:
    """The rows as a table on a terminal, with tabs between the values elsewhere."""
    if sys.stdout.isatty():
        table = Table(*found.names)
        for row in found.rows:
            table.add_row(*map(Text, map(text_of, row)))
        Console().print(table, f"{len(found.rows)} row{'' if len(found.rows) == 1 else 's'}")
        return
    print("\t".join(found.names))
    for row in found.rows:
        print("\t".join(map(text_of, row)))


def text_of(value: object) -> str:
    """A value as people read it, on one line and without tabs.

    >>> text_of(None), text_of(True), text_of(2.5)
    ('null', 'true', '2.5')
    """
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else readable(str(value))
