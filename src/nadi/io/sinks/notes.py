"""Small notes of a sink in an object store, for hosts that have no folder in common: objects `<place>/<ordinal of the sink>/<name>` of JSON.

One host at a time writes to a bucket of a sink, so that a note has one writer. A note is replaced as a whole; readers see the old one or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from nadi.errors import error
from nadi.io.remotefiles import inside, shown, system_at
from nadi.received import read_json


class NoteFolder:
    """The notes of one sink, below a URL."""

    def __init__(self, url: str, name: str) -> None:
        self._url = inside(url, name)

    def __truediv__(self, name: str) -> Note:
        return Note(self._url, name)


class Note:
    """One note. Errors: STATE_LOG_FAILED, STATE_FILE_NOT_READABLE, INVALID_SETTING."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name

    def read(self) -> object:
        """The value in it, None where there is none."""
        with self._failing():
            system, path = _system(self._url)
            try:
                with system.open_input_file(f"{path}/{self._name}") as source:
                    found = source.read()
            except FileNotFoundError:
                return None
        try:
            return read_json(found)
        except msgspec.DecodeError as problem:
            raise error("STATE_FILE_NOT_READABLE", path=f"{shown(self._url)}/{self._name}", reason=problem) from problem

    def replace(self, value: object) -> None:
        """Put a value into it, durable when this returns."""
        content = json.dumps(value).encode()
        with self._failing():
            system, path = _system(self._url)
            with self._opened(system, path) as out:
                out.write(content)
            size = system.get_file_info(f"{path}/{self._name}").size
            if size != len(content):
                raise OSError(f"{self._name} has {size} bytes of {len(content)} that were written")

    def _opened(self, system: Any, path: str) -> Any:
        try:
            return system.open_output_stream(f"{path}/{self._name}")
        except FileNotFoundError:  # a system with folders, which object stores do without
            system.create_dir(path, recursive=True)
            return system.open_output_stream(f"{path}/{self._name}")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as reason:
            raise error("STATE_LOG_FAILED", store=shown(self._url), reason=reason) from reason


@cache
def _system(url: str) -> tuple[Any, str]:
    return system_at(url)
