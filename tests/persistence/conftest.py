"""The stores, on real servers: one of each per session, a table or folder of its own per test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyarrow import fs

from nadi.config import DataSource
from nadi.io.remotefiles import inside, is_remote, system_at
from nadi.persistence.contract import Store
from nadi.persistence.database import DatabaseStore
from nadi.persistence.files import FileStore
from nadi.persistence.remote import RemoteRevisions
from nadi.persistence.remoteturns import PATIENCE
from nadi.persistence.stores import url_of
from tests.servers.databases import Database, NotPossible, mariadb, postgres
from tests.servers.sparkcluster import SECRET, object_store

KINDS = ("files", "sqlite", "postgresql", "mariadb", "arrow", "s3")
IMPATIENT = 0.3
"""Seconds after which a writer in an object store counts as dead, where all but one are."""


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


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a folder in an S3-compatible server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRET.items():
            patch.setenv(name, value)
        with object_store(tmp_path_factory.mktemp("s3"), delay=0.0) as url:
            yield url


@dataclass
class Place:
    """A store to test. `open` gives another one on the same place, as another process would have it, and `reopened(where)` in another process."""

    kind: str
    where: Sequence[str]
    folder: Path
    server: Database | None = None
    patience: float = PATIENCE
    opened: list[Store] = field(default_factory=list)

    def open(self) -> Store:
        self.opened.append(reopened(self.where, self.patience))
        return self.opened[-1]

    @property
    def table(self) -> str:
        """The table of a database."""
        return self.where[1]

    def engine(self) -> sa.Engine:
        """The database behind it."""
        store = self.open()
        assert isinstance(store, DatabaseStore)
        return store._engine

    def blobs(self) -> set[str]:
        """The addresses of all blobs that are there."""
        store = self.open()
        if isinstance(store, DatabaseStore):
            with store._engine.connect() as connection:
                return set(connection.execute(sa.select(store.tables.segments.c.address)).scalars())
        if isinstance(store, RemoteRevisions):
            folders = store.objects.names(store._location, fs.FileType.Directory)
            found = [n for folder in folders for n in store.objects.names(f"{store._location}/{folder}/segments")]
        else:
            found = [path.name for path in self.folder.glob("revisions/*/segments/*")]
        return {name.removesuffix(".zst") for name in found if not name.endswith(".damaged")}

    def damage(self, app: str, address: str, change: Callable[[bytes], bytes | None]) -> None:
        """Change the stored bytes of a blob behind the store's back; None: remove them."""
        store = self.open()
        made = change(b"".join(store.blob(app, address)))
        if isinstance(store, DatabaseStore):
            rows = store.tables.segments
            with store._engine.begin() as connection:
                if made is None:
                    connection.execute(rows.delete().where(rows.c.address == address))
                else:
                    connection.execute(rows.update().where(rows.c.address == address).values(content=made))
        elif isinstance(store, RemoteRevisions):
            path = f"{store.folder(app)}/segments/{address}.zst"
            store.objects.delete(path)
            if made is not None:
                store.objects.put(path, [made])
        else:
            (file,) = self.folder.glob(f"revisions/*/segments/{address}.zst")
            file.unlink()
            if made is not None:
                file.write_bytes(made)


def reopened(where: Sequence[str], patience: float = IMPATIENT) -> Store:
    """The store at a place: a folder, a URL of `pyarrow.fs`, or the URL of a database and a table."""
    if len(where) == 2:
        return DatabaseStore(sa.make_url(where[0]), where[1])
    if where[0].startswith("arrow:"):
        return RemoteRevisions(fs.LocalFileSystem(), where[0].removeprefix("arrow:"), patience=patience)
    if is_remote(where[0]):
        return RemoteRevisions(*system_at(where[0]), patience=patience)
    return FileStore(Path(where[0]))


def place_of(
    kind: str, folder: Path, databases: Callable[[str], Database], request: pytest.FixtureRequest | None = None
) -> Place:
    if kind in ("files", "arrow"):
        return Place(kind, [f"{'' if kind == 'files' else 'arrow:'}{folder}/revisions"], folder)
    if kind == "s3":
        assert request is not None
        return Place(kind, [inside(request.getfixturevalue("s3"), uuid.uuid4().hex[:8])], folder)
    table = f"PERSISTENCE_TABLE_{uuid.uuid4().hex[:8]}"
    server = None if kind == "sqlite" else databases(kind)
    source = DataSource("DB", f"jdbc:sqlite:{folder}/revisions.db")
    if server is not None:
        source = DataSource("DB", server.jdbc, server.user, server.password)
    return Place(kind, [url_of(source).render_as_string(hide_password=False), table], folder, server)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, databases: Callable[[str], Database]) -> Iterator[Place]:
    """Every kind of store."""
    found = place_of(request.param, tmp_path, databases, request)
    yield found
    for store in found.opened:
        store.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()
