"""Pools keep the bounds of a data source."""

import threading
from dataclasses import dataclass, field

import pytest
from sqlalchemy import create_engine, text

from nadi.config import DataSource, Persistence
from nadi.config.places import DATABASE, Bounds
from nadi.databases import Address, connect, pooled
from nadi.errors import NadiError
from nadi.persistence.stores import store_of


@dataclass
class Clock:
    """A clock, and what is to be done later."""

    now: float = 0.0
    due: list = field(default_factory=list)

    def later(self, seconds, do):
        self.due.append((self.now + seconds, do))
        return threading.Timer(seconds, do)  # not started: it can be cancelled

    def go_to(self, now):
        self.now = now
        ripe, self.due = [d for d in self.due if d[0] <= now], [d for d in self.due if d[0] > now]
        for _, do in ripe:
            do()


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(bounds):
        made.append(connect(Address.of(DataSource("D", f"jdbc:sqlite:{tmp_path}/d.sqlite", bounds=bounds))))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture
def idle(tmp_path):
    """An engine whose connections may lie unused for 60 s, and its clock."""
    clock = Clock()
    options = pooled("D", Bounds(size=2, idle=60.0))
    engine = create_engine(f"sqlite:///{tmp_path}/d.sqlite", clock=lambda: clock.now, later=clock.later, **options)
    yield engine, clock
    engine.dispose()


def test_there_are_no_more_connections_than_the_bound(opened):
    engine = opened(Bounds(size=2, wait=0.01))
    with engine.connect(), engine.connect():
        with pytest.raises(NadiError, match=r"none of its 2 connections got free within 0\.01 s") as told:
            engine.connect()
        assert told.value.condition == "CONNECTION_UNAVAILABLE"
        assert "maxPoolSize" in str(told.value)
    with engine.connect() as connection:
        assert connection.execute(text("select 1")).scalar_one() == 1


def test_a_store_of_revisions_says_that_no_connection_is_free(tmp_path):
    source = DataSource("D", f"jdbc:sqlite:{tmp_path}/d.sqlite", bounds=Bounds(size=1, wait=0.01))
    store = store_of(Persistence(store=DATABASE, datasource=source), tmp_path)
    with store.writing("A"), pytest.raises(NadiError, match="none of its 1 connections") as told:
        store.names("A")
    assert told.value.condition == "PERSISTENCE_STORE_FAILED"
    store.close()


def test_a_connection_that_is_older_than_its_lifetime_is_made_anew(opened):
    engine = opened(Bounds(size=1, lifetime=0.0))
    with engine.connect() as connection:
        first = connection.connection.dbapi_connection
    with engine.connect() as connection:
        assert connection.connection.dbapi_connection is not first


def test_connections_that_lie_unused_are_closed(idle):
    engine, clock = idle
    with engine.connect(), engine.connect():
        pass
    clock.go_to(50)
    with engine.connect() as used:
        kept = used.connection.dbapi_connection
    clock.go_to(60)
    assert open_ones(engine) == [kept]
    clock.go_to(109)
    assert open_ones(engine) == [kept]
    clock.go_to(110)
    assert open_ones(engine) == []
    assert clock.due == []
    with engine.connect() as connection:
        assert connection.execute(text("select 1")).scalar_one() == 1


def test_a_connection_in_use_is_not_closed(idle):
    engine, clock = idle
    with engine.connect():
        pass
    with engine.connect() as connection:
        clock.go_to(600)
        assert connection.execute(text("select 1")).scalar_one() == 1


def test_the_bounds_hold_after_the_pool_was_emptied(opened):
    engine = opened(Bounds(size=1, wait=0.01))
    engine.dispose()
    with engine.connect(), pytest.raises(NadiError, match=r"d\.sqlite is not available: none of its 1 connections"):
        engine.connect()


def open_ones(engine):
    """The connections that the pool holds open."""
    found = []
    for _ in range(engine.pool.checkedin()):
        record = engine.pool._pool.get(False)
        found += [record.dbapi_connection] if record.dbapi_connection is not None else []
        engine.pool._pool.put(record, False)
    return found
