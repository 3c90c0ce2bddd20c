"""How other processes of the user reach an app that runs: `<state>/live.json`, there as long as its query is."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path

import msgspec

from nadi.errors import error
from nadi.io.durablefiles import read_note
from nadi.pipeline.node import is_locked
from nadi.pipeline.spec import AppSpec

MODULES = frozenset(str(field.default) for field in fields(AppSpec) if field.name in ("engine", "connectors"))


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
    """The app that runs on a state folder; None where none does. What a killed node has left does not count: nobody holds its lock.

    Its description names modules, which whoever asks will import: only those of nadi are let in, or what this process has imported by itself.

    Errors: STATE_FILE_NOT_READABLE.
    """
    try:
        found: Live = read_note(state / "live.json", Live)
    except FileNotFoundError:
        return None
    for module in (found.spec.engine, found.spec.connectors):
        if module not in MODULES and module not in sys.modules:
            reason = f"it names the module '{module[:80]}', which is none of nadi's engines and connectors"
            raise error("STATE_FILE_NOT_READABLE", path=state / "live.json", reason=reason)
    return found if is_locked(state.parent) else None
