"""`nadi test`: the scenarios beside apps, run in this process on a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nadi.config.variables import variables_of
from nadi.errors import NadiError, error
from nadi.errors.readable import readable
from nadi.testing.report import Difference, headline, lines, origin_lines
from nadi.testing.rows import shown
from nadi.testing.scenarios import Case, Outcome, cases, files_in, run, told

_STYLES = {"=": "dim", "≠": "yellow", "-": "red", "+": "magenta"}


def run_all(
    places: Sequence[Path], only: str, as_json: bool, console: Console | None = None, env: Sequence[str] = ()
) -> int:
    """Run the scenarios of the files, or of those in the folders, and print what differs; the exit status: 1 if one fails, else 0.

    `only` selects scenarios by a part of `file: name`, whatever its case. `as_json` prints an object instead of text: passed, failed, and
    scenarios (a list of file, line, name, passed, error, differences), see `as_record`. `env` is what `--env` says: apps get these variables, where neither
    their scenario nor its file has them.

    Raises:
        NO_TESTS: there is no scenario. VARIABLE_NOT_IN_ENVIRONMENT.
    """
    variables = variables_of(env)
    outcomes = list(_outcomes(files_in(places), only, variables))
    if not outcomes:
        raise error("NO_TESTS", place=", ".join(map(str, places)), filter=f" with '{only}' in its name" if only else "")
    failed = sum(not outcome.passed for outcome in outcomes)
    if as_json:
        records = [as_record(outcome) for outcome in outcomes]
        made = {"passed": len(outcomes) - failed, "failed": failed, "scenarios": records}
        print(readable(json.dumps(made, indent=2, ensure_ascii=False), "\n"))
    else:
        _print(outcomes, console or Console())
    return 1 if failed else 0


def _outcomes(files: Sequence[Path], only: str, variables: Mapping[str, str]) -> Iterator[Outcome]:
    """What came of all scenarios; a file that cannot be read is one that fails."""
    for file in files:
        try:
            found = cases(file)
        except NadiError as problem:
            yield Outcome(str(file), problem.diagnostic.span.line, "", (), problem)
            continue
        yield from (run(case, variables) for case in found if _selected(case, only))


def _selected(case: Case, only: str) -> bool:
    return only.lower() in f"{case.document.file}: {case.scenario.name}".lower()


# ---- text ----------------------------------------------------------------------------------------------------------


def _print(outcomes: Sequence[Outcome], console: Console) -> None:
    for outcome in outcomes:
        if console.is_terminal:
            _draw(outcome, console)
        else:
            print("\n".join(map(readable, _lines(outcome))), file=console.file)
    failed = sum(not outcome.passed for outcome in outcomes)
    scenarios = f"{len(outcomes)} scenario{'s' if len(outcomes) != 1 else ''}"
    end = f"{scenarios}, {failed} failed" if failed else f"{scenarios} passed"
    console.print(end, style="red" if failed else "green", markup=False, highlight=False)


def _title(outcome: Outcome) -> str:
    name = f": {outcome.name}" if outcome.name else ""
    return f"{'passed' if outcome.passed else 'FAILED'}  {outcome.file}{name}"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield _title(outcome)
    for line in told(outcome):
        yield f"  {line}"


def _draw(outcome: Outcome, console: Console) -> None:
    console.print(Text(_title(outcome), style="green" if outcome.passed else "bold red"))
    if outcome.error is not None:
        console.print(Padding(Text(readable(str(outcome.error), "\n")), (0, 0, 0, 2)))
    for found in outcome.differences:
        console.print(Padding(Text(readable(f"{outcome.file}:{found.line}: {headline(found)}")), (0, 0, 0, 2)))
        if found.pairs:
            console.print(Padding(_table(found), (0, 0, 0, 4)))
        console.print(Text("\n".join(f"  {line}" for line in origin_lines(found))))


def _table(found: Difference) -> Table:
    table = Table("", "expected", "came", pad_edge=False)
    for mark, wanted, came in lines(found):
        table.add_row(
            mark, Text(readable(wanted), overflow="fold"), Text(readable(came), overflow="fold"), style=_STYLES[mark]
        )
    return table


# ---- for tools -----------------------------------------------------------------------------------------------------


def as_record(outcome: Outcome) -> dict[str, object]:
    """A scenario as tools read it: differences are {line, what, rows, queries}, rows {mark, expected, came} with rows as a test file has them."""
    return {
        "file": outcome.file,
        "line": outcome.line,
        "name": outcome.name,
        "passed": outcome.passed,
        "error": None if outcome.error is None else str(outcome.error),
        "differences": [_record(found) for found in outcome.differences],
    }


def _record(found: Difference) -> dict[str, object]:
    rows = [
        {
            "mark": pair.mark,
            "expected": None if pair.expected is None else shown(pair.expected, found.start, True),
            "came": None if pair.actual is None else shown(pair.actual, found.start, True),
        }
        for pair in found.pairs
    ]
    queries = [{"query": o.name, "line": o.line, "text": o.text} for o in found.origins]
    return {"line": found.line, "what": headline(found), "rows": rows, "queries": queries}
