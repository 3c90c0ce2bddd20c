"""Manifests with a signature: a store that somebody else can write to gives back only what a holder of the key has put into it.

A manifest names its blobs by their SHA-256, so that with it all of a revision is signed. Signed, it is the eight bytes `NADIMAC` 0x01, an HMAC-SHA256 (32
bytes) over the app, the revision's name and the manifest, and the manifest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from nadi.errors import error
from nadi.persistence.contract import Sink, Store, Writing

MAGIC = b"NADIMAC\x01"
_SIZE = hashlib.sha256().digest_size


def signed(key: bytes, app: str, name: str, manifest: bytes) -> bytes:
    """A manifest with its signature."""
    return MAGIC + _signature(key, app, name, manifest) + manifest


def opened(key: bytes, app: str, name: str, stored: bytes) -> bytes:
    """The manifest of what is stored. Without a key a signature is not looked at.

    Raises:
        CannotRestoreSiddhiAppStateException: REVISION_NOT_SIGNED, by the holder of the key.
    """
    has, signature, manifest = stored.startswith(MAGIC), stored[len(MAGIC) :][:_SIZE], stored[len(MAGIC) + _SIZE :]
    if not key:
        return manifest if has else stored
    if not has:
        raise error("REVISION_NOT_SIGNED", name=name, reason="it has no signature")
    if not hmac.compare_digest(signature, _signature(key, app, name, manifest)):
        raise error("REVISION_NOT_SIGNED", name=name, reason="its signature is of another key, or it was changed")
    return manifest


def _signature(key: bytes, app: str, name: str, manifest: bytes) -> bytes:
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in (app.encode(), name.encode()):
        made.update(len(part).to_bytes(4, "big") + part)
    made.update(manifest)
    return made.digest()


class SigningStore:
    """A store whose manifests are signed with a key, or are not where it is b"". Implements `nadi.persistence.contract.Store`."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key

    @property
    def name(self) -> str:
        """That of the store behind it."""
        return self._store.name

    def apps(self) -> list[str]:
        return self._store.apps()

    def names(self, app: str) -> list[str]:
        return self._store.names(app)

    def manifest(self, app: str, name: str) -> bytes | None:
        """Errors: REVISION_NOT_SIGNED."""
        found = self._store.manifest(app, name)
        return None if found is None else opened(self._key, app, name, found)

    def blob(self, app: str, address: str) -> Iterator[bytes]:
        return self._store.blob(app, address)

    def set_aside(self, app: str, address: str) -> None:
        self._store.set_aside(app, address)

    @contextmanager
    def writing(self, app: str) -> Iterator[Writing]:
        with self._store.writing(app) as turn:
            yield _Turn(turn, app, self._key)

    def close(self) -> None:
        self._store.close()


class _Turn:
    """Implements `nadi.persistence.contract.Writing`."""

    def __init__(self, turn: Writing, app: str, key: bytes) -> None:
        self._turn, self._app, self._key = turn, app, key

    def names(self) -> list[str]:
        return self._turn.names()

    def manifest(self, name: str) -> bytes:
        return opened(self._key, self._app, name, self._turn.manifest(name))

    def size(self, address: str) -> int | None:
        return self._turn.size(address)

    def blob(self, address: str) -> AbstractContextManager[Sink]:
        return self._turn.blob(address)

    def save(self, name: str, manifest: bytes) -> None:
        self._turn.save(name, signed(self._key, self._app, name, manifest) if self._key else manifest)

    def delete(self, names: Iterable[str]) -> None:
        self._turn.delete(names)

    def sweep(self, keep: frozenset[str]) -> None:
        self._turn.sweep(keep)
