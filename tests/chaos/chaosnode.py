"""`nadi …` with the engine of the kill test."""

from __future__ import annotations

from functools import partial

from nadi.cli import main
from nadi.cli import run as command
from nadi.pipeline import supervised

supervised.DRAINS_WITHIN = (
    2.0  # an app that moves while its host stands still must have moved before the host counts as hung
)

if __name__ == "__main__":
    command.NodeOptions = partial(command.NodeOptions, engine="chaosengine")  # type: ignore[misc, assignment]
    main()
