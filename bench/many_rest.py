"""Many small apps that a user deploys over REST, a request each, on a worker that runs: until the last one accepts events, and until all have answered one."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from bench.checks import WrongOutputError
from bench.children import ChildFailedError
from bench.live import Say
from bench.many import NodeSetting
from bench.many_apps import check_rows, small_apps
from bench.many_client import clients
from bench.many_start import Running, accepting
from bench.many_watch import Outputs
from bench.posts import DEPLOYMENT, settings_text
from bench.posts_rest import Asking
from bench.publicnode import PublicNode
from nadi.io.natsserver import free_port

READY_WITHIN = 300.0


def of_rest(setting: NodeSetting, label: str, cache: Path | None, say: Say) -> dict[str, Any]:
    """Seconds from the first request: until all texts are `taken`, all apps `accept` events, all have `answered` one. Errors: TooSlowError, ChildFailedError,
    WrongOutputError."""
    folder, told = setting.folder / label.replace(" ", "-"), f"{setting.checkout.label}, {label}"
    home, port = folder / "home", free_port()
    reached = home / "files"
    reached.mkdir(parents=True)
    text = DEPLOYMENT.format(rest=port) + settings_text({"spark.master": setting.master, **setting.conf})
    (folder / "deployment.yaml").write_text(text)
    command = ["worker", "--conf", str(folder / "deployment.yaml"), "--home", str(home)]
    apps, url, load = small_apps(setting.apps, reached), f"http://127.0.0.1:{port}", os.getloadavg()[0]
    say(f"{told}: starting a worker")
    with ExitStack() as stack:
        outputs, senders = stack.enter_context(Outputs(reached)), stack.enter_context(clients(apps))
        node = stack.enter_context(PublicNode(setting.checkout, folder / "node", [], command=command, cache=cache))
        node.until(lambda: Asking.is_ready(url) or None, READY_WITHIN, "answer of /health/ready")
        made = Running(node, senders, outputs, told, say, setting.patience)
        begin = time.monotonic()
        with httpx.Client(base_url=url, auth=("admin", node.password), timeout=60) as client:
            for app in apps:
                answer = client.post("/siddhi-apps", content=app.text)
                if answer.status_code != httpx.codes.CREATED:
                    raise ChildFailedError(f"{told}: {app.name}: {answer.status_code} {answer.text[:200]}")
        taken = time.monotonic() - begin
        accepting(made)
        accepted = time.monotonic() - begin
        answered = accepted + made.answers()
        say(
            f"{told}: texts taken after {taken:.1f} s, all accept after {accepted:.1f} s, answered after {answered:.1f} s"
        )
        node.stop()
        rows = sum(check_rows(c.app, c.sent, c.app.target.read_bytes().splitlines()) for c in senders)
        events = sum(s.accepted for c in senders for s in c.sent)
        if rows < events:
            raise WrongOutputError(f"{told}: {events} events gave {rows} rows")
    figures = {"taken_s": taken, "accept_s": accepted, "answered_s": answered, "rows": rows, "events": events}
    return {**figures, "load": (load, os.getloadavg()[0])}
