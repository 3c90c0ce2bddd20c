"""The text of an app as the commands read it, and the variables that it gets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nadi.errors import error


def app_text(path: Path) -> str:
    """What is in a file. Errors: APP_NOT_READABLE."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        raise error("APP_NOT_READABLE", file=str(path), reason=reason) from reason


def variables_of(given: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that `--env` gives to apps: `NAME`, whose value is in the environment, or `NAME=VALUE`. An app gets no others: its author may not be who
    may read the environment.

    Errors: VARIABLE_NOT_IN_ENVIRONMENT.

    >>> variables_of(["CITY", "SIZE=5"], {"CITY": "Bonn", "SECRET": "x"})
    {'CITY': 'Bonn', 'SIZE': '5'}
    """
    known = os.environ if environment is None else environment
    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign and name not in known:
            raise error("VARIABLE_NOT_IN_ENVIRONMENT", name=name)
        found[name] = value if sign else known[name]
    return found
