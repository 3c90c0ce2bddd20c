"""A state log in what `pyarrow.fs` reaches: HDFS, object stores of the kinds of S3, Google and Azure.

An object is written whole under its own name (`nadi.io.remoteobjects`). A torn one that slips through is known to no commit record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nadi.errors import error
from nadi.io.remotefiles import shown, system_at
from nadi.io.remoteobjects import AT_ONCE, FAILURES, RemoteObjects


def store_at(url: str) -> RemoteStore:
    """The store at a URL. Errors: INVALID_SETTING."""
    system, path = system_at(url)
    return RemoteStore(system, path, shown(url))


class RemoteStore:
    """Implements `nadi.pipeline.statelog.store.ObjectStore` in the folder `path` of a file system."""

    ahead = AT_ONCE
    forks = False  # the clients have threads

    def __init__(self, system: Any, path: str, name: str = "") -> None:
        """`system` is a `pyarrow.fs.FileSystem`."""
        self._objects = RemoteObjects(system)
        self._folder = path.rstrip("/")
        self._name = name or path

    @property
    def name(self) -> str:
        return self._name

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        path = self._path(name)
        with self._failing(FileExistsError):
            if self._objects.exists(path):
                raise FileExistsError(f"{path} exists")
            self._objects.put(path, pieces)

    def get(self, name: str, offset: int, length: int) -> bytes:
        with self._failing(FileNotFoundError):
            return self._objects.part(self._path(name), offset, length)

    def list(self, prefix: str = "") -> list[str]:
        with self._failing():
            return [name for name in self._objects.names(self._folder) if name.startswith(prefix)]

    def delete(self, names: Iterable[str]) -> None:
        with self._failing():
            self._objects.delete_all(self._path(name) for name in names)

    def sweep(self) -> None:
        """Nothing lies beside the objects: torn ones have names like others."""

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @contextmanager
    def _failing(self, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        """Turns what the system says into STATE_LOG_FAILED, but for what is the caller's to hear."""
        try:
            yield
        except passing:
            raise
        except FAILURES as reason:
            raise error("STATE_LOG_FAILED", store=self._name, reason=reason) from reason
