"""How another process of the user has a running node add and remove apps: over a Unix socket that `<state>/node.socket` names.

    NODE request    JSON: {"add": text, "file": where it came from} or {"remove": name}
    answer          JSON: the app, its state and last error; or the diagnostic of what went wrong

The request is answered when it is done. Who asks and goes away leaves the node at it. The socket is in a folder that is private to the user.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from nadi.errors import Diagnostic, NadiError, error, raised
from nadi.io.folderwatch import watch_folder
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.hosting.lane import LaneClient, LaneFailure, LaneServer, Op, Request
from nadi.pipeline.node import AppExit, AppProgress, AppText, is_locked

NAME = "node.socket"
HEARTBEAT = 0.5  # seconds between two looks whether a node that starts is there; a file that comes is told at once

_LOG = logging.getLogger("nadi.node")


class Asked(msgspec.Struct):
    """What is asked: to add the app of a text (with the values that it does not have itself), or to remove the one of a name."""

    add: str = ""
    file: str = ""
    remove: str = ""
    variables: dict[str, str] = {}


class Told(msgspec.Struct):
    """The answer: an app, its state and last error; or what went wrong."""

    app: str = ""
    state: str = ""
    last_error: str = ""
    wrong: Diagnostic | None = None


class NodeSocket:
    """The node's side, for the time of a block. Each request has a thread of its own."""

    def __init__(self, state: Path, add: Callable[[AppText], AppProgress], remove: Callable[[str], AppExit]) -> None:
        self._address = state / NAME
        self._add = add
        self._remove = remove
        self._folder = hosts_folder(os.getpid())
        self._server = LaneServer(self._folder / f"{secrets.token_hex(3)}.node", self._answer, _unnamed)
        fresh = state / f"{NAME}.new"
        fresh.write_text(str(self._server.path))
        fresh.replace(self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._address.unlink(missing_ok=True)
        self._server.close()
        with contextlib.suppress(OSError):  # another node of this process has one there
            self._folder.rmdir()

    def _answer(self, request: Request) -> bytes:
        asked = msgspec.json.decode(request.payload, type=Asked)
        try:
            told = self._done(asked)
        except NadiError as reason:
            told = Told(wrong=reason.diagnostic)
        return msgspec.json.encode(told)

    def _done(self, asked: Asked) -> Told:
        if asked.remove:
            ended = self._remove(asked.remove)
            return Told(ended.app, ended.state, "" if ended.error is None else str(ended.error))
        shown = self._add(AppText(asked.add, asked.file, asked.variables))
        return Told(shown.app, shown.state, shown.last_error)


def _unnamed(reason: BaseException) -> None:
    _LOG.error("a request to the node failed without a named condition", exc_info=reason)


def ask_node(state: Path, asked: Asked) -> Told:
    """Have the node on a state folder do something, and wait until it is done; while the node starts, for that.

    Errors: NODE_NOT_RUNNING, NODE_STOPPING, NODE_FAILED, and what the node says.
    """
    with _reached(state) as client:
        try:
            told = msgspec.json.decode(client.ask(Op.NODE, msgspec.json.encode(asked)), type=Told)
        except LaneFailure as reason:
            raise error("NODE_FAILED", reason=reason, log=state / "logs" / "node.log") from reason
        except OSError as reason:
            raise error("NODE_STOPPING", folder=state) from reason
    if told.wrong is not None:
        raise raised(told.wrong)
    return told


def _reached(state: Path) -> LaneClient:
    """A connection to the node, waited for as long as one holds the folder. Errors: NODE_NOT_RUNNING."""
    changed = threading.Event()
    watch = watch_folder(state, changed.set, NAME) if state.is_dir() else None
    try:
        while True:
            changed.clear()
            with contextlib.suppress(OSError):  # it is not there yet, or one that was killed has left it
                return LaneClient(Path((state / NAME).read_text()))
            if not is_locked(state):
                raise error("NODE_NOT_RUNNING", folder=state)
            changed.wait(HEARTBEAT)
    finally:
        if watch is not None:
            watch.close()
