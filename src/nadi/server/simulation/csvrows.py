"""Rows of CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from operator import itemgetter

from nadi.server.simulation.configuration import CsvSource
from nadi.server.simulation.rows import BadRow, Stamped, timestamp_of
from nadi.server.simulation.shelf import Shelf


def csv_rows(shelf: Shelf, source: CsvSource, width: int) -> Iterator[Stamped | BadRow]:
    """The rows of a file: in its order, one after the other, where it is ordered; else all of them, by timestamp. `width` is how many attributes there are.

    Errors: SIMULATION_FILE.
    """
    rows = _read(shelf, source, width)
    if source.ordered:
        yield from rows
        return
    good: list[tuple[int, Stamped]] = []
    for row in rows:
        if isinstance(row, BadRow):
            yield row
        else:
            good.append((row[0] or 0, row))
    for _, stamped in sorted(good, key=itemgetter(0)):  # of equal ones the first stays the first
        yield stamped


def _read(shelf: Shelf, source: CsvSource, width: int) -> Iterator[Stamped | BadRow]:
    with shelf.opened(source.file) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text, delimiter=source.delimiter)
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as reason:
                yield BadRow(str(reason))
                continue
            if fields:
                yield _row(fields, source, width)


def _row(fields: list[str], source: CsvSource, width: int) -> Stamped | BadRow:
    """One row; an empty field is null."""
    at = source.timestamp
    try:
        stamp = None if at is None else timestamp_of(fields[at])
        if source.indices:
            chosen = [fields[i] for i in source.indices]
        elif at is not None and len(fields) == width + 1:
            chosen = fields[:at] + fields[at + 1 :]
        else:
            chosen = fields
    except IndexError:
        return BadRow(f"it has {len(fields)} columns only")
    except BadRow as reason:
        return reason
    return stamp, [field if field else None for field in chosen]
