"""`nadi errors`: what an app could not take, from its error store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nadi.cli.query import known_apps
from nadi.errors import error
from nadi.io.errorstore import read


def show(app: str, state: Path) -> int:
    """Print the rows of the error store; -> exit status (0, also where there are none). Errors: NO_STATE."""
    folder = state / app
    if not folder.is_dir():
        raise error("NO_STATE", app=app, folder=state, hint=known_apps(app, state))
    path = folder / "errors.jsonl"
    rows: list[dict[str, Any]] = list(read(path))
    console = Console()
    if not rows:
        console.print(f"{app}: the error store is empty")
        return 0
    table = Table("time (UTC)", "origin", "position", "reason", "payload", title=str(path), title_justify="left")
    for row in rows:
        time = datetime.fromtimestamp(row["time"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        position = "" if row["position"] is None else f"{row.get('partition', 0)}/{row['position']}"
        table.add_row(time, row["origin"], position, row["reason"], str(row["payload"]))
    console.print(table)
    return 0
