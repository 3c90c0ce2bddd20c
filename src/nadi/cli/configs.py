"""Checking and showing a deployment.yaml."""

from __future__ import annotations

from pathlib import Path

import yaml

from nadi.config.deployment import as_yaml, environment_lookups, read_deployment


def check(file: Path, home: Path) -> int:
    """Print what has no effect; -> exit status. Errors: INVALID_SETTING, those of secrets."""
    found = read_deployment(file, environment_lookups(home.resolve()))
    for notice in found.notices:
        print(f"warning: {notice}")
    listeners = ", ".join(f"{one.scheme}://{one.host}:{one.port}" for one in (*found.http, *found.query))
    print(f"{file}: a worker can start with it; it would listen at {listeners}")
    return 0


def show(file: Path, home: Path) -> int:
    """Print the settings; -> exit status. Errors: INVALID_SETTING, those of secrets."""
    print(
        yaml.safe_dump(
            as_yaml(read_deployment(file, environment_lookups(home.resolve()))), sort_keys=False, allow_unicode=True
        ),
        end="",
    )
    return 0
