"""The state folder of an app that other nodes run, too: it has only what the node itself has put there since it was the last one to run the app.

    <state>/life.json       which life of the app the folder belongs to, with which owner's epoch it was last run here, and the shape that was found then
    note "life"             the life: an app that is undeployed and deployed again has another one
    note "shape"            what `pipeline.json` has (`nadi.pipeline.shape`)

Notes are in the database of the cuts (`nadi.io.appnotes`). A folder that another node has run the app after is emptied: what it knows is of yesterday.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from nadi.errors import error
from nadi.io import durablefiles
from nadi.pipeline.cutting.begins import fetch_begin
from nadi.pipeline.cutting.cutlogs import last_owner, open_cut_log
from nadi.pipeline.cutting.restored import FOLDER
from nadi.pipeline.shape import FILE, SHAPE
from nadi.pipeline.spec import AppSpec

LIFE = "life.json"


class Life(msgspec.Struct, frozen=True):
    """See the module's text. No shape: none was noted."""

    life: str
    owner: int
    shape: str = ""


def settle_in(spec: AppSpec) -> None:
    """Have the state folder of an app as its notes say, before it is looked at. Errors: CONNECTION_UNAVAILABLE, REFUSED, DISK_FULL."""
    if not spec.travels:
        return
    state, notes = Path(spec.state), spec.open_notes()
    before = notes.read("life")
    life = str(notes.once("life", lambda: os.urandom(8).hex()))
    shape = notes.read(SHAPE) or ""
    mine = _read(state)
    # older than notes are: only this node has run it
    is_older = mine is None and before is None and open_cut_log(spec).last() is not None
    if not is_older and (mine is None or (mine.life, mine.shape) != (life, shape) or mine.owner < last_owner(spec)):
        _empty(state)
    durablefiles.make_folder(state)
    begins = fetch_begin(spec, state / FOLDER) or str(shape)
    if begins and not (state / FILE).exists():
        durablefiles.write_atomically(state / FILE, begins.encode())
    durablefiles.write_atomically(state / LIFE, msgspec.json.encode(Life(life, spec.owner, str(shape))))


def give_shape(spec: AppSpec) -> None:
    """Note the shape of an app that this run has taken over. Errors: TAKEN_MEANWHILE where it was another one when this node looked; those of the database,
    FENCED."""
    state, notes = Path(spec.state), spec.open_notes()
    mine, known = _read(state), notes.held(SHAPE) or ""
    shape = (state / FILE).read_text()
    if mine is not None and known != mine.shape and known != shape:
        raise error("TAKEN_MEANWHILE", app=spec.app)
    if known != shape:
        notes.replace(SHAPE, shape)
        if mine is not None:
            durablefiles.write_atomically(state / LIFE, msgspec.json.encode(Life(mine.life, mine.owner, shape)))


def _read(state: Path) -> Life | None:
    try:
        found: Life = durablefiles.read_note(state / LIFE, Life)
    except FileNotFoundError:
        return None
    return found


def _empty(state: Path) -> None:
    for path in state.iterdir() if state.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            durablefiles.remove(path)
