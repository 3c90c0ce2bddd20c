"""`nadi check`: all errors of all apps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from nadi.cli.apptext import app_text, variables_of
from nadi.errors import Diagnostic, NadiError
from nadi.functions.registry import default_registry
from nadi.lang import parse_collecting, settled_collecting
from nadi.plan import diagnose


def check(paths: Sequence[Path], as_json: bool, env: Sequence[str] = ()) -> int:
    """Print every error of every file; the exit status: 1 if there is one, else 0.

    `as_json` prints a JSON list of {file, line, column, endLine, endColumn, condition, class, message, next, severity} instead of
    text; lines and columns start at 1 and are 0 where an error has no place.
    """
    variables = variables_of(env)
    found = {path: diagnostics_of(path, variables) for path in paths}
    everything = [d for diagnostics in found.values() for d in diagnostics]
    if as_json:
        print(json.dumps([as_record(d) for d in everything], indent=2, ensure_ascii=False))
    else:
        for d in everything:
            print(d.render())
        print(_summary(found))
    return 1 if everything else 0


def diagnostics_of(path: Path, variables: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """All errors of one file: those of syntax or, where there are none, those of meaning."""
    try:
        text = app_text(path)
    except NadiError as unreadable:
        return (unreadable.diagnostic,)
    kept, connections, unset = settled_collecting(text, variables, file=str(path))
    _app, unread = parse_collecting(kept, file=str(path), connections=connections)
    if unset or unread:
        return (*(e.diagnostic for e in unset), *unread)
    return diagnose(kept, str(path), default_registry(), connections)


def as_record(d: Diagnostic) -> dict[str, object]:
    """An error as tools read it."""
    return {
        "file": d.file,
        "line": d.span.line,
        "column": d.span.column,
        "endLine": d.span.end_line,
        "endColumn": d.span.end_column,
        "condition": d.condition,
        "class": d.siddhi_class,
        "message": d.message,
        "next": d.next_step,
        "severity": "error",
    }


def _summary(found: dict[Path, tuple[Diagnostic, ...]]) -> str:
    """`2 apps checked, no errors`, `3 errors in 1 of 2 apps`."""
    errors = sum(map(len, found.values()))
    apps = f"{len(found)} app{'s' if len(found) != 1 else ''}"
    if not errors:
        return f"{apps} checked, no errors"
    wrong = sum(1 for diagnostics in found.values() if diagnostics)
    return f"{errors} error{'s' if errors != 1 else ''} in {wrong} of {apps}"
