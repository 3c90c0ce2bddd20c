"""`nadi revision`: what a persistence store has of an app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nadi.cli.panel import size
from nadi.config.deployment import Deployment, read_deployment, state_lookups
from nadi.errors import NadiError, did_you_mean, error
from nadi.errors.readable import readable
from nadi.persistence.contract import Store, time_of_name
from nadi.persistence.revisions import Revision, StoredRevision, delete_revision, newest_good, read_revision
from nadi.persistence.stores import store_of
from nadi.plan import RestorePlan


def deployed(config: Path | None, state: Path) -> Deployment:
    """What a deployment.yaml says of a node with this state folder; without one, the defaults. Errors: INVALID_SETTING, those of secrets."""
    return Deployment() if config is None else read_deployment(config, state_lookups(state))


@contextmanager
def opened(config: Path | None, state: Path) -> Iterator[Store]:
    """The store of a deployment.yaml; without one, files below the state folder."""
    store = store_of(deployed(config, state).persistence, state)
    try:
        yield store
    finally:
        store.close()


def create(app: str, state: Path, within: float) -> int:
    """Have a revision of an app made by the node that runs it; -> exit status. Errors: APP_NOT_RUNNING, ANSWER_LATE, REVISION_FAILED."""
    from nadi.pipeline.revision.revisions import ask_for

    print(ask_for(state / app, within))
    return 0


def show_list(app: str, config: Path | None, state: Path, as_json: bool) -> int:
    """Print the revisions of an app, newest first; -> exit status. Errors: REVISION_NOT_FOUND, those of the store."""
    with opened(config, state) as store:
        names = store.names(app)
        if not names:
            hint = did_you_mean(app, store.apps())
            raise error("REVISION_NOT_FOUND", app=app, name="", hint=f"{hint}; {store.name} is looked into")
        rows = [_row(store, app, name) for name in reversed(names)]
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    table = Table("revision", "time (UTC)", "cut", "buckets", "stored", "")
    for row in rows:
        stored = "" if row["stored"] is None else size(row["stored"])
        table.add_row(*(str(row[k] or "") for k in ("revision", "time", "cut", "buckets")), stored, row["problem"])
    Console().print(table)
    return 0


def _row(store: Store, app: str, name: str) -> dict[str, Any]:
    row = {"revision": name, "time": _utc(time_of_name(name, app) or 0), "cut": None, "buckets": None, "stored": None}
    try:
        found = read_revision(store, app, name).revision
    except NadiError as problem:
        return {**row, "problem": problem.diagnostic.message}
    cut = found.meta.cut.get("n")
    return {**row, "cut": cut, "buckets": len(found.state), "stored": found.stored, "problem": ""}


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def show_revision(app: str, name: str, config: Path | None, state: Path, as_json: bool) -> int:
    """Print what is in a revision ("": the newest); -> exit status, 1 where a part of it is damaged.

    Errors: REVISION_NOT_FOUND, REVISION_DAMAGED (its manifest), those of the store.
    """
    with opened(config, state) as store:
        found = read_revision(store, app, name or None)
        problem = ""
        try:
            found.verify()
        except NadiError as damage:
            problem = damage.diagnostic.message
    shown = described(found.revision) | {"problem": problem}
    print(json.dumps(shown, ensure_ascii=False, indent=2)) if as_json else _print_revision(shown)
    return 1 if problem else 0


def described(revision: Revision) -> dict[str, Any]:
    """A revision for people and tools: where it stands, and each part of its state by element with keys and sizes (bytes)."""
    elements: dict[str, dict[str, int]] = {}
    for bucket in revision.state:
        for piece in bucket:
            held = elements.setdefault(piece.element or "(deltas)", {"keys": 0, "bytes": 0, "stored": 0})
            held["keys"] += piece.keys
            held["bytes"] += piece.bytes
            held["stored"] += piece.stored
    return {
        "revision": revision.name,
        "app": revision.meta.app,
        "made": _utc(revision.made),
        "clock": _utc(revision.meta.clock),
        "cut": revision.meta.cut,
        "versions": revision.meta.versions,
        "buckets": len(revision.state),
        "elements": elements,
    }


def _print_revision(shown: dict[str, Any]) -> None:
    console = Console()
    versions = ", ".join(f"{name} {number}" for name, number in shown["versions"].items())
    console.print(f"{shown['revision']} of {shown['app']}, made {shown['made']} UTC by {versions}", highlight=False)
    cut = shown["cut"]
    console.print(f"cut {cut.get('n', '?')}, clock {shown['clock']} UTC, {shown['buckets']} buckets", highlight=False)
    table = Table("element", "keys", "size", "stored")
    for element, held in sorted(shown["elements"].items()):
        keys = "" if element == "(deltas)" else str(held["keys"])
        table.add_row(element, keys, size(held["bytes"]), size(held["stored"]))
    console.print(table)
    if shown["problem"]:
        console.print(readable(shown["problem"]), style="red", markup=False)


def delete(app: str, name: str, config: Path | None, state: Path) -> int:
    """Delete a revision; -> exit status. Errors: REVISION_NOT_FOUND, those of the store."""
    with opened(config, state) as store:
        delete_revision(store, app, name)
    print(f"{name} is deleted")
    return 0


def chosen(store: Store, app: str, name: str) -> StoredRevision:
    """A revision by name, or the newest good one; what is wrong with newer ones is printed."""
    if name:
        return read_revision(store, app, name)
    found, problems = newest_good(store, app)
    for problem in problems:
        print(problem)
    return read_revision(store, app) if found is None else found


def print_plan(plan: RestorePlan, revision: str) -> None:
    """What becomes of each element."""
    table = Table("element", "keeps", "", "why", title=f"{revision} into {plan.app}", title_justify="left")
    styles = {"kept": "green", "migrated": "yellow", "reset": "red", "new": "cyan"}
    for element, keeps, fate, reason in plan.table():
        table.add_row(element, keeps, f"[{styles[fate]}]{fate}[/]", reason)
    Console().print(table)
