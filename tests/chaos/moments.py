"""Processes of a node that are caught at a moment of their work, or asked to do something (`holding` says what there is)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from holding import FOLDER
from nodes import Late
from world import Process, World

THERE_WITHIN = 300.0  # seconds: also while the node is still starting
ANSWERS_WITHIN = 10.0  # seconds, of an app that is running


class Refused(Late):
    """No app does what was asked for."""


def want(world: World, moment: str, app: str) -> None:
    """Say what is waited for."""
    wanted = world.moments / moment
    fresh = wanted.with_suffix(".new")
    fresh.write_text(app)
    fresh.rename(wanted)


def caught(world: World, moment: str, app: str) -> Process:
    """The process that has come to a moment of an app: it stands still there. Errors: Late where none comes."""
    while True:
        want(world, moment, app)
        found = come(world, moment)
        if found is not None:
            return found


def come(world: World, moment: str) -> Process | None:
    """The process that has come to a moment that was wanted before; None where it was ended before it stood. Errors: Late where none comes."""
    world.node.until(lambda: bool(_at(world.moments, moment)), THERE_WITHIN)
    (path,) = _at(world.moments, moment)
    try:
        process = Process.of(int(path.suffix.removeprefix(".")))
        world.node.until(lambda: process.stopped() or not process.alive(), THERE_WITHIN)
    except ProcessLookupError:  # a child, by its host
        return None
    finally:
        path.unlink()
    return process if process.alive() else None


def asked(world: World, moment: str, apps: Sequence[str], within: float = THERE_WITHIN) -> str:
    """The first app that does what is asked for; one that cannot, or does not run, is passed over. Errors: Refused where none does."""
    for stale in _at(world.moments, moment):
        stale.unlink()
    until = time.monotonic() + within
    for app in itertools.cycle(apps):
        want(world, moment, app)
        last = time.monotonic() + ANSWERS_WITHIN
        world.node.until(lambda: bool(_at(world.moments, moment)) or time.monotonic() > last, THERE_WITHIN)  # noqa: B023 (called in this turn)
        (world.moments / moment).unlink(missing_ok=True)
        for path in _at(world.moments, moment):
            done, who = path.suffix != ".no", path.read_text()
            path.unlink()
            if done:
                return who
        if time.monotonic() > until:
            break
    raise Refused(f"no app of {apps} could be asked for '{moment}'\n{world.node.said()[-6_000:]}")


def _at(folder: Path, moment: str) -> list[Path]:
    return [path for path in folder.glob(f"{moment}.*") if path.suffix != ".new"]


__all__ = ["FOLDER", "THERE_WITHIN", "asked", "caught", "come", "want"]
