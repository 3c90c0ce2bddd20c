"""A reporter into files: one for each metric, with a line for each poll. `t` is in seconds since the epoch."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from nadi.metrics.registry import Snapshot
from nadi.metrics.reporters.fields import Fields, fields_of

LONGEST = 200  # characters of a file's name
_NO_FILE = re.compile(r"[^\w.,@#+=-]")


class CsvFiles:
    """Writes into `folder`, which is made with the first poll, for this user alone. Somebody else has to take old files away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def report(self, snapshot: Snapshot) -> None:
        """Add a line to each file. Errors: OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, value in snapshot.values:
            self._add(self._folder / file_name(name.full), {"t": snapshot.at // 1000, **fields_of(value)})

    def _add(self, path: Path, fields: Fields) -> None:
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if not file.tell():
                writer.writerow(fields)
            writer.writerow(fields.values())

    def close(self) -> None:
        """Nothing is open between two polls."""


def file_name(metric: str) -> str:
    """The file of a metric.

    >>> file_name("a.Queries.x/../y.latency")
    'a.Queries.x_.._y.latency.csv'
    """
    return f"{_NO_FILE.sub('_', metric)[:LONGEST]}.csv"
