"""`nadi simulate event|run|pause|resume|stop|list|delete`: the event simulator of a worker, for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nadi.cli.interrupts import stops
from nadi.cli.remote import Remote
from nadi.errors import error
from nadi.pipeline.stoprequest import StopRequest
from nadi.received import read_json

LOOK = 0.5
"""Seconds between two looks at a feed that runs: the worker is asked, it tells nobody by itself."""
STOPPED = 130  # exit status after Ctrl-C
FEED = "/simulation/feed"
TEXT = {"content-type": "text/plain"}


def send_event(worker: Remote, app: str, stream: str, values: Sequence[str], timestamp: int | None) -> int:
    """Send one event, its values as texts ("null" is null); -> exit status."""
    data = [None if value == "null" else value for value in values]
    event: dict[str, Any] = {"siddhiAppName": app, "streamName": stream, "data": data}
    if timestamp is not None:
        event["timestamp"] = timestamp
    worker.ask("POST", "/simulation/single", content=json.dumps(event).encode(), headers=TEXT)
    print(f"{app}: an event was sent to {stream}")
    return 0


def run(worker: Remote, file: Path, detach: bool) -> int:
    """Bring a simulation and the CSV files beside it to a worker, run it, and show how it goes on until it ends; -> exit status.

    With `detach` return at once. 1 where it failed, 130 where it was stopped by Ctrl-C. Errors: SIMULATION_INVALID, SIMULATION_ALREADY, those of `Remote.ask`.
    """
    document = _document(file)
    name = _name_of(document, file)
    known = _known(worker)
    if name in known and (status := _details(worker, name)["status"]) in ("RUN", "PAUSE", "PENDING_STOP"):
        raise error("SIMULATION_ALREADY", name=name, status=status)
    _upload(worker, document, file.parent)
    body = json.dumps(document).encode()
    if name in known:
        worker.ask("PUT", _path(name), content=body, headers=TEXT)
    else:
        worker.ask("POST", FEED, content=body, headers=TEXT)
    _act(worker, name, "run")
    if detach:
        print(f"{name}: RUN")
        return 0
    return _follow(worker, name)


def act(worker: Remote, names: Sequence[str], action: str) -> int:
    """`pause`, `resume` or `stop` simulations, each by its name or by its file; -> exit status."""
    for each in names:
        name = _named(each)
        _act(worker, name, action)
        print(f"{name}: {_details(worker, name)['status']}")
    return 0


def show_all(worker: Remote, as_json: bool) -> int:
    """Print the simulations of a worker with their states; -> exit status."""
    rows = [_details(worker, name) for name in _known(worker)]
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    table = Table("simulation", "status", "sent", "")
    for row in rows:
        table.add_row(escape(row["name"]), row["status"], f"{row['sent']:,}", escape(row["inactive"] or row["problem"]))
    Console().print(table)
    return 0


def delete(worker: Remote, names: Sequence[str]) -> int:
    """Forget simulations; -> exit status."""
    for each in names:
        name = _named(each)
        worker.ask("DELETE", _path(name))
        print(f"{name}: deleted")
    return 0


# ---- following a feed


def _follow(worker: Remote, name: str) -> int:
    """Show what a feed has sent until it ends; the first Ctrl-C stops it."""
    stop = StopRequest()
    screen = Console(stderr=True)
    with stops(stop.set, _say, f"stopping {name}", "the feed goes on"), screen.status(escape(name)) as shown:
        while True:
            if stop.wait(LOOK):
                return _stopped(worker, name)
            found = _details(worker, name)
            if found["status"] not in ("RUN", "PAUSE", "PENDING_STOP"):
                return _ended(found)
            shown.update(escape(f"{name}: {found['status']}, {found['sent']:,} events sent"))


def _stopped(worker: Remote, name: str) -> int:
    if _details(worker, name)["status"] in ("RUN", "PAUSE"):
        _act(worker, name, "stop")
    _ended(_details(worker, name))
    return STOPPED


def _ended(found: dict[str, Any]) -> int:
    problem = found["problem"] or found["inactive"]
    print(f"{found['name']}: {found['status']}, {found['sent']:,} events sent")
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- asking


def _known(worker: Remote) -> list[str]:
    found = json.loads(worker.ask("GET", FEED).json()["message"])
    listed = [*found["activeSimulations"], *found["inActiveSimulations"]]
    return sorted(each["properties"]["simulationName"] for each in listed)


def _details(worker: Remote, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(worker.ask("GET", f"{_path(name)}/details").json()["message"])
    return found


def _act(worker: Remote, name: str, action: str) -> None:
    worker.ask("POST", _path(name), params={"action": action})


def _path(name: str) -> str:
    return f"{FEED}/{quote(name, safe='')}"


def _upload(worker: Remote, document: dict[str, Any], folder: Path) -> None:
    """Bring the CSV files that a simulation names and that are beside its file."""
    sources = document.get("sources")
    named = [s.get("fileName") for s in sources if isinstance(s, dict)] if isinstance(sources, list) else []
    there = worker.ask("GET", "/simulation/files").json()
    for name in dict.fromkeys(n for n in named if isinstance(n, str) and n == Path(n).name):
        path = folder / name
        if path.is_file():
            method, target = ("PUT", f"/{quote(name, safe='')}") if name in there else ("POST", "")
            worker.ask(method, f"/simulation/files{target}", files={"file": (name, path.read_bytes(), "text/csv")})


def _named(given: str) -> str:
    """The name of a simulation, from its name or its file."""
    path = Path(given)
    return _name_of(_document(path), path) if given.endswith(".json") and path.is_file() else given


def _document(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file.read_bytes())
    except msgspec.DecodeError as reason:
        raise error("SIMULATION_INVALID", reason=f"{file} is no JSON: {reason}") from reason
    if not isinstance(found, dict):
        raise error("SIMULATION_INVALID", reason=f"{file} has no JSON object")
    return found


def _name_of(document: dict[str, Any], file: Path) -> str:
    properties = document.get("properties")
    name = properties.get("simulationName") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not name:
        raise error("SIMULATION_INVALID", reason=f"{file} has no 'simulationName' in its 'properties'")
    return name
