"""The error stores of a node's apps, for those who ask over REST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from nadi.config import ErrorStoring
from nadi.errors import error
from nadi.io.errorstore import Wanted, row_of
from nadi.pipeline.errorview import ErrorView, view_of
from nadi.pipeline.live import Live
from nadi.pipeline.repeats import Sent, send_again
from nadi.server.apps import AppNotThere, live_in
from nadi.server.deployer import AppStatus

SENT_WITHIN = 30.0  # seconds that an answer waits for the batch that sends rows again
NO_ROWS = Sent(0, (), {})


class Known(Protocol):
    """The apps of the node."""

    def status(self, name: str) -> AppStatus | None: ...


class AppErrors:
    """See the module's text. All of it may be called from any thread. `folder_of` is what the folder of an app is called in the node's state folder.

    Errors of all of it: AppNotThere; those of a database, CONNECTION_UNAVAILABLE and REFUSED.
    """

    def __init__(
        self, state: Path, settings: ErrorStoring, apps: Known, folder_of: Callable[[str], str] = lambda name: name
    ) -> None:
        self._state = state
        self._settings = settings
        self._apps = apps
        self._folder_of = folder_of

    def rows(self, name: str, wanted: Wanted, limit: int) -> list[dict[str, Any]]:
        """The newest rows that are meant, oldest first; `replayed` says when (ms) one was sent again, None: never."""
        view = self._view(name)
        if view is None:
            return []
        sent = view.sent()
        return [{**row, "replayed": sent.get(row["id"])} for row in view.store.rows(wanted, limit)]

    def row(self, name: str, id_: str) -> dict[str, Any]:
        """One row. Errors: ERROR_NOT_FOUND."""
        view = self._view(name)
        if view is None:
            raise error("ERROR_NOT_FOUND", app=name, id=id_)
        return {**row_of(view.store, name, id_), "replayed": view.sent().get(id_)}

    def replay(self, name: str, ids: Sequence[str], again: bool = False, payload: str | None = None) -> Sent:
        """Send rows again, all of them or none; `payload` stands for that of the only one.

        Errors: APP_NOT_RUNNING, ERROR_NOT_FOUND, ERROR_REPLAYED, ERROR_NOT_REPLAYABLE, ANSWER_LATE, DISK_FULL.
        """
        view = self._view(name)
        if view is None:
            raise error("ERROR_NOT_FOUND", app=name, id=ids[0])
        rows = [row_of(view.store, name, id_) for id_ in dict.fromkeys(ids)]
        given = None if payload is None else payload.encode()
        return send_again(self._live(name), rows, repeat=again, payload=given, within=SENT_WITHIN)

    def replay_all(self, name: str, wanted: Wanted, again: bool = False) -> Sent:
        """Send again what is meant; what was sent before, or cannot be sent, is left out and told. Errors: APP_NOT_RUNNING, ANSWER_LATE, DISK_FULL."""
        view = self._view(name)
        if view is None:
            return NO_ROWS
        return send_again(self._live(name), view.store.rows(wanted), repeat=again, skip=True, within=SENT_WITHIN)

    def purge(self, name: str, wanted: Wanted) -> int:
        """Forget the rows that are meant; -> how many. Errors: DISK_FULL."""
        view = self._view(name)
        return 0 if view is None else view.store.purge(wanted)

    def _view(self, name: str) -> ErrorView | None:
        """None where the app has never run here."""
        if self._apps.status(name) is None:
            raise AppNotThere
        folder = self._state / self._folder_of(name)
        return view_of(name, folder, self._settings) if folder.is_dir() else None

    def _live(self, name: str) -> Live:
        return live_in(self._state, self._folder_of(name))
