"""The apps of the passive node: none runs. Each is checked as it would be before it ran, and what it needs is compiled, so that a take-over finds it ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from nadi.errors import NadiError, error
from nadi.io.folderwatch import watch_folder
from nadi.pipeline.node import AppText
from nadi.pipeline.ondemand import Found
from nadi.server.appfiles import AppFile, AppFiles
from nadi.server.apps import AppNotThere, detailed, names_of
from nadi.server.deployer import INACTIVE, AppStatus
from nadi.server.pair.apptexts import AppTexts

PASSIVE = "passive"

log = structlog.get_logger("nadi.server")


class Preparation(Protocol):
    """What a file has to go through before a node gets it: `nadi.server.preparation.AppPreparation`."""

    def checked(self, file: AppFile) -> AppText: ...


class Work(Protocol):
    """Compiling and loading that is under way, or over."""

    @property
    def is_over(self) -> bool: ...
    def close(self) -> None: ...


class Compiles(Protocol):
    """Compiles and loads what texts need, beside. Returns at once."""

    def __call__(self, texts: Mapping[str, AppText]) -> Work: ...


class PassiveApps:
    """Looks at the folder when it changes, and every `interval` seconds. `told` is called when files are others than before."""

    def __init__(
        self,
        files: AppFiles,
        texts: AppTexts,
        preparation: Preparation,
        compiles: Compiles,
        interval: float,
        told: Callable[[], object],
    ) -> None:
        self._files = files
        self._texts = texts
        self._preparation = preparation
        self._compiles = compiles
        self._interval = interval
        self._told = told
        self._woken = threading.Event()
        self._looking = threading.Lock()
        self._over = False
        self._seen: dict[str, AppFile] = {}
        self._statuses: dict[str, AppStatus] = {}
        self._checked: dict[str, AppText] = {}
        self._compiling: Work | None = None
        self._has_looked = False
        self._thread = threading.Thread(target=self._run, name="passive-apps", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Files have changed. From any thread; returns at once."""
        self._woken.set()

    def close(self) -> None:
        """Look no more."""
        self._over = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._compiling is not None:
            self._compiling.close()

    def waits(self) -> str:
        """Why apps would not start at once if this node became active now; "" where they would."""
        if not self._has_looked:
            return "its apps have not been looked at yet"
        compiling = self._compiling
        return "" if compiling is None or compiling.is_over else "queries of its apps are being compiled, and loaded"

    # ---- as `nadi.server.apps.NodeApps`

    def names(self, active: bool | None = None) -> list[str]:
        return names_of(self.statuses(), active)

    def statuses(self) -> list[AppStatus]:
        return [found for _, found in sorted(self._statuses.items())]

    def status(self, name: str) -> AppStatus | None:
        return self._statuses.get(name)

    def details(self, name: str) -> dict[str, Any] | None:
        found = self.status(name)
        return None if found is None else detailed(found)

    def is_active(self, name: str) -> bool:
        """None is."""
        return False

    def ask(self, name: str, query: str) -> Found | None:
        """Errors: APP_NOT_RUNNING."""
        if self.status(name) is None:
            raise AppNotThere
        raise error("APP_NOT_RUNNING", app=name, folder=self._files.folder)

    # ---- looking

    def _run(self) -> None:
        watch = watch_folder(self._files.folder, self._woken.set)
        try:
            while not self._over:
                self._woken.clear()
                try:
                    self.look()
                except OSError as reason:
                    log.warning("the folder of apps cannot be read", folder=str(self._files.folder), reason=str(reason))
                except Exception:  # whatever it is, the next look is another attempt
                    log.exception("the apps of the passive node could not be looked at")
                self._woken.wait(self._interval)
        finally:
            if watch is not None:
                watch.close()

    def look(self) -> None:
        """Check what is in the folder now. Errors: OSError."""
        with self._looking:
            found, changed = self._texts.look(self._files.scan)
            marks = {name: file.mark for name, file in found.items()}
            if changed or marks != {name: file.mark for name, file in self._seen.items()}:
                self._check(found)
                self._seen = found
                self._told()
            self._has_looked = True

    def _check(self, found: Mapping[str, AppFile]) -> None:
        statuses: dict[str, AppStatus] = {}
        checked: dict[str, AppText] = {}
        for name, file in found.items():
            before = self._seen.get(name)
            try:
                if before is not None and before.mark == file.mark and name in self._statuses:
                    statuses[name] = self._statuses[name]
                    if name in self._checked:
                        checked[name] = self._checked[name]
                else:
                    checked[name] = self._preparation.checked(file)
                    statuses[name] = AppStatus(name, file.text, PASSIVE)
            except NadiError as reason:
                statuses[name] = AppStatus(name, file.text, INACTIVE, str(reason))
            except Exception as reason:  # whatever it is, the other apps are to be ready
                log.exception("an app could not be checked", app=name)
                statuses[name] = AppStatus(name, file.text, INACTIVE, repr(reason))
        self._statuses, self._checked = statuses, checked
        if not self._over:
            if self._compiling is not None:
                self._compiling.close()
            self._compiling = self._compiles(checked)
