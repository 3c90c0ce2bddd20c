"""What a state folder fixes of its app: `<state>/pipeline.json`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from nadi.errors import NadiError, error
from nadi.io import durablefiles
from nadi.io.identity import OWN, first_numbers
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App
from nadi.received import read_json

FILE = "pipeline.json"
SHAPE = "shape"
"""The note that has it where nodes share apps (`nadi.pipeline.lives`)."""
VERSION = 4


class Noted(msgspec.Struct, frozen=True):
    """A note as any version has written it. Version 1 has `sources`, each a stream and a type, instead of `inputs`; versions 2 and 3 have no text, 3 has the
    number of tasks of Spark."""

    version: Annotated[int, msgspec.Meta(ge=1, le=VERSION)]
    sharding: str
    buckets: Annotated[int, msgspec.Meta(ge=1)]
    inputs: dict[str, Annotated[int, msgspec.Meta(ge=0)]] | None = None
    sources: list[list[str]] | None = None
    text: str = ""
    tasks: int | None = None


def noted(state: Path) -> Noted | None:
    """The note in a state folder; None before the first start. Errors: SHAPE_DAMAGED."""
    path = state / FILE
    try:
        found = read_json(path.read_bytes(), Noted)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as problem:
        raise error("SHAPE_DAMAGED", path=path, reason=problem) from problem
    missing = "sources" if found.version == 1 else "inputs"
    if getattr(found, missing) is None:
        raise error("SHAPE_DAMAGED", path=path, reason=f"it has no {missing}")
    return found


@dataclass(frozen=True, slots=True)
class Shape:
    """How an app is sharded, into how many buckets, and the number of each input; the text that its state belongs to ("": a version before did not note it)."""

    sharding: str
    buckets: int
    inputs: Mapping[str, int]
    text: str = ""

    def to_json(self) -> str:
        """As it is kept."""
        return json.dumps({"version": VERSION, **dataclasses.asdict(self)})

    def keep(self, state: Path) -> None:
        """Replace what the state folder has."""
        durablefiles.write_atomically(state / FILE, self.to_json().encode())


def read_text(state: Path) -> str:
    """The text that the state in a state folder belongs to; "" where it is not known. Errors: SHAPE_DAMAGED."""
    known = noted(state)
    return "" if known is None else known.text


def read_shape(state: Path, spec: AppSpec, app: App) -> Shape | None:
    """The shape that a state folder has; None before the first start. One of version 1 knows inputs by their places only: they must be those of the app.

    Errors: SHAPE_DAMAGED, APP_CHANGED.
    """
    known = noted(state)
    return None if known is None else _shape(known, state, spec, app)


def _shape(known: Noted, state: Path, spec: AppSpec, app: App) -> Shape:
    inputs: Mapping[str, int] | None = known.inputs
    if known.version == 1:
        sources = [[c.stream, c.type] for c in spec.user_sources(app)]
        if known.sources != sources:
            raise _changed(app, f"sources were {known.sources} and are {sources}", state)
        inputs = first_numbers(spec.user_sources(app))
    return Shape(known.sharding, known.buckets, inputs or {}, known.text)


def as_before(state: Path, app: App, spec: AppSpec) -> Shape:
    """What the first start has fixed; checks that inputs and sharding are still those of the state. Errors: SHAPE_DAMAGED, APP_CHANGED, DISK_FULL."""
    wanted = first_numbers(spec.user_sources(app))
    note = noted(state)
    if note is None:
        first = Shape(app.sharding.kind, spec.buckets, wanted, spec.text)
        first.keep(state)
        return first
    known = _shape(note, state, spec, app)
    if known.sharding != app.sharding.kind:
        raise _changed(app, f"its sharding was {known.sharding} and is {app.sharding.kind}", state)
    before, now = ({name for name in names if name not in OWN} for names in (known.inputs, wanted))
    if before != now:
        gone, fresh_ones = (" and ".join(sorted(names)) or "none" for names in (before - now, now - before))
        raise _changed(app, f"inputs that are gone: {gone}; new ones: {fresh_ones}", state)
    # an older note tells an upgrade what it finds, and stays as it is until then
    if known.text != spec.text and note.version == VERSION:
        known = dataclasses.replace(known, text=spec.text)
        known.keep(state)
    return known


def _changed(app: App, reason: str, state: Path) -> NadiError:
    return error("APP_CHANGED", app=app.name, reason=reason, folder=state)
