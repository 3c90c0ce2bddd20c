"""`nadi explain app.siddhi`: what will run, and why."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nadi.cli.apptext import app_text
from nadi.functions.registry import default_registry
from nadi.lang import substitute
from nadi.plan import explained, explanation, plan_app
from nadi.plan.nodes import App


def explain(path: Path) -> str:
    """The plan of the app in a file, for people: groups, inputs, keys, buckets, queries, state, sinks. `${name}` comes from the environment.

    Raises:
        NadiError: the file cannot be read, or its text makes no app.
    """
    return explained(_planned(path))


def explain_json(path: Path) -> str:
    """The same as a JSON object (`--json`); its keys are those of `nadi.plan.explanation`."""
    return json.dumps(explanation(_planned(path)), indent=2, ensure_ascii=False) + "\n"


def _planned(path: Path) -> App:
    return plan_app(substitute(app_text(path), os.environ), default_registry(), file=str(path))
