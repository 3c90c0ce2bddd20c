"""Where processes of a node stop at a moment of their work that the kill test has named, and wait for what it does to them.

The test makes a file with the name of the moment in the folder that NADI_MOMENTS names, and in it the name of an app. The first process that comes to this
moment of this app renames the file to `<moment>.<pid>` and stops (SIGSTOP). It goes on where it was, if it is let go.

    half delta    a host, in the middle of the object with the deltas of a cut
    delta         a host, with this object on the disk
    base          a host or its forked child, in the middle of a base
    record        the node, before it writes the commit record of a cut; all sinks have committed
    half record   the node, in the middle of the record
    recorded      the node, with the record on the disk; nobody has been told
    moves         the node, about to let go of an app that it was asked to move (below); for these three, "" stands for any app
    raised        the node, after it has raised the epoch of this app; the hosts that it leaves do not know yet
    enters        the node, about to begin at the new place

In the same way it asks for what would not happen by itself: `<moment>.<pid>` says that it is done, `<moment>.no` that it cannot be.

    full          the disk is full in the middle of the deltas of a cut
    move          the app goes to another query, or, where it has no other, to other hosts
    other hosts   the app goes to other hosts
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from nadi.io import durablefiles
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.run import QueryRun
from nadi.pipeline.coordinator.share import Share
from nadi.pipeline.cutting.commitlog import Commit, CommitLog
from nadi.pipeline.places import OwnHosts, Place, Placement
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.folder import FolderStore

FOLDER = "NADI_MOMENTS"
AT_RECORDS = ("record", "half record", "recorded")

AT_MOVES = ("moves", "raised", "enters")

_appending = threading.local()
_moving: set[str] = set()
_put, _append, _write = FolderStore.put, CommitLog.append, durablefiles.write
_wanted, _move, _stay, _left, _enter = (
    Placement.wanted,
    Placement.move,
    Placement.stay,
    OwnHosts.left,
    Coordinator.enter,
)


def asked(moment: str, app: str, answer: str = "") -> bool:
    """Whether the test asks for this, which is answered with that."""
    wanted = Path(os.environ[FOLDER]) / moment
    with suppress(FileNotFoundError):  # it does not; or another process was first
        if wanted.read_text() in (app, ""):
            wanted.rename(wanted.with_name(f"{moment}.{answer or os.getpid()}"))
            return True
    return False


def hold(moment: str, app: str) -> None:
    """Stop here, if this is the moment that the test waits for."""
    if asked(moment, app):
        # To this thread, not to the process: any other thread may take a signal to the process, and this one would go on until then, into a lock.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def install() -> None:
    """Have this process, and the children that it forks, hold at their moments."""
    FolderStore.put = _put_object  # type: ignore[method-assign]
    CommitLog.append = _append_commit  # type: ignore[method-assign]
    durablefiles.write = _write_some
    Placement.wanted = _want_place  # type: ignore[method-assign]
    Placement.move = _move_place  # type: ignore[method-assign]
    Placement.stay = _stay_there  # type: ignore[method-assign]
    OwnHosts.left = _leave_hosts  # type: ignore[method-assign]
    Coordinator.enter = _enter_run  # type: ignore[method-assign]


def _put_object(store: FolderStore, name: str, pieces: Iterable[bytes]) -> None:
    app = Path(store.name).parent.name
    if name.startswith("b"):
        _put(store, name, _held("base", app, pieces))
        return
    _put(store, name, _held("half delta", app, pieces))
    hold("delta", app)


def _held(moment: str, app: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; in the middle of the first piece is the moment, and, of a delta, the end of the disk."""
    for number, piece in enumerate(pieces):
        if number:
            yield piece
            continue
        half = len(piece) // 2
        yield piece[:half]
        hold(moment, app)
        if moment == "half delta" and asked("full", app):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield piece[half:]


def _append_commit(log: CommitLog, commit: Commit) -> None:
    app = log._app
    hold("record", app)
    _appending.app = app
    try:
        _append(log, commit)
    finally:
        _appending.app = ""
    hold("recorded", app)


def _write_some(descriptor: int, data: bytes) -> int:
    app = getattr(_appending, "app", "")
    if not app:
        return _write(descriptor, data)
    written = _write(descriptor, data[: len(data) // 2 or 1])
    hold("half record", app)
    return written


def _want_place(placement: Placement, now: float, share: Share) -> Place | None:
    found = _wanted(placement, now, share)
    if found is not None:
        return found
    app = placement._spec.app
    for moment in ("move", "other hosts"):
        wanted = Path(os.environ[FOLDER]) / moment
        if wanted.exists() and wanted.read_text() == app:
            place = _elsewhere(placement, moment == "other hosts")
            if asked(moment, app, "no" if place is None else "") and place is not None:
                _moving.add(app)
                placement.next = place
                return place
    return None


def _elsewhere(placement: Placement, other_hosts: bool) -> Place | None:
    """A place where the app is not; None where there is none at present."""
    if placement.place.offset:
        return Place(not placement._sharing())
    if placement._sharing() and not other_hosts:
        return Place(not placement.place.alone)
    offset = placement._own.take(placement._spec)
    return None if offset is None else Place(True, offset)


def _move_place(placement: Placement, spec: AppSpec) -> AppSpec:
    if spec.app in _moving:
        hold("moves", spec.app)
    return _move(placement, spec)


def _stay_there(placement: Placement) -> None:
    """It has failed before it could move: the test's move is asked for again."""
    _stay(placement)
    app = placement._spec.app
    if app in _moving:
        _moving.discard(app)
        (Path(os.environ[FOLDER]) / "move").write_text(app)


def _leave_hosts(own: OwnHosts, before: AppSpec, now: AppSpec) -> None:
    if now.app in _moving:
        hold("raised", now.app)
    _left(own, before, now)


def _enter_run(coordinator: Coordinator, group: Group, run: QueryRun) -> None:
    app = group.spec.app
    if app in _moving:
        for moment in AT_MOVES:  # an earlier one does not come any more where the node began anew meanwhile
            hold(moment, app)
        _moving.discard(app)
    _enter(coordinator, group, run)
