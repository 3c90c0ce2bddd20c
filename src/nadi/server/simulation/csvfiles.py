"""The CSV files of simulations, as they are uploaded."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nadi.errors import error
from nadi.server.simulation.shelf import Shelf, is_name

LARGEST = 8 * 1024 * 1024  # bytes


class CsvFiles:
    """See the module's text. `changed` is told of each change. All of it may be called from any thread."""

    def __init__(self, shelf: Shelf, changed: Callable[[], object]) -> None:
        self._shelf = shelf
        self._changed = changed
        self._writing = threading.Lock()

    def names(self) -> list[str]:
        """The names of the files."""
        return [name for name in self._shelf.names() if name.lower().endswith(".csv")]

    def add(self, name: str, data: bytes) -> None:
        """Keep a new file. Errors: CSV_NOT_TAKEN, CSV_TOO_LARGE, CSV_EXISTS, SIMULATION_FILE."""
        if not is_name(name) or not name.lower().endswith(".csv"):
            raise error("CSV_NOT_TAKEN", name=name[:100], reason="its name is not that of a .csv file")
        _check_size(name, data)
        with self._writing:
            if self._shelf.has(name):
                raise error("CSV_EXISTS", name=name)
            self._shelf.write(name, data)
        self._changed()

    def replace(self, name: str, data: bytes) -> None:
        """Put another content into a file. Errors: CSV_NOT_THERE, CSV_TOO_LARGE, SIMULATION_FILE."""
        with self._writing:
            self.check_there(name)
            _check_size(name, data)
            self._shelf.write(name, data)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a file. Errors: CSV_NOT_THERE, SIMULATION_FILE."""
        with self._writing:
            self.check_there(name)
            self._shelf.remove(name)
        self._changed()

    def check_there(self, name: str) -> None:
        """Errors: CSV_NOT_THERE."""
        if name not in self.names():
            raise error("CSV_NOT_THERE", name=name[:100])


def _check_size(name: str, data: bytes) -> None:
    if len(data) > LARGEST:
        raise error("CSV_TOO_LARGE", name=name, most=LARGEST)
