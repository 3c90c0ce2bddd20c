"""The error store that a configuration names, and what the state folder of an app says of where its rows are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nadi.config import DataSource, ErrorStoring
from nadi.errors import NadiError, error
from nadi.io.durablefiles import make_folder, read_note, write_atomically
from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import ErrorStore

if TYPE_CHECKING:
    from nadi.databases import Address

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}")


ERRORS = "nadi_errors"
"""The table in the database of the cuts, for apps that another node may go on with."""


def error_store(state: Path, app: str, settings: ErrorStoring, run: str = "") -> ErrorStore:
    """The store of an app with this state folder; `run` is what its rows in a database are known by ("": a name that the folder has).

    Errors: INVALID_SETTING.
    """
    if settings.datasource is None:
        return FileErrorStore(state)
    if not _TABLE.fullmatch(settings.table):
        wanted = "a name of letters, digits and '_'"
        raise error("INVALID_SETTING", name="error.store.config.table", value=settings.table, wanted=wanted)
    from nadi.io.errortable import TableErrorStore  # with it comes SQLAlchemy, which takes half a second

    return TableErrorStore(state, app, address_of(settings.datasource), settings.table, run)


def address_of(source: DataSource) -> Address:
    """The database of a data source. Errors: INVALID_SETTING."""
    from nadi.databases import Address  # see above

    address = Address.of(source)
    try:
        _ = address.parsed
    except NadiError as problem:
        value = source.jdbc_url.split("?")[0]
        wanted = "jdbc:{postgresql,mysql,mariadb}://host:port/database or jdbc:sqlite:path"
        raise error("INVALID_SETTING", name=f"jdbcUrl of {source.name}", value=value, wanted=wanted) from problem
    return address


def note_store(state: Path, store: ErrorStore) -> None:
    """Say in the state folder where the rows are, so that nobody takes an empty file for an app without errors. Errors: DISK_FULL."""
    elsewhere = "" if isinstance(store, FileErrorStore) else store.name
    path = _note(state)
    if elsewhere != noted_store(state):
        make_folder(path.parent)
        write_atomically(path, json.dumps({"database": elsewhere}).encode())


def noted_store(state: Path) -> str:
    """The database that has the rows of an app, "" where the state folder has them."""
    try:
        return str(read_note(_note(state))["database"])
    except FileNotFoundError:
        return ""


def _note(state: Path) -> Path:
    return state / "errors" / "store.json"
