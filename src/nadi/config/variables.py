"""The variables that an app is given: those that `--env` names, and no others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from nadi.errors import error


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
