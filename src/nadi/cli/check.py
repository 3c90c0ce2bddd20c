"""`nadi check`: all errors and warnings of all apps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from nadi.cli.apptext import app_text
from nadi.cli.settings import settings
from nadi.config.variables import variables_of
from nadi.errors import Diagnostic, NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.lang import parse
from nadi.lang.refs import Refs
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.runnable import Further, remarks
from nadi.plan.distribution import distribute
from nadi.plan.distribution.dist import is_distributed
from nadi.plan.nodes import App

REACH = "nadi.connector."
"""How the names of settings begin that say what connectors may reach."""

STATE = Path(".nadi")
"""Where a node keeps its secrets by default, which a deployment.yaml may name."""


def check(
    paths: Sequence[Path],
    as_json: bool,
    env: Sequence[str] = (),
    config: Path | None = None,
    conf: Sequence[str] = (),
    home: Path | None = None,
) -> int:
    """Print every error and warning of every file; the exit status: 1 if there is an error, else 0. `config`: a deployment.yaml, for refs and
    for what connectors may reach; `conf`: settings, as `nadi run` has them; `home`: that of the worker which is to take the apps.

    An app with @dist is checked for a manager, too. Errors: INVALID_SETTING, SETTING_MALFORMED, those of secrets.

    `as_json` prints a JSON list of {file, line, column, endLine, endColumn, condition, class, message, next, severity} instead of
    text; lines and columns start at 1 and are 0 where an error has no place.
    """
    variables = variables_of(env)
    refs, options = _node(config, settings(conf), home)
    options.reach()
    further = partial(deployable, home is not None)
    found = {path: diagnostics_of(path, variables, refs, options, further) for path in paths}
    everything = [d for diagnostics in found.values() for d in diagnostics]
    if as_json:
        print(json.dumps([as_record(d) for d in everything], indent=2, ensure_ascii=False))
    else:
        for d in everything:
            print(d.render())
        print(_summary(found))
    return 1 if any(not d.warning for d in everything) else 0


def diagnostics_of(
    path: Path,
    variables: Mapping[str, str],
    refs: Refs | None = None,
    options: NodeOptions | None = None,
    further: Further = lambda _app, _text: None,
) -> tuple[Diagnostic, ...]:
    """All errors of one file: those of syntax or, where there are none, those for which it would not run; and warnings."""
    try:
        text = app_text(path)
    except NadiError as unreadable:
        return (unreadable.diagnostic,)
    return remarks(text, variables, str(path), refs, options, further)


def deployable(on_worker: bool, app: App, text: AppText) -> None:
    """What a worker asks of an app beside what `nadi run` asks, and a manager of one with @dist. Errors: APP_NAME_MISSING, APP_NAME_INVALID,
    APP_NAME_RESERVED, those of @dist."""
    divided = is_distributed(parse(text.text))
    if on_worker or divided:
        from nadi.server.preparation import named

        named(app)
    if divided:
        distribute(text.text, default_registry(), connectors, connections=text.variables, file=text.file)


def _node(config: Path | None, conf: dict[str, str], home: Path | None) -> tuple[Refs, NodeOptions]:
    """What the node has that is to run the apps: a worker with this home, or `nadi run`, which takes of a deployment.yaml what connectors may reach."""
    if config is None and home is None:
        return {}, NodeOptions(conf=conf)
    from nadi.config.deployment import Deployment, environment_lookups, read_deployment, state_lookups  # with pydantic

    lookups = state_lookups(STATE) if home is None else environment_lookups(home.resolve())
    found = Deployment() if config is None else read_deployment(config, lookups)
    if home is None:
        bounds = {name: value for name, value in found.conf.items() if name.startswith(REACH)}
        return found.refs, NodeOptions(conf=bounds | conf, sources=found.sources_of_apps)
    from nadi.server.home import open_home

    place = open_home(home, found.sections.deployment.repository_location)
    options = NodeOptions(
        place.state,
        found.sections.spark.master,
        conf=found.conf | conf,
        persistence=found.persistence,
        error_store=found.error_store,
        home=place.folder,
        closed=place.closed(found),
        sources=found.sources_of_apps,
    )
    return found.refs, options


def as_record(d: Diagnostic) -> dict[str, object]:
    """An error or warning as tools read it."""
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
        "severity": "warning" if d.warning else "error",
    }


def _summary(found: dict[Path, tuple[Diagnostic, ...]]) -> str:
    """`2 apps checked, no errors`, `3 errors in 1 of 2 apps, 1 warning`."""
    errors = [sum(not d.warning for d in diagnostics) for diagnostics in found.values()]
    warnings = sum(map(len, found.values())) - sum(errors)
    apps = _many(len(found), "app")
    more = f", {_many(warnings, 'warning')}" if warnings else ""
    if not any(errors):
        return f"{apps} checked, no errors{more}"
    return f"{_many(sum(errors), 'error')} in {sum(map(bool, errors))} of {apps}{more}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
