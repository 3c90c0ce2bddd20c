"""Traces: what goes into an app and, below each line, what comes out. The pages of the language show them, a test runs them.

A block ```trace follows a block ```sql (a whole app) and belongs to it. Its lines:

- `ms  Stream  (values) (values)`: events that are sent together, as one chunk; their timestamp is `ms`, and the clock moves there unless it is there already.
- `ms`: time passes.
- `ms  ? on-demand query`
- `→ ms  Stream  (values) (values)`: one chunk that a query puts into a stream, with the clock at that moment. A query that has a name shows what it gives
  itself: `→ ms  name  +(values) -(values)`, + for current and - for expired events.
- `→ ms  answer  (values) (values)`: the rows of the on-demand query, `null` where it finds none, `done` where it changed something.
- `→ ms  failed  Stream (values): CONDITION`: an event that a query could not process.
- `→ ms  log  LEVEL text`: what `#log` writes.

Values are JSON; objects of the app are too. The first line starts the app. After writing a new example, fill in what comes out, and read it:

    PYTHONPATH=src .venv/bin/python tests/docs/languagetraces.py docs/language/windows.md
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from docpages import ALL, Block, blocks

from nadi.functions.jsontext import written
from nadi.lang import parse
from nadi.lang.tree import InsertInto, Partition, Query, SiddhiApp
from nadi.runtime import Runtime

_STEP = re.compile(r"(\d+)(?:\s+(\?|\S+)\s+(.+))?")
_JSON = json.JSONDecoder()
_COMMA, _BLANK = re.compile(r",?\s*"), re.compile(r"\s*")


@dataclass(frozen=True)
class Step:
    """A line of input: time passes to `at`, then rows go into `stream`, or a query is asked (`stream` is "?")."""

    at: int
    stream: str
    given: str

    @property
    def rows(self) -> list[list[Any]]:
        return list(_rows(self.given))


def _rows(text: str) -> Iterator[list[Any]]:
    """`(1, "a") (2, null)` → [1, "a"], [2, None]."""
    at = 0
    while at < len(text):
        if text[at] != "(":
            raise ValueError(f"a row stands in parentheses, not: {text[at:]}")
        row: list[Any] = []
        at += 1
        while text[at : at + 1] != ")":
            value, at = _JSON.raw_decode(text, at)
            row.append(value)
            at = _past(_COMMA, text, at)
        yield row
        at = _past(_BLANK, text, at + 1)


def _past(blank: re.Pattern[str], text: str, at: int) -> int:
    found = blank.match(text, at)
    return at if found is None else found.end()


def parts(text: str) -> list[tuple[str, list[str]]]:
    """The lines of a trace: each of input with those that come out of it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("→"):
            found[-1][1].append(line)
        else:
            found.append((line, []))
    return found


def step(line: str) -> Step:
    read = _STEP.fullmatch(line.strip())
    if read is None:
        raise ValueError(f"not a line of a trace: {line}")
    return Step(int(read[1]), read[2] or "", read[3] or "")


# ---- what comes out ------------------------------------------------------------------------------------------------


def shown(row: Sequence[Any], sign: str = "") -> str:
    return f"{sign}({', '.join(map(_value, row))})"


def _value(value: Any) -> str:
    return written(value) if isinstance(value, (dict, list, tuple, set, frozenset)) else json.dumps(value)


def watched(app: SiddhiApp) -> tuple[list[str], list[str]]:
    """(queries that show what they give themselves, streams that other queries put rows into)."""
    queries: list[str] = []
    streams: list[str] = []
    for element in app.elements:
        for query in element.queries if isinstance(element, Partition) else (element,):
            name = _name(query) if isinstance(element, Query) else ""
            if name:
                queries.append(name)
            elif isinstance(query.output, InsertInto) and not query.output.target.inner:
                streams.append(str(query.output.target))
    return queries, list(dict.fromkeys(streams))


def _name(query: Query) -> str:
    return next((a.get("name") or "" for a in query.annotations if a.name.lower() == "info"), "")


class Trace(logging.Handler):
    """Runs an app and notes what comes out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._runtime = Runtime(text)
        self._lines: list[str] = []
        self._failed = 0
        queries, streams = watched(parse(text))
        for stream in streams:
            if stream in self._runtime.app.streams:
                self._follow_stream(stream)
        for query in queries:
            self._follow_query(query)

    def _note(self, what: str, told: str) -> None:
        self._lines.append(f"→ {self._runtime.kernel.flow.now}  {what}  {told}")

    def _follow_stream(self, stream: str) -> None:
        self._runtime.on_stream(stream, lambda chunk: self._note(stream, " ".join(shown(e.row) for e in chunk)))

    def _follow_query(self, name: str) -> None:
        def note(_ts: int, current: Any, expired: Any) -> None:
            rows = [shown(e.row, "+") for e in current or ()] + [shown(e.row, "-") for e in expired or ()]
            self._note(name, " ".join(rows) or "nothing")

        self._runtime.on_query(name, note)

    def emit(self, record: logging.LogRecord) -> None:
        self._note("log", f"{record.levelname} {record.getMessage()}")

    def take(self, given: Step) -> list[str]:
        """What comes out of one line of input."""
        self._lines = []
        if not self._runtime.running:
            self._runtime.start(given.at)
        self._runtime.advance_to(given.at)
        if given.stream == "?":
            self._ask(given.given)
        elif given.stream:
            self._runtime.send(given.stream, [(given.at, row) for row in given.rows])
        failures = [f for f in self._runtime.failures[self._failed :] if not f.routed]
        self._failed = len(self._runtime.failures)
        for failure in failures:
            self._note("failed", f"{failure.stream} {shown(failure.row)}: {failure.condition}")
        return self._lines

    def end(self) -> None:
        self._runtime.shutdown()

    def _ask(self, query: str) -> None:
        rows = self._runtime.query(query)
        self._note("answer", "null" if rows is None else " ".join(shown(e.row) for e in rows) or "done")


def traced(app: str, trace: str) -> list[tuple[str, list[str]]]:
    """The lines of input of a trace, each with what comes out of it now."""
    run = Trace(app)
    logger = logging.getLogger("nadi.log")
    level = logger.level
    logger.addHandler(run)
    logger.setLevel(logging.DEBUG)
    try:
        return [(line, run.take(step(line))) for line, _ in parts(trace)]
    finally:
        run.end()
        logger.removeHandler(run)
        logger.setLevel(level)


# ---- pages ---------------------------------------------------------------------------------------------------------


def pairs(found: Sequence[Block] = ALL) -> list[tuple[Block, Block]]:
    """(app, trace) that follow each other."""
    return [(a, t) for a, t in pairwise(found) if (a.kind, t.kind) == ("sql", "trace") and a.page == t.page]


def _fill(page: Path) -> None:
    """Write what comes out into the traces of a page that show nothing of it."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for app, trace in reversed(pairs(blocks(page))):
        if "→" not in trace.text:
            made = [line for given, out in traced(app.text, trace.text) for line in (given, *(f"  {o}" for o in out))]
            first = trace.line - 1
            lines[first : first + trace.text.count("\n")] = [f"{line}\n" for line in made]
    page.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _fill(Path(name).resolve())
