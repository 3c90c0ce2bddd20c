"""The texts of apps that both nodes of a pair have, and the files that are in the folder of this node.

A file that somebody has put into the folder of the passive node by hand is not what both have: it is told, and the node does not take over with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from nadi.eventsync.appscopy import AppsCopy
from nadi.io.durablefiles import read_note, write_atomically
from nadi.replica.contract import AppFile as Copied
from nadi.replica.contract import Record
from nadi.server.appfiles import AppFile, AppFiles

log = structlog.get_logger("nadi.server")


class AppTexts:
    """Marks (`AppFile.mark`) by name. From any thread; what both have is on the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._shared: dict[str, str] = {}
        self._present: dict[str, str] = {}
        if path.exists():
            self._shared = read_note(path, dict[str, str])

    @property
    def shared(self) -> Mapping[str, str]:
        """What both nodes have, as this one knows."""
        with self._lock:
            return dict(self._shared)

    @property
    def present(self) -> Mapping[str, str]:
        """What is in the folder of this node, as it was last looked at."""
        with self._lock:
            return dict(self._present)

    def look(self, scan: Callable[[], dict[str, AppFile]]) -> tuple[dict[str, AppFile], bool]:
        """Note what is in the folder; -> that, and whether it is something else than before. Errors: those of `scan`."""
        with self._lock:  # else a look from before a change could be noted after it
            files = scan()
            found = {name: file.mark for name, file in files.items()}
            changed = found != self._present
            self._present = found
        return files, changed

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A file of the folder is changed and noted: nobody looks in between, to whom it would seem that somebody has changed it by hand."""
        with self._lock:
            yield

    def share(self, name: str, mark: str | None) -> None:
        """Both nodes have a text of this mark, or none (None)."""
        with self._lock:
            before = self._shared.get(name)
            if before == mark:
                return
            if mark is None:
                del self._shared[name]
            else:
                self._shared[name] = mark
            write_atomically(self._path, msgspec.json.encode(self._shared))

    @property
    def by_hand(self) -> list[str]:
        """The names of files that are not what both nodes have, and of those that are missing."""
        with self._lock:
            names = self._shared.keys() | self._present.keys()
            return sorted(name for name in names if self._shared.get(name) != self._present.get(name))


class CopiedTexts:
    """The folder as the copy of apps writes it (`nadi.eventsync.appscopy.AppTexts`). A file that somebody has put there by hand stays, and is none of the copy.
    `changed` is called when files have changed; it must return at once. Errors: APP_NOT_SAVED, OSError."""

    def __init__(self, files: AppFiles, texts: AppTexts, changed: Callable[[], object]) -> None:
        self._files = files
        self._texts = texts
        self._changed = changed

    def names(self) -> list[str]:
        found = self._scan()
        shared = self._texts.shared
        return sorted(name for name, file in found.items() if shared.get(name) == file.mark)

    def read(self, name: str) -> str | None:
        found = self._scan().get(name)
        return None if found is None or found.problem else found.text

    def write(self, name: str, text: str) -> None:
        with self._texts.changing():
            mark, there = AppFile(name, text).mark, self._scan().get(name)
            if there is not None and there.mark not in (mark, self._texts.shared.get(name)):
                log.warning("a file of the passive node is not what the active node has: it stays", app=name)
            elif there is None or there.mark != mark:
                self._files.write(name, text)
                log.info("the text of an app came from the active node", app=name)
            self._texts.share(name, mark)
            self._texts.look(self._scan)
        self._changed()

    def remove(self, name: str) -> None:
        with self._texts.changing():
            there = self._scan().get(name)
            if there is not None and there.mark == self._texts.shared.get(name):
                self._files.remove(name)
                log.info("the active node has undeployed an app", app=name)
            self._texts.share(name, None)
            self._texts.look(self._scan)
        self._changed()

    def _scan(self) -> dict[str, AppFile]:
        return self._files.scan()


class NotedCopy(AppsCopy):
    """The copy of apps; that both have a text is noted where the file was there before, too."""

    def __init__(self, texts: CopiedTexts) -> None:
        super().__init__(texts)
        self._noted = texts

    async def apply(self, record: Record) -> None:
        assert isinstance(record, Copied)
        if record.text is None:
            self._noted.remove(record.name)
        else:
            self._noted.write(record.name, record.text)
