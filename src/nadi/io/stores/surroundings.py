"""What is around a store while it works: in a host of a node, the app's databases, what these may be, and the cut at hand; anywhere else nothing.

A kernel is a pure state machine and hands nothing on. So whoever lets it work says it beside: `Surroundings.cut`, `.trial` and `.asking` hold for all that
the same thread does meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from weakref import WeakValueDictionary

from sqlalchemy import Engine, event

from nadi.config.places import JNDI, DataSource
from nadi.databases import Address, connect
from nadi.errors import error
from nadi.io.contract import Place
from nadi.io.databasereach import reached
from nadi.io.reach import Reach
from nadi.io.sinks import ledger
from nadi.io.stores.options import Target
from nadi.io.stores.transactions import Alone, CutTransaction, Entry, Session, introduce, named

ANSWERS_WITHIN = 30.0  # seconds for a statement
LEAST = 2  # connections of a pool
IDLE = 60.0  # seconds after which a connection that nobody uses is closed


@dataclass(frozen=True, slots=True)
class Site:
    """Where a table's database is, and whether the app's author has said so, and not the node's operator."""

    address: Address
    option: str  # "": it is a data source of the node


def sources_of(reach: Reach) -> dict[str, DataSource]:
    """The data sources that apps may name, by name."""
    return {source.name: source for source in reach.sources}


def place_of(target: Target, sources: Mapping[str, DataSource]) -> Site:
    """Errors: OPTION_INVALID, where there is no such data source for apps; DATABASE_UNKNOWN."""
    if target.address is not None:
        address = target.address if target.bounds is None else replace(target.address, bounds=target.bounds)
        return Site(_pooled(address), "jdbc.url")
    source = sources.get(target.source.removeprefix(JNDI))
    if source is None:
        wanted = f"a data source of the node that apps may use (there are: {', '.join(sorted(sources)) or 'none'})"
        raise error("OPTION_INVALID", where=target.where, name="datasource", value=target.source, wanted=wanted)
    return Site(_pooled(Address.of(source)), "")


def _pooled(address: Address) -> Address:
    """With the bounds of a pool for tables: a cut has a connection, and makes tables and its row in the ledger with another one."""
    bounds = address.bounds
    idle = IDLE if bounds.idle is None else bounds.idle
    return replace(address, bounds=replace(bounds, size=max(LEAST, bounds.size), idle=idle))


def check_place(target: Target, place: Site, reach: Reach) -> None:
    """Whether apps may have a table there. What the operator has named as a data source for them, they may. Errors: PATH_NOT_ALLOWED, DATABASE_NOT_ALLOWED."""
    if place.option:
        for one in reached(place.address, place.option):
            reach.check(target.where, one)


class Pools:
    """One pool of connections per database, made when it is first asked for. `check` is asked before each connection."""

    def __init__(self) -> None:
        self._engines: dict[Address, Engine] = {}
        self._introduced: set[tuple[Address, str]] = set()
        self._lock = threading.Lock()

    def engine(self, address: Address, check: Callable[[], None]) -> Engine:
        with self._lock:
            found = self._engines.get(address)
            if found is None:
                found = self._engines[address] = connect(address, ANSWERS_WITHIN)

                @event.listens_for(found, "do_connect")
                def ask(*_about: object) -> None:
                    """Before each connection: a file may have become a link."""
                    check()

            return found

    def introduced(self, address: Address, engine: Engine, producer: str, who: str) -> None:
        """Give a producer its row in the ledger of a database, once."""
        if (address, producer) not in self._introduced:
            with named(who):
                introduce(engine, producer)
            self._introduced.add((address, producer))

    def close(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.dispose()


@dataclass(slots=True)
class Work:
    """What holds for a thread at the moment: the databases, and the cut at hand, if there is one."""

    surroundings: Surroundings
    entry: Entry | None = None
    transactions: dict[Address, CutTransaction] = field(default_factory=dict)

    def commit(self) -> None:
        for transaction in self.transactions.values():
            transaction.commit()

    def rollback(self) -> None:
        for transaction in self.transactions.values():
            transaction.rollback()


AT_WORK: ContextVar[Work | None] = ContextVar("nadi_stores_at_work", default=None)


class Surroundings:
    """Of one app in a process. `run()` names the app and its run: a new state folder counts its cuts from 0 again."""

    def __init__(self, reach: Reach, run: Callable[[], str] = lambda: "") -> None:
        self.reach, self._run = reach, cache(run)
        self.sources = sources_of(reach)
        self.pools = Pools()

    @classmethod
    def of_node(cls, reach: Reach, place: Place) -> Surroundings:
        """Those of an app that a node runs."""
        return cls(reach, lambda: f"{place.identity}/{ledger.run(ledger.shared(ledger.STORES, place))}")

    @contextmanager
    def cut(self, bucket: int, cut: int, epoch: int, trial: bool = False) -> Iterator[None]:
        """What stores do meanwhile is one transaction in each database, which is committed at the end, unless something fails, or it is a trial.

        Errors: CONNECTION_UNAVAILABLE, FENCED: nothing of the cut counts in that database.
        """
        made_by = f"{self._run()}/{bucket}"
        work = Work(self, Entry(made_by, cut, epoch, trial))
        with _at(work):
            try:
                yield
                work.commit()
            finally:
                work.rollback()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """No cut is at hand."""
        with _at(Work(self)):
            yield

    def close(self) -> None:
        """Close the connections of the app."""
        self.pools.close()


@contextmanager
def _at(work: Work) -> Iterator[None]:
    before = AT_WORK.set(work)
    try:
        yield
    finally:
        AT_WORK.reset(before)


_POOLS: WeakValueDictionary[Address, _Shared] = WeakValueDictionary()


class _Shared:
    """The pool of a database for all tables in this process that are in no node."""

    def __init__(self, address: Address) -> None:
        self.engine = connect(address, ANSWERS_WITHIN)

    def __del__(self) -> None:
        self.engine.dispose()


@dataclass(frozen=True, slots=True)
class _Known:
    """What a table has found of its database, in these surroundings."""

    around: Surroundings | None
    place: Site
    dialect: str
    who: str


class Access:
    """The way of one table to its database."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._alone: _Shared | None = None
        self._known: _Known | None = None

    def session(self) -> tuple[Session, str, str]:
        """How to get at the database now; its dialect, and the name of the table's store for errors.

        Errors: OPTION_INVALID, PATH_NOT_ALLOWED, DATABASE_NOT_ALLOWED; CONNECTION_UNAVAILABLE, REFUSED.
        """
        work = AT_WORK.get()
        around = None if work is None else work.surroundings
        known = self._known
        if known is None or known.around is not around:
            known = self._known = self._look(around)
        if work is None:
            return Alone(self._shared(known.place.address).engine), known.dialect, known.who
        return self._of_node(work, known), known.dialect, known.who

    def _look(self, around: Surroundings | None) -> _Known:
        """Where the table is, and whether it may be there: each connection asks that again."""
        place = place_of(self.target, {} if around is None else around.sources)
        if around is not None:
            check_place(self.target, place, around.reach)
        address = place.address
        return _Known(around, place, address.parsed.get_backend_name(), f"{address.shown} ({self.target.where})")

    def _shared(self, address: Address) -> _Shared:
        if self._alone is None:
            self._alone = _POOLS.get(address) or _POOLS.setdefault(address, _Shared(address))
        return self._alone

    def _of_node(self, work: Work, known: _Known) -> Session:
        around, place, address = work.surroundings, known.place, known.place.address
        if work.entry is not None and address in work.transactions:
            return work.transactions[address]
        engine = around.pools.engine(address, lambda: check_place(self.target, place, around.reach))
        if work.entry is None:
            return Alone(engine)
        begun = partial(around.pools.introduced, address, engine, work.entry.producer, known.who)
        found = work.transactions[address] = CutTransaction(engine, work.entry, begun)
        return found
