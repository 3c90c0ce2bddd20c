"""What a run shows while it measures, and how a suite adds its figures to the file of the result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.checks import WrongOutputError
from bench.children import ChildFailedError
from bench.options import told_settings
from bench.report import tables
from bench.result import Result

LINE_EVERY = 5.0  # seconds between two lines where the screen is no terminal


class Screen:
    """What the run is doing: one line that changes on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self.console = Console()
        if not self.console.is_terminal:
            self.console.width = 140  # a file has room for the tables
        self._status = self.console.status("starting")
        self._said = 0.0

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, line: str) -> None:
        if self.console.is_terminal:
            self._status.update(line)
        elif time.monotonic() - self._said > LINE_EVERY:
            self._said = time.monotonic()
            self.say(line)

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_tables(console: Console, result: dict[str, Any]) -> None:
    for caption, header, rows in tables(result):
        table = Table(title=escape(caption), title_justify="left", header_style="bold")
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)


def measured(asked: argparse.Namespace, screen: Screen, work: Callable[[Result], None], **settings: Any) -> int:
    """Let a suite add its figures to the file of the result, whatever way it ends; -> exit status."""
    result = Result(asked.json, {**told_settings(asked), **settings})
    result.save()
    try:
        work(result)
    except KeyboardInterrupt:
        result.end(False, "interrupted")
        screen.say(f"interrupted: {asked.json} holds what was measured before, marked as incomplete")
        return 130
    except (WrongOutputError, ChildFailedError) as reason:
        result.end(False, str(reason))
        screen.say(f"FAILED: {reason}")
        return 1
    result.end(True)
    show_tables(screen.console, result.told)
    screen.say(f"{asked.json}; every output was checked row by row")
    return 0
