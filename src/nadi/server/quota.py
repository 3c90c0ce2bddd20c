"""How many apps a user may have on a node: one user's apps take what the apps of others need to start.

with quota.one_more(user, body) as is_there:        # APPS_TOO_MANY
    saved = apps.deploy(body)
    is_there(saved.name)

Who deployed what is in a file, as long as the app is there. Administrators, and whoever may write files into the folder of apps, have no bound.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from nadi.errors import error
from nadi.io.durablefiles import read_note, write_atomically
from nadi.lang import parse_collecting
from nadi.plan.annotations import first
from nadi.server.security.users import User


class Quota:
    """See the module's text. From any thread. `names` are those of the apps that are there, `most` 0: there is no bound."""

    def __init__(self, file: Path, most: int, names: Callable[[], Collection[str]]) -> None:
        """Errors: STATE_FILE_NOT_READABLE."""
        self._file = file
        self._most = most
        self._names = names
        self._lock = threading.Lock()
        self._coming: Counter[str] = Counter()
        try:
            self._owners: dict[str, str] = read_note(file, dict[str, str])
        except FileNotFoundError:
            self._owners = {}

    @contextmanager
    def one_more(self, user: User | None, body: bytes) -> Iterator[Callable[[str], None]]:
        """While a user deploys a text, or updates what is there; what it gives is told the name of a new app. Errors: APPS_TOO_MANY, DISK_FULL."""
        coming = [] if user is None or user.is_admin or not self._most else [user.name]
        name = _name_of(body) if coming else ""
        with self._lock:
            there = set(self._names())
            if name in there:
                coming = []
            for one in coming:
                if self._count(one, there) >= self._most:
                    raise error("APPS_TOO_MANY", user=one, most=self._most)
                self._coming[one] += 1

        def is_there(new: str) -> None:
            with self._lock:  # from here on it counts as one that is there, and no more as one that comes
                self._arrive(coming)
                self._note(user, new)

        try:
            yield is_there
        finally:
            with self._lock:
                self._arrive(coming)

    def _arrive(self, coming: list[str]) -> None:
        while coming:
            self._coming[coming.pop()] -= 1

    def _note(self, user: User | None, name: str) -> None:
        there = set(self._names())
        kept = {app: owner for app, owner in self._owners.items() if app in there and app != name}
        if user is not None:
            kept[name] = user.name
        if kept != self._owners:
            write_atomically(self._file, json.dumps(kept).encode())
            self._owners = kept

    def _count(self, user: str, there: Collection[str]) -> int:
        return sum(owner == user and app in there for app, owner in self._owners.items()) + self._coming[user]


def _name_of(body: bytes) -> str:
    """The name that a text gives its app, "" where it gives none or cannot be read."""
    tree, _unread = parse_collecting(body.decode("utf-8", "replace"))
    named = first(tree.annotations, "app:name")
    return "" if named is None or not named.elements else named.elements[0].value
