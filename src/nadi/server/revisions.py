"""The revisions of a worker's apps, for those who ask over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.errors import NadiError, error
from nadi.persistence.contract import Store, time_of_name
from nadi.persistence.revisions import delete_revisions, read_revision
from nadi.persistence.stores import store_of
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.revision.revisions import ask_for
from nadi.pipeline.run import Node
from nadi.server.apps import AppNotThere
from nadi.server.deployer import ACTIVE, Deployer

MADE_WITHIN = 600.0  # seconds for a revision
STARTS_WITHIN = 60.0  # seconds that an answer waits for an app that starts


class AppRevisions:
    """See the module's text. All of it may be called from any thread, and waits until it is done."""

    def __init__(self, options: NodeOptions, deployer: Deployer, node: Node) -> None:
        self._options = options
        self._deployer = deployer
        self._node = node

    def backup(self, name: str) -> str:
        """Make a revision of what an app has committed, once it runs where it just starts; -> its name, `<ms>__<app>`.

        Errors: NO_PERSISTENCE_STORE, APP_NOT_RUNNING, REVISION_FAILED, ANSWER_LATE; AppNotThere.
        """
        self._check(name)
        status = self._deployer.started(name, STARTS_WITHIN)
        if status is None or status.state != ACTIVE:  # nobody would answer
            raise error("APP_NOT_RUNNING", app=name, folder=self._options.state)
        return ask_for(self._options.state / name, MADE_WITHIN)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The revisions of an app, oldest first; one that cannot be read says why. Errors: NO_PERSISTENCE_STORE, PERSISTENCE_STORE_FAILED; AppNotThere."""
        self._check(name)
        store = store_of(self._options.persistence, self._options.state)
        try:
            return [_told(store, name, revision) for revision in store.names(name)]
        finally:
            store.close()

    def restore(self, name: str, revision: str = "", reset: bool = False) -> str:
        """Stop an app, put a revision ("": the newest good one) into it, and start it again; the others go on. An app without such a revision is not stopped.
        -> the name of the revision.

        Errors: NO_PERSISTENCE_STORE, those of `Node.restore`: then the app goes on as it was; AppNotThere.
        """
        self._check(name)
        self._look_for(name, revision)
        found: str = self._between(name, lambda text: self._node.restore(text, revision, reset))
        return found

    def clear(self, name: str, redeploy: bool) -> None:
        """Delete the revisions of an app. `redeploy`: stop it, empty its state, too, and start it again; its inputs go on where they stood.

        Errors: NO_PERSISTENCE_STORE, PERSISTENCE_STORE_FAILED, those of `Node.let_go`; AppNotThere.
        """
        self._check(name)
        if redeploy:
            self._between(name, self._forget)
        else:
            self._delete(name)

    def clear_all(self, redeploy: bool) -> None:
        """Delete the revisions of all apps of this worker, as `clear`. Errors: likewise, of the first that cannot; the others are cleared all the same."""
        problems: list[Exception] = []
        for status in self._deployer.all():
            try:
                self.clear(status.name, redeploy)
            except AppNotThere:  # it was undeployed meanwhile
                continue
            except Exception as reason:
                problems.append(reason)
        if problems:
            raise problems[0]

    def _check(self, name: str) -> None:
        if self._deployer.status(name) is None:
            raise AppNotThere
        if not self._options.persistence.enabled:
            raise error("NO_PERSISTENCE_STORE", reason="'state.persistence' is not enabled")

    def _look_for(self, name: str, revision: str) -> None:
        store = store_of(self._options.persistence, self._options.state)
        try:
            if revision or not store.names(name):
                read_revision(store, name, revision or None)
        finally:
            store.close()

    def _between(self, name: str, do: Callable[[AppText], Any]) -> Any:
        came = self._deployer.between(name, do)
        if came is None:
            raise AppNotThere
        try:
            return came.result()
        finally:
            self._deployer.settled(name, STARTS_WITHIN)

    def _forget(self, text: AppText) -> None:
        self._delete(self._node.let_go(text))

    def _delete(self, name: str) -> None:
        store = store_of(self._options.persistence, self._options.state)
        try:
            delete_revisions(store, name)
        finally:
            store.close()


def _told(store: Store, app: str, revision: str) -> dict[str, Any]:
    told: dict[str, Any] = {"revision": revision, "made": time_of_name(revision, app)}
    try:
        return told | {"cut": read_revision(store, app, revision).revision.meta.cut["n"]}
    except NadiError as reason:
        return told | {"damaged": reason.diagnostic.message}
