"""What every process of a pipeline must know of an app: one immutable description, handed along as JSON."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from nadi.config import DataSource, ErrorStoring
from nadi.io.contract import Connector, Ingress, Log, Place, Sink, SinkMapper, SourceMapper
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.controllog import ControlFile, ControlLog, ControlMapper, control_connector
from nadi.io.errorstore import ErrorStore
from nadi.io.errorstores import ERRORS, error_store
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.io.faultlog import FaultFile, FaultLog, fault_connector
from nadi.io.identity import first_numbers, numbered
from nadi.io.journalrecords import ControlJournal, FaultJournal
from nadi.io.reach import Reach
from nadi.io.registry import SOURCES, source_kind
from nadi.io.remotefiles import inside
from nadi.io.sinks.refusals import action
from nadi.kernel.contract import Kernel
from nadi.pipeline.labels import labels
from nadi.plan.nodes import App, OnDemand

if TYPE_CHECKING:
    from nadi.io.appnotes import AppNotes


class Engine(Protocol):
    """Plans a text and makes kernels: the module `nadi.pipeline.engine`, or another one in tests."""

    def plan_app(self, text: str, connections: Mapping[str, str] | None = None) -> App: ...
    def plan_on_demand(self, app: App, text: str) -> OnDemand: ...
    def make_kernel(
        self, app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
    ) -> Kernel: ...


def planned(engine: Engine, text: str, connections: Mapping[str, str]) -> App:
    """The app of a text, with values that it does not have itself, if there are any. Errors: those of the text."""
    return engine.plan_app(text, connections) if connections else engine.plan_app(text)


class Connectors(Protocol):
    """Opens connectors: the module `nadi.io.registry`, or another one in tests."""

    def connectors(self, app: App, kind: str) -> tuple[Connector, ...]: ...
    def open_log(self, connector: Connector, place: Place) -> Log: ...
    def open_sink(self, connector: Connector, place: Place) -> Sink: ...
    def make_source_mapper(self, connector: Connector) -> SourceMapper: ...
    def make_sink_mapper(self, connector: Connector) -> SinkMapper: ...
    def make_ingress(self, connector: Connector, place: Place) -> Ingress | None: ...


@dataclass(frozen=True)
class AppSpec:
    """One execution group of an app on one node.

    `state` is the state folder of the app, `journal` the URL of the journal's server ("" for none), `cuts` that of the database of the cut log ("": it is
    in `state`), `begin` the folder of a restored state to begin with ("": with nothing), `buckets` the number of kernels, `tasks` how many tasks of Spark
    these are divided among (0: one each), `hosts` how many host processes an executor has, `first` that of bucket 0 (the others follow), `offset` what is
    added to their numbers (0: the hosts that apps share; a multiple of `hosts`: those are its own), `epoch` the fencing number of this run, `owner` the
    epoch that a leader of a cluster gave it with (0: there is none). A batch takes
    at most `max_events` events and about `max_bytes` bytes (0: no bound), a find of an on-demand query
    `query_within` ms in each bucket (0: no bound). `host_memory` is how many MB a host should hold at most (0: no bound). `outputs`
    are the keys of the streams that are wanted outside, `properties` what the kernels read of the node,
    `error_store` says where errors are kept, `inputs` has the numbers of the inputs by their names (`nadi.io.identity`; empty: those of an app that
    begins), `parted` those of the inputs of which several hosts may read parts side by side, `handover` how many bytes events have that stay in the host
    that read them (`nadi.pipeline.executor.handover`; -1: none, as where hosts are on several machines), `profile` is whether hosts note what they spend
    their time on. `store` is a path or URL below which all that machines share of it is ("": in `state`), `cluster` whether hosts may be on other
    machines, `token` what the processes of this run of the node know each other by there, `seed` the prefix of what kernels begin with in there (where
    `begin` is for the node alone to read). `variables` are values in the options of sources, sinks and stores that are not in `text`, as they may be secrets:
    nothing durable or shown has them. `pool` is to which query of Spark it is pinned: "own", "shared", or "" where the node decides. `reach` is what
    options of connectors may name outside, `channels` says by transport where the servers of channels are that the text does not
    name. `home` is the name by which what it keeps outside is known ("": the app's own), `drains` whether it takes in nothing more from outside, and ends
    when all that it has was taken. Not slotted: `id` is kept once computed.
    """

    app: str
    text: str
    state: str
    group: str = ""
    journal: str = ""
    cuts: str = ""
    begin: str = ""
    buckets: int = 1
    tasks: int = 0
    hosts: int = 2
    first: int = 0
    offset: int = 0
    epoch: int = 1
    owner: int = 0
    max_events: int = 200_000
    max_bytes: int = 256_000_000
    query_within: int = 10_000
    order_idle: int = 5_000
    host_memory: int = 0
    until_end: bool = False
    outputs: tuple[str, ...] = ()
    engine: str = "nadi.pipeline.engine"
    connectors: str = "nadi.io.registry"
    properties: dict[str, str] = field(default_factory=dict)
    error_store: ErrorStoring = field(default_factory=ErrorStoring)
    inputs: dict[str, int] = field(default_factory=dict)
    parted: tuple[int, ...] = ()
    handover: int = -1
    profile: bool = False
    pool: str = ""
    store: str = ""
    cluster: bool = False
    token: str = ""
    seed: str = ""
    reach: Reach = field(default_factory=Reach)
    channels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    home: str = ""
    drains: bool = False

    @property
    def identity(self) -> str:
        """The name by which what it keeps outside is known."""
        return self.home or self.app

    @cached_property
    def id(self) -> str:
        """Names what hosts keep for this app: equal for equal meaning, whatever the run."""
        shaping = (
            self.app,
            self.group,
            self.text,
            self.state,
            self.journal,
            self.begin,
            self.buckets,
            self.outputs,
            self.properties,
            self.inputs,
            self.store,
            self.seed,
            self.reach,
            self.home,
            *sorted(self.channels.items()),
            *sorted(self.variables.items()),
        )
        parts = repr((*shaping, self.until_end, self.engine, self.connectors))
        return hashlib.sha256(parts.encode()).hexdigest()[:24]

    def host_of(self, bucket: int) -> int:
        """The host that serves a bucket.

        >>> [AppSpec("A", "", "", buckets=3, hosts=2, first=1).host_of(bucket) for bucket in range(3)]
        [1, 0, 1]
        >>> [AppSpec("A", "", "", buckets=3, hosts=2, first=1, offset=4).host_of(bucket) for bucket in range(3)]
        [5, 4, 5]
        """
        return self.offset + (self.first + bucket) % self.hosts

    @property
    def served_by(self) -> frozenset[int]:
        """The hosts of all its buckets.

        >>> sorted(AppSpec("A", "", "", buckets=3, hosts=2, first=1, offset=4).served_by)
        [4, 5]
        """
        return frozenset(map(self.host_of, range(self.buckets)))

    @property
    def partitions(self) -> int:
        """Into how many partitions Spark spreads the rows of the buckets.

        >>> AppSpec("A", "", "", buckets=4).partitions, AppSpec("A", "", "", buckets=4, tasks=2).partitions
        (4, 2)
        """
        return self.tasks or self.buckets

    @property
    def labels(self) -> tuple[int, ...]:
        """What Spark knows each bucket by: that of bucket i leads to partition i modulo their number. With as many hosts, those of a partition have one."""
        return labels(self.buckets, self.partitions)

    @property
    def place(self) -> Place:
        notes = inside(self.store, "sinks") if self.travels else ""
        shared = self.cuts if self.travels else ""
        return Place(
            self.app,
            Path(self.state),
            self.journal,
            notes,
            self.reach,
            channels=self.channels,
            shared=shared,
            epoch=self.epoch,
            home=self.home,
        )

    @property
    def travels(self) -> bool:
        """Whether another node may go on with it, which has nothing of this one's state folder: what it has to know is on the services that both reach."""
        return bool(self.owner and self.store and self.cuts and self.journal)

    def open_notes(self) -> AppNotes:
        """What whoever goes on with it must know, where it travels."""
        from nadi.io.appnotes import AppNotes  # with it comes SQLAlchemy, which takes half a second

        return AppNotes(self.cuts, self.identity, self.epoch)

    @property
    def log_place(self) -> str:
        """Where its state log is: a path or a URL."""
        return inside(self.store, "log") if self.store else str(self.place.state / "log")

    @property
    def seed_place(self) -> str:
        """Where what kernels begin with is, for hosts on other machines."""
        return inside(self.store, "begin")

    @property
    def apart(self) -> bool:
        """Whether hosts have nothing of the node's state folder: they are on other machines, and there is a place that all of these reach."""
        return self.cluster and bool(self.store)

    def place_in(self, scratch: Path) -> Place:
        """What a connector in a host is told; `scratch` is the folder of the host."""
        if not self.apart:
            return self.place
        notes = inside(self.store, "sinks")
        scratched = scratch / f"app-{self.id}"
        return Place(self.app, scratched, self.journal, notes, self.reach, self.channels, home=self.home)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str | bytes) -> AppSpec:
        return msgspec.json.decode(text, type=AppSpec)

    def load_engine(self) -> Engine:
        module: Engine = import_module(self.engine)
        return module

    def plan(self) -> App:
        """The app of the text, with its variables. Errors: those of the text."""
        return planned(self.load_engine(), self.text, self.variables)

    def load_connectors(self) -> Connectors:
        module: Connectors = import_module(self.connectors)
        return module

    def sources(self, app: App) -> tuple[Connector, ...]:
        """The inputs of the app as this run wants them, by ordinal: its sources (with `until_end`, folders of files end with what is there), the control
        input, and the fault log, where a sink may write to it.

        An input has the ordinal that `inputs` gives it, wherever it stands in the text.
        """
        found = self.user_sources(app)
        numbers = self.inputs or first_numbers(found)
        faults = any(
            action(c) == "STREAM" and f"!{c.stream}" in app.streams
            for c in self.load_connectors().connectors(app, "sink")
        )
        found = (*found, control_connector(0))
        return numbered((*found, fault_connector(0)) if faults else found, numbers)

    def user_sources(self, app: App) -> tuple[Connector, ...]:
        """The sources of the app's text, in its order; their ordinals are their places in it."""
        return tuple(self._ending(c) for c in self.load_connectors().connectors(app, "source"))

    def open_log(self, source: Connector, place: Place | None = None) -> Log:
        """The log of an input, as the node has it or, with the place of a host, as that does. Errors: those of opening it."""
        place = self.place if place is None else place
        if source.type == CONTROL_TYPE:
            return self.open_control().open()
        if source.type == FAULTS_TYPE:
            return self.open_faults().open()
        return self.load_connectors().open_log(source, place)

    def open_control(self) -> ControlLog:
        """The control log of the app. Errors: CONNECTION_UNAVAILABLE."""
        return ControlJournal(self.journal, self.identity) if self.travels else ControlFile(Path(self.state))

    def open_faults(self) -> FaultLog:
        """The fault log of the app. Errors: CONNECTION_UNAVAILABLE."""
        state = Path(self.state)
        return FaultJournal(state, self.journal, self.identity) if self.travels else FaultFile(state)

    def open_errors(self) -> ErrorStore:
        """The error store of the app: where another node may go on with it in a database, that of the cuts if no other one is named.

        Errors: INVALID_SETTING; where it travels CONNECTION_UNAVAILABLE, REFUSED.
        """
        if not self.travels:
            return error_store(Path(self.state), self.app, self.error_store)
        settings = self.error_store
        if settings.datasource is None:
            settings = ErrorStoring(datasource=DataSource("nadi.cuts.url", self.cuts), table=ERRORS)
        run = self.open_notes().once("run", lambda: os.urandom(8).hex())
        return error_store(Path(self.state), self.app, settings, str(run))

    def source_mapper(self, source: Connector) -> SourceMapper:
        """What makes events of the messages of an input."""
        return ControlMapper() if source.type == CONTROL_TYPE else self.load_connectors().make_source_mapper(source)

    def _ending(self, connector: Connector) -> Connector:
        known = source_kind(connector.type).options if connector.type in SOURCES else ()
        if not self.until_end or all(option.name != "until.end" for option in known):
            return connector
        return replace(connector, options={**connector.options, "until.end": "true"})
