"""`nadi check`: all errors of all apps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from nadi.cli.apptext import app_text
from nadi.cli.settings import settings
from nadi.config.variables import variables_of
from nadi.errors import Diagnostic, NadiError
from nadi.lang.refs import Refs
from nadi.pipeline.node import NodeOptions
from nadi.pipeline.runnable import problems

STATE = Path(".nadi")
"""Where a node keeps its secrets by default, which a deployment.yaml may name."""


def check(
    paths: Sequence[Path],
    as_json: bool,
    env: Sequence[str] = (),
    config: Path | None = None,
    conf: Sequence[str] = (),
) -> int:
    """Print every error of every file; the exit status: 1 if there is one, else 0. `config`: a deployment.yaml, for refs; `conf`: settings, as `nadi run` has
    them. Errors: INVALID_SETTING, SETTING_MALFORMED, those of secrets.

    `as_json` prints a JSON list of {file, line, column, endLine, endColumn, condition, class, message, next, severity} instead of
    text; lines and columns start at 1 and are 0 where an error has no place.
    """
    variables = variables_of(env)
    refs = {} if config is None else _refs(config)
    options = NodeOptions(conf=settings(conf))
    options.settings()
    found = {path: diagnostics_of(path, variables, refs, options) for path in paths}
    everything = [d for diagnostics in found.values() for d in diagnostics]
    if as_json:
        print(json.dumps([as_record(d) for d in everything], indent=2, ensure_ascii=False))
    else:
        for d in everything:
            print(d.render())
        print(_summary(found))
    return 1 if everything else 0


def diagnostics_of(
    path: Path, variables: Mapping[str, str], refs: Refs | None = None, options: NodeOptions | None = None
) -> tuple[Diagnostic, ...]:
    """All errors of one file: those of syntax or, where there are none, those for which it would not run."""
    try:
        text = app_text(path)
    except NadiError as unreadable:
        return (unreadable.diagnostic,)
    return problems(text, variables, str(path), refs, options)


def _refs(config: Path) -> Refs:
    from nadi.config.deployment import read_deployment, state_lookups  # with it comes pydantic, which takes a while

    return read_deployment(config, state_lookups(STATE)).refs


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
