"""Starting a node of many small apps: until all take events, until all have answered one, and what was sent is checked at its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.checkouts import archive_is_there, cache_root
from bench.checks import WrongOutputError
from bench.live import Say
from bench.many import NodeSetting
from bench.many_apps import SmallApp, check_rows, small_apps
from bench.many_client import Client, clients, send_to_all
from bench.many_watch import Outputs
from bench.publicnode import PublicNode, TooSlowError


@dataclass(slots=True)
class Running:
    """A node that runs, who sends to its apps, and what comes out. `start` has the figures of its start."""

    node: PublicNode
    senders: list[Client]
    outputs: Outputs
    label: str
    say: Say
    patience: float
    start: dict[str, Any] = field(default_factory=dict)

    def answers(self, senders: Sequence[Client] | None = None) -> float:
        """Send each app an event and wait until all have answered; -> seconds. Errors: TooSlowError, ChildFailedError."""
        begin = time.monotonic()
        asked = self.senders if senders is None else list(senders)
        sending = _Sending(asked, self.patience)
        try:
            self.node.until(
                lambda: sending.done() or None, self.patience, "accepted event of each app", self._show(begin)
            )
        finally:
            sending.join()
        places = [(c.app.number, s.event) for c, s in zip(asked, sending.sent, strict=True) if s is not None]
        if len(places) < len(asked):
            why = next(c.trouble for c, s in zip(asked, sending.sent, strict=True) if s is None)
            raise TooSlowError(f"{self.label}: {len(asked) - len(places)} apps took no event; one said {why}")
        self.wait_for(places, begin)
        return max(self.outputs.came(place) or 0.0 for place in places) - begin

    def wait_for(self, places: Sequence[tuple[int, int]], begin: float) -> None:
        """Wait until rows are there. Errors: TooSlowError, which says how many are missing; ChildFailedError."""

        def here() -> bool | None:
            return self.outputs.wait(places, 0.5) or None

        try:
            self.node.until(here, self.patience, "row of each event", self._show(begin, places))
        except TooSlowError as reason:
            missing = len(self.outputs.missing(places))
            raise TooSlowError(f"{reason} ({missing} of {len(places)} are missing)") from None

    def _show(self, begin: float, places: Sequence[tuple[int, int]] = ()) -> Any:
        def show() -> None:
            left = f", {len(self.outputs.missing(places))} of {len(places)} rows to come" if places else ""
            self.say(f"{self.label}: {time.monotonic() - begin:.0f} s{left}")

        return show


class _Sending:
    """An event for each app, sent beside what the caller does."""

    def __init__(self, senders: Sequence[Client], within: float) -> None:
        self.sent: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.sent.extend(send_to_all(senders, within)), daemon=True)
        self._thread.start()

    def done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(1.0)


@contextmanager
def running(
    setting: NodeSetting,
    label: str,
    count: int,
    cache: Path | None,
    say: Say,
    beside: Sequence[Path] = (),
    erring: Collection[str] = (),
) -> Iterator[Running]:
    """A node of so many small apps, and of the apps in the files `beside`, that has answered an event with each; at the end all rows are checked. The apps
    `erring` may have rows in the error store.

    Errors: TooSlowError, ChildFailedError, WrongOutputError.
    """
    folder = setting.folder / label.replace(" ", "-")
    (folder / "out").mkdir(parents=True)
    apps = small_apps(count, folder / "out")
    files = [_write(folder / f"{app.name}.siddhi", app) for app in apps]
    told = f"{setting.checkout.label}, {label}"
    load = os.getloadavg()[0]
    say(f"{told}: starting nadi run with {count + len(beside):,} apps")
    with ExitStack() as stack:
        outputs = stack.enter_context(Outputs(folder / "out"))
        senders = stack.enter_context(clients(apps))
        options: dict[str, Any] = {"master": setting.master, "conf": setting.conf, "cache": cache}
        node = stack.enter_context(PublicNode(setting.checkout, folder / "node", [*files, *beside], **options))
        made = Running(node, senders, outputs, told, say, setting.patience)
        accepted = accepting(made)
        answered = node.seconds() + made.answers() if senders else node.seconds()
        made.start = {
            "accept_s": accepted,
            "answered_s": answered,
            "archive": archive_is_there(cache),
            "cache": "of this run" if cache is not None else str(cache_root()),
            "load": (load, os.getloadavg()[0]),
        }
        say(f"{told}: all accept after {accepted:.1f} s, all have answered after {answered:.1f} s")
        yield made
        say(f"{told}: stopping and checking")
        ended = node.stop()
        failed = [e.app for e in ended.values() if e.state == "failed" or (e.errors and e.app not in erring)]
        if failed or len(ended) < count + len(beside):
            raise WrongOutputError(
                f"{told}: {len(ended)} of {count + len(beside)} apps ended, with errors {failed[:5]}"
            )
        made.start["rows"] = sum(
            check_rows(c.app, c.sent, c.app.target.read_bytes().splitlines()) for c in senders if c.app.target.exists()
        )
        made.start["events"] = sum(s.accepted for c in senders for s in c.sent)
        if made.start["rows"] < made.start["events"]:
            raise WrongOutputError(f"{told}: {made.start['events']} events gave {made.start['rows']} rows")


def _write(path: Path, app: SmallApp) -> Path:
    path.write_text(app.text)
    return path


def accepting(made: Running) -> float:
    """Seconds from the start until the servers of all apps answer."""
    waiting = list(made.senders)

    def look() -> bool | None:
        while waiting:
            if not waiting[-1].accepts():
                return None
            waiting.pop()
        return True

    def show() -> None:
        made.say(f"{made.label}: {made.node.seconds():.0f} s, {len(waiting)} apps do not take events yet")

    made.node.until(look, made.patience, "server for each app", show)
    return made.node.seconds()
