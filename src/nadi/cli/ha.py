"""`nadi ha status|switch|promote`: what people ask a node of a pair for over REST."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nadi.cli.remote import MADE_WITHIN, Remote, as_text
from nadi.errors.readable import readable


def status(node: Remote, as_json: bool) -> int:
    """Print the pair as a node sees it; -> exit status: 1 where something is not in order."""
    found = node.ask("GET", "/ha").json()
    if as_json:
        print(as_text(found))
    else:
        _print(found)
    return 1 if found["alarms"] else 0


def _print(found: dict[str, Any]) -> None:
    partner = found["partner"]
    table = Table(show_header=False)
    rows = {
        "group": found["group"],
        "this node": f"{found['id']}, {found['role']}",
        "active": found["active"] or "nobody",
        "partner": "none" if partner is None else " ".join(filter(None, (partner["id"], partner["address"]))),
        "in sync": "yes" if found["inSync"] else f"no: {found['reason']}" if found["reason"] else "no",
        "could go on at once": f"no: {found['unready']}" if found["unready"] else "yes" if found["inSync"] else "no",
        "last sync": shown_time(found["lastSync"]),
    }
    for name, value in rows.items():
        table.add_row(name, escape(readable(str(value))))
    console = Console()
    console.print(table)
    for alarm in found["alarms"]:
        console.print(escape(readable(f"[{alarm['condition']}] {alarm['message']}")))
        if alarm["next"]:
            console.print(escape(readable(f"  {alarm['next']}")))


def shown_time(at: int | None) -> str:
    """A time (ms of the epoch) for people.

    >>> shown_time(1_000), shown_time(None)
    ('1970-01-01 00:00:01+00:00', 'never')
    """
    return "never" if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", "seconds")


def switch(node: Remote) -> int:
    """Have the passive node go on; -> exit status."""
    print(node.ask("POST", "/ha/switch", MADE_WITHIN).json()["message"])
    return 0


def promote(node: Remote, accept_loss: bool) -> int:
    """Have a node go on with what it has, or say what that would lose; -> exit status: 1 where it needs `accept_loss`."""
    found = node.ask("POST", "/ha/promote", MADE_WITHIN, json={"acceptLoss": accept_loss}).json()
    lost = "nothing"
    if found["since"] is not None:
        others = ", ".join(found["others"]) or "other nodes"
        lost = (
            f"all that was accepted after {shown_time(found['since'])} and that only {others} has ({found['reason']})"
        )
    print(f"{'it goes on' if found['promoted'] else 'it does not go on'}; lost: {lost}")
    if not found["promoted"]:
        print("with --accept-loss it does")
    return 0 if found["promoted"] else 1
