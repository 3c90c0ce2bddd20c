"""What `nadi run` shows while it runs: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nadi.errors.readable import readable
from nadi.metrics import Circuit
from nadi.pipeline.node import AppProgress

LINE_EVERY = 5.0  # seconds between two plain lines of an app whose state has not changed
STYLES = {"running": "green", "finished": "green", "waiting": "yellow", "stopping": "yellow", "failed": "red"}


class Screen(Protocol):
    """Shows the snapshots of the apps; used as a context manager around a run."""

    def __enter__(self) -> Screen: ...
    def __exit__(self, *error: object) -> None: ...
    def show(self, progress: AppProgress) -> None: ...
    def say(self, line: str) -> None: ...


def number(value: float) -> str:
    """A count as people read it.

    >>> number(1234567)
    '1,234,567'
    """
    return f"{value:,.0f}"


def size(value: int) -> str:
    """Bytes with a unit.

    >>> size(2_500_000)
    '2.5 MB'
    """
    scaled, units = float(value), ["B", "kB", "MB", "GB", "TB"]
    while scaled >= 1000 and len(units) > 1:
        scaled, units = scaled / 1000, units[1:]
    return f"{scaled:.0f} B" if units[0] == "B" else f"{scaled:.1f} {units[0]}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number(n)}" for name, n in counts.items()) or "none yet"


def batch(p: AppProgress) -> str:
    """How many batches there were, and the time of the last one by phase, the longest first; Spark says that after the batch."""
    whole = p.batch_ms.get("triggerExecution")
    if whole is None:
        return number(p.batches)
    parts = sorted(((n, ms) for n, ms in p.batch_ms.items() if n != "triggerExecution" and ms), key=lambda p: -p[1])
    longest = f" ({', '.join(f'{n} {number(ms)}' for n, ms in parts[:4])})" if parts else ""
    return f"{number(p.batches)}: {number(whole)} ms{longest}"


def plain(p: AppProgress) -> str:
    """One line about an app."""
    parts = [
        f"{p.app}: {p.state}",
        f"in {number(sum(p.events_in.values()))}",
        f"out {number(sum(p.events_out.values()))}",
        f"{number(p.rate)} ev/s",
        f"batch {batch(p)}",
        f"waiting {number(sum(p.lag.values()))}",
        f"state {size(p.state_bytes)}",
    ]
    if p.errors:
        parts.append(f"errors {number(p.errors)}")
    if p.refused:
        parts.append(f"refused {number(p.refused)}")
    if p.set_aside:
        parts.append(f"set aside {number(p.set_aside)}")
    parts += [f"{name} is away: {why}" for name, why in p.away.items()]
    parts += [circuit(c) for c in p.circuits if c.state != "closed" and c.connector.startswith("sink")]
    parts += [line.splitlines()[0] for line in p.warnings]
    if p.last_error:
        parts.append(p.last_error.splitlines()[0])
    return readable(" · ".join(parts))


def circuit(c: Circuit) -> str:
    """A circuit that is not closed.

    >>> circuit(Circuit("sink http of Out", "open", 1_000, 3, "Connection refused"))
    'sink http of Out: open since 00:00:01 UTC, 3 attempts: Connection refused'
    """
    since = time.strftime("%H:%M:%S", time.gmtime(c.since // 1000))
    attempts = f", {number(c.attempts)} attempts" if c.attempts else ""
    return f"{c.connector}: {c.state} since {since} UTC{attempts}: {c.reason}"


def panel(p: AppProgress) -> RenderableType:
    """The panel of one app."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column(overflow="fold")
    table.add_row("in", _counts(p.events_in))
    table.add_row("out", _counts(p.events_out))
    table.add_row("rate", f"{number(p.rate)} events/s")
    table.add_row("batch", batch(p))
    table.add_row("waiting", _counts(p.lag) if any(p.lag.values()) else "nothing")
    held = {name: n for name, n in sorted(p.entries.items(), key=lambda e: -e[1])[:4] if n}
    table.add_row("state", size(p.state_bytes) + (f" ({_counts(held)})" if held else ""))
    if p.errors:
        table.add_row("errors", Text(f"{number(p.errors)} in the error store", style="yellow"))
    if p.refused:
        table.add_row("refused", Text(f"{number(p.refused)} messages; their senders heard why", style="yellow"))
    if p.set_aside:
        table.add_row("set aside", Text(f"{number(p.set_aside)} that hosts died of", style="yellow"))
    table.add_row("circuits", f"{sum(c.state == 'closed' for c in p.circuits)} of {len(p.circuits)} closed")
    for c in p.circuits:
        if c.state != "closed":
            table.add_row("", Text(readable(circuit(c)), style="yellow"))
    for name, why in p.away.items():
        table.add_row("away", Text(readable(f"{name}: {why}"), style="yellow"))
    for line in p.warnings:
        table.add_row("warning", Text(readable(line.splitlines()[0]), style="yellow"))
    if p.last_error:
        table.add_row("last error", Text(readable(p.last_error.splitlines()[0]), style="red"))
    title = Text.assemble((readable(p.app), "bold"), "  ", (p.state, STYLES.get(p.state, "cyan")))
    return Panel(table, title=title, title_align="left")


class LivePanel:
    """Panels that are drawn anew in place; lines that are said scroll above them."""

    def __init__(self, console: Console) -> None:
        self._apps: dict[str, AppProgress] = {}
        self._live = Live(console=console, refresh_per_second=4, redirect_stdout=True, redirect_stderr=True)

    def __enter__(self) -> LivePanel:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, progress: AppProgress) -> None:
        for line in progress.said:
            self.say(readable(line.text))
        self._apps[progress.app] = progress
        self._live.update(Group(*(panel(p) for p in self._apps.values())))

    def say(self, line: str) -> None:
        self._live.console.print(readable(line, "\n"), markup=False, highlight=False, soft_wrap=True)


class Lines:
    """Plain lines: one when the state of an app changes or an input goes away or comes back, and every few seconds while it works."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: dict[str, tuple[float, tuple[str, frozenset[str]], int]] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, progress: AppProgress) -> None:
        for line in progress.said:
            self.say(readable(line.text))
        at, state, batches = self._told.get(progress.app, (0.0, ("", frozenset()), -1))
        broken = (c.connector for c in progress.circuits if c.state != "closed")
        now_state = progress.state, frozenset((*progress.away, *broken))
        now = time.monotonic()
        moved = progress.batches != batches and now - at >= LINE_EVERY
        if now_state != state or moved:
            self._told[progress.app] = (now, now_state, progress.batches)
            self.say(plain(progress))

    def say(self, line: str) -> None:
        self._console.print(readable(line, "\n"), markup=False, highlight=False, soft_wrap=True)


def screen(console: Console | None = None) -> Screen:
    """The live panel where the console is a terminal, else plain lines."""
    console = console or Console()
    return LivePanel(console) if console.is_terminal else Lines(console)
