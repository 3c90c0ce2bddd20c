"""`nadi explain app.siddhi`: what will run, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nadi.cli.apptext import app_text, variables_of
from nadi.functions.registry import default_registry
from nadi.lang import settled
from nadi.plan import explained, explanation, plan_app
from nadi.plan.nodes import App


def explain(path: Path, env: Sequence[str] = ()) -> str:
    """The plan of the app in a file, for people: groups, inputs, keys, buckets, queries, state, sinks.

    Raises:
        NadiError: the file cannot be read, or its text makes no app.
    """
    return explained(_planned(path, env))


def explain_json(path: Path, env: Sequence[str] = ()) -> str:
    """The same as a JSON object (`--json`); its keys are those of `nadi.plan.explanation`."""
    return json.dumps(explanation(_planned(path, env)), indent=2, ensure_ascii=False) + "\n"


def _planned(path: Path, env: Sequence[str]) -> App:
    kept, connections = settled(app_text(path), variables_of(env), file=str(path))
    return plan_app(kept, default_registry(), file=str(path), connections=connections)
