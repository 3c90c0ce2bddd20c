"""The stores, on real servers: one of each per session, a table of its own per test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from nadi.config import DataSource
from nadi.persistence.contract import Store
from nadi.persistence.database import DatabaseStore
from nadi.persistence.files import FileStore
from nadi.persistence.stores import url_of
from tests.servers.databases import Database, NotPossible, mariadb, postgres

KINDS = ("files", "sqlite", "postgresql", "mariadb")


@pytest.fixture(scope="session")
def databases() -> Iterator[Callable[[str], Database]]:
    """A server by kind, started when first asked for."""
    running: dict[str, Database] = {}
    with ExitStack() as stack:

        def database(kind: str) -> Database:
            if kind not in running:
                try:
                    running[kind] = stack.enter_context({"postgresql": postgres, "mariadb": mariadb}[kind]())
                except NotPossible as reason:
                    pytest.skip(str(reason))
            return running[kind]

        yield database


@dataclass
class Place:
    """A store to test. `open` gives another one on the same place, as another process would have it."""

    kind: str
    open: Callable[[], Store]
    folder: Path
    server: Database | None = None
    table: str = ""

    def engine(self) -> sa.Engine:
        """The database behind it."""
        store = self.open()
        assert isinstance(store, DatabaseStore)
        return store._engine


def place_of(kind: str, folder: Path, databases: Callable[[str], Database]) -> Place:
    if kind == "files":
        return Place(kind, lambda: FileStore(folder / "revisions"), folder)
    table = f"PERSISTENCE_TABLE_{uuid.uuid4().hex[:8]}"
    server = None if kind == "sqlite" else databases(kind)
    source = DataSource("DB", f"jdbc:sqlite:{folder}/revisions.db")
    if server is not None:
        source = DataSource("DB", server.jdbc, server.user, server.password)
    return Place(kind, lambda: DatabaseStore(url_of(source), table), folder, server, table)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, databases: Callable[[str], Database]) -> Iterator[Place]:
    """Every kind of store."""
    found = place_of(request.param, tmp_path, databases)
    opened: list[Store] = []
    plain = found.open

    def noted() -> Store:
        opened.append(plain())
        return opened[-1]

    found.open = noted
    yield found
    for store in opened:
        store.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
