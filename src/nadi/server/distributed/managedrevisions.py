"""The revisions of a worker of a cluster, for those who ask over REST: they are of whole apps, and managers have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from nadi.errors import error


class ManagedRevisions:
    """As `nadi.server.revisions.AppRevisions`. Errors of all of it: REVISIONS_FROM_MANAGER, which says whom to ask."""

    def __init__(self, managers: Iterable[str]) -> None:
        """`managers` are their addresses."""
        self._managers = ", ".join(managers)

    def backup(self, name: str) -> NoReturn:
        self._refuse()

    def of(self, name: str) -> NoReturn:
        self._refuse()

    def restore(self, name: str, revision: str = "", reset: bool = False) -> NoReturn:
        self._refuse()

    def clear(self, name: str, redeploy: bool) -> NoReturn:
        self._refuse()

    def clear_all(self, redeploy: bool) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise error("REVISIONS_FROM_MANAGER", managers=self._managers)
