"""An empty database of each kind, as a fixture: the root's `conftest.py` has it for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from servers import databases as servers
from sqlalchemy import Engine, MetaData, text

from nadi.databases import Address, connect, engines


@dataclass(frozen=True, slots=True)
class EmptyDatabase:
    """`away()` makes it unreachable for a while; `engine` is the test's own way in."""

    address: Address
    engine: Engine
    away: Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="session", params=["sqlite", "postgresql", "mariadb"])
def database_server(request: pytest.FixtureRequest) -> Iterator[servers.Database | None]:
    """A server, or None for SQLite."""
    if request.param == "sqlite":
        yield None
        return
    try:
        running = servers.postgres() if request.param == "postgresql" else servers.mariadb()
        with running as server:
            yield server
    except servers.NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def database(
    database_server: servers.Database | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmptyDatabase]:
    """An empty database of each kind."""
    monkeypatch.setattr(engines, "BUSY_WITHIN", 0.5)
    if database_server is None:
        address = Address(f"jdbc:sqlite:{tmp_path}/test.db")
    else:
        address = Address(database_server.jdbc, database_server.user, database_server.password)
    engine = connect(address)
    yield EmptyDatabase(address, engine, lambda: _away(database_server, engine))
    tables = MetaData()
    tables.reflect(engine)
    tables.drop_all(engine)
    engine.dispose()


@contextmanager
def _away(server: servers.Database | None, engine: Engine) -> Iterator[None]:
    if server is None:  # another writer holds it: what SQLite has in place of a server that is gone
        with engine.connect() as other:
            other.execute(text("begin immediate"))
            yield
            other.rollback()
        return
    server.kill()
    try:
        yield
    finally:
        server.start()
