"""`nadi app deploy|list|show|delete|restart|revisions|backup|restore`: what people ask a worker for over REST."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nadi.cli.apptext import app_text
from nadi.errors import error
from nadi.errors.readable import readable

USER, PASSWORD = "NADI_USER", "NADI_PASSWORD"
WITHIN = 60.0  # seconds for an answer
MADE_WITHIN = 700.0  # seconds for a revision, and for what is begun with one


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker and who asks. `certificate` is a file with the certificate that its own is checked by; "": those that the system trusts; "no": it is not
    checked."""

    url: str
    user: str
    password: str
    certificate: str = ""

    def ask(self, method: str, path: str, within: float = WITHIN, **given: Any) -> httpx.Response:
        """One request. Errors: WORKER_NOT_REACHED, WORKER_REFUSED."""
        verify: bool | str = False if self.certificate == "no" else self.certificate or True
        try:
            answer = httpx.request(
                method,
                f"{self.url.rstrip('/')}{path}",
                auth=(self.user, self.password),
                verify=verify,
                timeout=within,
                **given,
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as reason:
            raise error("WORKER_NOT_REACHED", url=self.url, reason=reason) from reason
        if answer.status_code >= 400:
            raise error("WORKER_REFUSED", url=self.url, status=answer.status_code, reason=_reason(answer))
        return answer


def remote(url: str, user: str, certificate: str) -> Remote:
    """The worker at a URL, for a user ("": that of the environment, or admin), whose password is in the environment or asked for."""
    name = user or os.environ.get(USER, "admin")
    password = os.environ.get(PASSWORD)
    if password is None:
        password = Console(stderr=True).input(f"password of {name} at {url}: ", password=True)
    return Remote(url, name, password, certificate)


def deploy(worker: Remote, files: Sequence[Path], dry_run: bool) -> int:
    """Deploy apps, or update them; -> exit status. With `dry_run` only say what an update would do to their states."""
    for file in files:
        params = {"dryRun": "true"} if dry_run else {}
        answer = worker.ask(
            "PUT",
            "/siddhi-apps",
            params=params,
            content=app_text(file).encode(),
            headers={"content-type": "text/plain"},
        )
        if dry_run:
            _print_plan(answer.json())
        else:
            print(f"{file}: {'deployed' if answer.status_code == 201 else 'updated'}")
    return 0


def show_all(worker: Remote, as_json: bool) -> int:
    """Print the apps with their states; -> exit status."""
    names = worker.ask("GET", "/siddhi-apps").json()
    rows = [worker.ask("GET", f"/siddhi-apps/{name}/details").json() for name in names]
    if as_json:
        print(as_text(rows))
        return 0
    table = Table("app", "status", "events in", "events out", "errors", "")
    for row in rows:
        into, out = (f"{sum(row[key].values()):,}" for key in ("eventsIn", "eventsOut"))
        table.add_row(
            row["name"],
            row["status"],
            into,
            out,
            str(row["errors"]),
            escape(readable(row["reason"].splitlines()[0]) if row["reason"] else ""),
        )
    Console().print(table)
    return 0


def show(worker: Remote, app: str, as_json: bool) -> int:
    """Print an app: its text, or all that is known of it as JSON; -> exit status, 1 where it is inactive."""
    details = worker.ask("GET", f"/siddhi-apps/{app}/details").json()
    if as_json:
        print(as_text(details))
    else:
        print(worker.ask("GET", f"/siddhi-apps/{app}").json()["content"])
        print(f"{app}: {details['status']}", file=sys.stderr)
        if details["reason"]:
            print(readable(details["reason"], "\n"), file=sys.stderr)
    return 0 if details["status"] == "active" else 1


def delete(worker: Remote, app: str) -> int:
    """Undeploy an app; -> exit status."""
    worker.ask("DELETE", f"/siddhi-apps/{app}")
    print(f"{app}: undeployed")
    return 0


def move(manager: Remote, instance: str) -> int:
    """Move an instance of an app of a cluster off its worker; -> exit status."""
    manager.ask("POST", f"/cluster/instances/{instance}/move")
    print(f"{instance}: moving")
    return 0


def drain(manager: Remote, worker: str, on: bool) -> int:
    """Move everything off a worker, or use it again; -> exit status."""
    manager.ask("POST", f"/cluster/workers/{worker}/drain", params={"on": str(on).lower()})
    print(f"{worker}: {'draining' if on else 'used again'}")
    return 0


def restart(worker: Remote, app: str) -> int:
    """Stop an app and start it again from where it stood; -> exit status."""
    worker.ask("POST", f"/siddhi-apps/{app}/restart")
    print(f"{app}: restarting")
    return 0


def query(node: Remote, app: str, text: str, as_json: bool) -> int:
    """Print what an on-demand query finds, or that the change is made, as `nadi.cli.query.query` does; -> exit status."""
    from nadi.cli.query import printed
    from nadi.pipeline.ondemand import Found

    body = {"query": text, "details": True}
    told = node.ask("POST", f"/siddhi-apps/{app}/query", json=body).json()
    columns = told.get("details")
    if columns is None:
        return printed(None, as_json)
    names, types = (tuple(one[key] for one in columns) for key in ("name", "dataType"))
    return printed(Found(names, [tuple(row) for row in told["records"]], types), as_json)


def show_revisions(worker: Remote, app: str, as_json: bool) -> int:
    """Print the revisions of an app, oldest first; -> exit status."""
    rows = worker.ask("GET", f"/siddhi-apps/{app}/revisions").json()
    if as_json:
        print(as_text(rows))
        return 0
    table = Table("revision", "made", "of", "")
    for row in rows:
        made = datetime.fromtimestamp(row["made"] / 1000, UTC).isoformat(" ", "seconds")
        parts = row.get("instances", {})
        of = f"{len(parts)} instances" if parts else f"cut {row.get('cut', '')}"
        table.add_row(row["revision"], made, of, "" if row.get("fits", True) else "of another text: not to be restored")
    Console().print(table)
    return 0


def backup(worker: Remote, app: str) -> int:
    """Make a revision of an app; -> exit status."""
    answer = worker.ask("POST", f"/siddhi-apps/{app}/backup", MADE_WITHIN)
    print(answer.json()["revision"])
    return 0


def restore(worker: Remote, app: str, revision: str) -> int:
    """Have an app go on from a revision ("": the newest good one); -> exit status."""
    params = {"revision": revision} if revision else {}
    answer = worker.ask("POST", f"/siddhi-apps/{app}/restore", MADE_WITHIN, params=params)
    print(answer.json()["message"])
    return 0


def _print_plan(plan: dict[str, Any]) -> None:
    table = Table("element", "keeps", "", "why")
    for row in plan.get("elements", ()):
        table.add_row(*(escape(str(row[key])) for key in ("element", "keeps", "fate", "reason")))
    Console().print(f"{plan['app']}: {plan['summary']}", table)


def _reason(answer: httpx.Response) -> str:
    """What a worker says of a request that it refuses."""
    try:
        told = answer.json()
    except (ValueError, RecursionError):
        return answer.text
    return str(told.get("message", told)) if isinstance(told, dict) else str(told)


def as_text(value: Any) -> str:
    """JSON for people and tools."""
    import json

    return readable(json.dumps(value, ensure_ascii=False, indent=2), "\n")
