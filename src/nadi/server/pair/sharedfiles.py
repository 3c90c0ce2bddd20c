"""The folder of apps of the active node: each change of it is at the partner before anybody acts on it.

A change over REST is asked for before the file is written. What somebody changes in the folder by hand is asked for when it is found; until the partner has it
the app is what it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from nadi.errors import NadiError
from nadi.replica.contract import AppFile as Copied
from nadi.server.appfiles import AppFile, AppFiles
from nadi.server.pair.apptexts import AppTexts

T = TypeVar("T")

log = structlog.get_logger("nadi.server")


class Copies(Protocol):
    """What asks for a change, from any thread: the node of the pair, through its loop."""

    def prepare(self, record: Copied) -> int:
        """Errors: NOT_ACTIVE, CONNECTION_UNAVAILABLE."""
        ...

    def confirm(self, ticket: int) -> None: ...
    def abandon(self, ticket: int) -> None: ...


class SharedFiles(AppFiles):
    """See the module's text. Errors of `write` and `remove` besides: NOT_ACTIVE, CONNECTION_UNAVAILABLE."""

    def __init__(self, folder: Path, largest: int, copies: Copies, texts: AppTexts) -> None:
        super().__init__(folder, largest)
        self._copies = copies
        self._texts = texts
        self._turn = (
            threading.RLock()
        )  # else a look could take a text for new that somebody has replaced since it read it
        self._told: dict[str, AppFile] = {}  # as the last look has told

    def write(self, name: str, text: str) -> None:
        with self._turn:
            self._shared(name, text, lambda: super(SharedFiles, self).write(name, text))

    def remove(self, name: str) -> bool:
        with self._turn:
            return self._shared(name, None, lambda: super(SharedFiles, self).remove(name))

    def scan(self) -> dict[str, AppFile]:
        with self._turn:
            return self._scan()

    def _scan(self) -> dict[str, AppFile]:
        found, _ = self._texts.look(super().scan)
        told = {name: seen for name, file in found.items() if (seen := self._agreed(name, file)) is not None}
        for name in self._texts.shared.keys() - found.keys():
            left = self._agreed(name, None)
            if left is not None:
                told[name] = left
        self._told = told
        return told

    def _agreed(self, name: str, file: AppFile | None) -> AppFile | None:
        """A file as both nodes have it; as it was where the change cannot be copied now."""
        mark = None if file is None else file.mark
        if (file is not None and file.problem) or self._texts.shared.get(name) == mark:
            return file
        try:
            self._shared(name, None if file is None else file.text, lambda: None)
        except NadiError as reason:
            log.warning("a change of an app waits for the partner", app=name, reason=str(reason))
            return self._told.get(name)
        return file

    def _shared(self, name: str, text: str | None, do: Callable[[], T]) -> T:
        """Have the partner have it, do it, and note that both have it."""
        ticket = self._copies.prepare(Copied(name, text))
        try:
            done = do()
        except BaseException:
            self._copies.abandon(ticket)
            raise
        self._copies.confirm(ticket)
        self._texts.share(name, None if text is None else AppFile(name, text).mark)
        return done
