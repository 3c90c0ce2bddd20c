"""Whose address it is: where a source listens belongs to the app that had it first, until that app is undeployed, also while it is stopped or starts again.

claims = Claims(home.folder / "addresses.json", preparation.addresses)
claims.take("Orders", text)     # ADDRESS_TAKEN where it is another app's
claims.drop("Orders")           # it is undeployed

Else an app could wait for a moment in which another one is stopped, and get the messages of its senders. The file outlasts a restart of the node.
"""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from nadi.errors import error
from nadi.io.contract import Place
from nadi.io.durablefiles import read_note, write_atomically
from nadi.io.registry import connectors, source_kind
from nadi.pipeline.node import AppText
from nadi.plan.nodes import App


@dataclass(frozen=True, slots=True, order=True)
class At:
    """Where a source listens."""

    host: str
    port: int
    path: str
    secure: bool

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"

    def bars(self, other: At) -> bool:
        """Whether what another app listens at cannot be beside this.

        >>> At("0.0.0.0", 80, "/a", False).bars(At("127.0.0.1", 80, "/a", False))
        True
        >>> At("10.0.0.1", 80, "/a", False).bars(At("10.0.0.2", 80, "/a", False))
        False
        >>> At("localhost", 80, "/a", False).bars(At("localhost", 80, "/b", False))
        False
        """
        if self.port != other.port or _are_apart(self.host, other.host):
            return False
        return self.path == other.path or self.secure != other.secure


def _are_apart(one: str, other: str) -> bool:
    """Whether two hosts are addresses of their own; a name may be any of them."""
    try:
        found = ipaddress.ip_address(one), ipaddress.ip_address(other)
    except ValueError:
        return False
    return found[0] != found[1] and not any(address.is_unspecified for address in found)


def listens_at(planned: App) -> list[At]:
    """Where the sources of an app listen; a port that the system chooses is nobody's."""
    place, found = Place(planned.name, Path()), []
    for source in connectors(planned, "source"):
        kind = source_kind(source.type)
        if kind.address is not None:
            at = kind.address(source, place)
            found.append(At(at.host, at.port, at.path, at.secure))
    return [at for at in found if at.port]


class Claims:
    """See the module's text. From any thread."""

    def __init__(self, file: Path | None, addresses: Callable[[AppText], Sequence[At]]) -> None:
        """Without a file nothing outlasts the process. Errors: STATE_FILE_NOT_READABLE."""
        self._file = file
        self._addresses = addresses
        self._lock = threading.Lock()
        self._held = {} if file is None else _read(file)

    def take(self, app: str, text: AppText) -> None:
        """Have an app listen where its text says, and nowhere else any more. Errors: ADDRESS_TAKEN, then it has what it had."""
        wanted = tuple(sorted(set(self._addresses(text))))
        with self._lock:
            for owner, held in sorted(self._held.items()):
                for at in wanted:
                    if owner != app and any(at.bars(other) for other in held):
                        raise error("ADDRESS_TAKEN", app=app, address=at, owner=owner)
            self._replace({**self._held, app: wanted})

    def drop(self, app: str) -> None:
        """An app is undeployed."""
        with self._lock:
            self._replace({name: held for name, held in self._held.items() if name != app})

    def keep(self, apps: Collection[str]) -> None:
        """All other apps are undeployed."""
        with self._lock:
            self._replace({name: held for name, held in self._held.items() if name in apps})

    def _replace(self, held: dict[str, tuple[At, ...]]) -> None:
        held = {name: ats for name, ats in held.items() if ats}
        if held != self._held and self._file is not None:
            plain = {name: [astuple(at) for at in ats] for name, ats in held.items()}
            write_atomically(self._file, json.dumps(plain).encode())
        self._held = held


def _read(file: Path) -> dict[str, tuple[At, ...]]:
    try:
        found = read_note(file, dict[str, list[tuple[str, int, str, bool]]])
    except FileNotFoundError:
        return {}
    return {name: tuple(At(*at) for at in ats) for name, ats in found.items()}
