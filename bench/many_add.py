"""Adding an app to a node that runs, while its other apps have events."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.children import ChildFailedError
from bench.many_apps import small_apps
from bench.many_client import Client
from bench.many_start import Running
from bench.many_traffic import Traffic

COMMAND = ("app", "add")
"""What follows `python -m nadi`, before the app's file and `--state-dir`."""
SKIPPED = "this nadi has no command that adds an app to a running node"
BEFORE, AFTER = 5.0, 5.0  # seconds of events before the command and after the answer of the app that was added


@dataclass(frozen=True, slots=True)
class Answer:
    """An event of another app: when it was due, and when its row was there (`time.monotonic`)."""

    due: float
    came: float


def of_adding(made: Running, command: tuple[str, ...] = COMMAND) -> dict[str, Any]:
    """Seconds from the command until the new app takes events, and until it has answered one; how the others were held up meanwhile, who have an event a
    second each. {"skipped": why} where there is no such command.

    Errors: TooSlowError, ChildFailedError where the command fails.
    """
    if _run(made, [*command, "--help"]).returncode != 0:
        return {"skipped": SKIPPED}
    number = len(made.senders)
    folder = made.senders[0].app.target.parent
    app = small_apps(number + 1, folder)[number]
    file = made.node.folder / f"{app.name}.siddhi"
    file.write_text(app.text)
    client = Client(app)
    with Traffic(list(made.senders), made.patience) as traffic:
        time.sleep(BEFORE)
        begin = time.monotonic()
        adding = _start(made, [*command, str(file), "--state-dir", str(made.node.state)])
        made.node.until(lambda: _accepts(adding, client), made.patience, "server of the app that was added")
        accepted = time.monotonic() - begin
        told, _ = adding.communicate(timeout=made.patience)
        taken = time.monotonic() - begin
        if adding.returncode != 0:
            raise ChildFailedError(f"{made.label}: nadi {' '.join(command)}: {told.strip()[-300:]}")
        made.answers([client])
        answered = time.monotonic() - begin
        made.senders.append(client)
        time.sleep(AFTER)
        end = time.monotonic()
    asked = [a for a in traffic.asked if a.accepted]
    made.wait_for([(a.app, a.event) for a in asked], time.monotonic())
    answers = [Answer(a.due, made.outputs.came((a.app, a.event)) or 0.0) for a in asked]
    refused = len(traffic.asked) - len(asked)
    figures = {"accept_s": accepted, "taken_s": taken, "answered_s": answered, "refused": refused}
    return {**figures, **held_up(answers, begin, end)}


def held_up(answers: Sequence[Answer], begin: float, end: float) -> dict[str, float]:
    """How apps answered before `begin`, when another one was added, and from then to `end`: the longest time in which none of them answered (`gap`), and the
    longest from when an event was due to its row (`longest`), s.

    >>> answers = [Answer(n / 2, n / 2 + (1.25 if n == 10 else 0.25)) for n in range(20)]
    >>> held_up(answers, 4.0, 9.0)
    {'gap_before_s': 0.5, 'gap_s': 1.0, 'longest_before_s': 0.25, 'longest_s': 1.25}
    """
    came = sorted(a.came for a in answers)
    gaps = [(later, later - sooner) for sooner, later in itertools.pairwise(came) if sooner < end]
    late = [(a.due, a.came - a.due) for a in answers]
    return {
        "gap_before_s": max((gap for at, gap in gaps if at < begin), default=0.0),
        "gap_s": max((gap for at, gap in gaps if at >= begin), default=0.0),
        "longest_before_s": max((took for due, took in late if due + took < begin), default=0.0),
        "longest_s": max((took for due, took in late if due + took >= begin), default=0.0),
    }


def _accepts(adding: subprocess.Popen[str], client: Client) -> bool | None:
    """Whether the app that is being added takes events, or never will, as the command has failed."""
    return client.accepts() or bool(adding.poll()) or None


def _words(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "nadi", *words]


def _run(made: Running, words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    environment = made.node.checkout.environment(made.node.folder)
    return subprocess.run(_words(words), env=environment, capture_output=True, check=False, timeout=made.patience)


def _start(made: Running, words: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _words(words),
        env=made.node.checkout.environment(made.node.folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
