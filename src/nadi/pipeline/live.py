"""How other processes of the user reach an app that runs: `<state>/live.json`, there as long as its query is."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from nadi.pipeline.node import is_locked
from nadi.pipeline.spec import AppSpec


class Live(msgspec.Struct, frozen=True):
    """The app as it runs: its description, and the process id of the JVM whose hosts have its kernels."""

    spec: AppSpec
    jvm: int


def write_live(state: Path, live: Live) -> None:
    """Say that an app runs."""
    fresh = state / f"live.json.{os.getpid()}"
    fresh.touch(mode=0o600)  # the description may have passwords
    fresh.write_bytes(msgspec.json.encode(live))
    fresh.replace(state / "live.json")


def remove_live(state: Path) -> None:
    """Say that it does not."""
    (state / "live.json").unlink(missing_ok=True)


def read_live(state: Path) -> Live | None:
    """The app that runs on a state folder; None where none does. What a killed node has left does not count: nobody holds its lock."""
    try:
        found = msgspec.json.decode((state / "live.json").read_bytes(), type=Live)
    except FileNotFoundError:
        return None
    return found if is_locked(state.parent) else None
