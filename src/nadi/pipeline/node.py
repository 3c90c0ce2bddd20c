"""What a node is asked to run and what it tells of it; the folder of a node and of each app."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from nadi.channels.options import MOST
from nadi.config import DataSource, ErrorStoring, Persistence, Settings, read_settings
from nadi.config.ownership import make_folders, make_private, own_file
from nadi.errors import NadiError, error
from nadi.io.certificate import OwnCertificate
from nadi.io.listeners import LEAST_WAITING, Limits, Listening
from nadi.io.reach import Reach, files_of, local_file
from nadi.io.registry import source_traits
from nadi.io.remotefiles import inside
from nadi.lang import settled, substitute
from nadi.lang.refs import Refs, places_of, with_refs
from nadi.metrics import AppProgress
from nadi.metrics.levels import Levels
from nadi.pipeline.appfolder import app_folder
from nadi.pipeline.cutting.restored import settle
from nadi.pipeline.hosting.doors import new_token
from nadi.pipeline.session import is_cluster
from nadi.pipeline.shape import as_before
from nadi.pipeline.spec import AppSpec, Engine, planned
from nadi.plan.nodes import App

log = structlog.get_logger(__name__)

__all__ = [
    "AppExit",
    "AppProgress",
    "AppText",
    "ExitReport",
    "NodeOptions",
    "make_spec",
    "needed_outputs",
    "node_lock",
    "spread",
]


@dataclass(frozen=True, slots=True)
class AppText:
    """A Siddhi app to run; `file` is where it came from, for messages. `variables` are the values of its connections, which are not in the text
    (`nadi.lang.settled`). `owner` is the epoch that the leader of a cluster gave it with: a run of it with a higher one ends this one (0: nobody gave it).
    `home` is the name by which what it keeps is known ("": its own), `heritage` what it begins with (`nadi.pipeline.revision.inheritance`; "": with nothing).
    `drains`: it takes in nothing more from outside, and ends when all that it has was taken."""

    text: str
    file: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: int = 0
    home: str = ""
    heritage: str = ""
    drains: bool = False

    @classmethod
    def of(cls, text: str, variables: Mapping[str, str], file: str = "", refs: Refs | None = None) -> AppText:
        """A text as its author wrote it, with the variables that it may have, and for `ref='name'` what `refs` has of this name.

        Errors: VARIABLE_NOT_SET, VARIABLE_NOT_PLAIN, REF_UNKNOWN, REF_OF_ANOTHER_TYPE.
        """
        kept, connections = settled(text, variables, file=file)
        if refs:
            named, values = places_of(refs)
            kept = with_refs(kept, named, file)
            connections |= {name: value for name, value in values.items() if f"${{{name}}}" in kept}
        elif refs is not None:
            kept = with_refs(kept, refs, file)
        return cls(kept, file, connections)

    def planned(self, engine: Engine) -> App:
        """The app. Errors: those of the text."""
        return planned(engine, self.text, self.variables)

    @property
    def filled(self) -> str:
        """The text with all values: for what is neither stored nor shown."""
        return substitute(self.text, self.variables, file=self.file) if self.variables else self.text


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """`state` is the state folder. `conf` has settings of Spark (`spark.…`) and of nadi (`nadi.…`, see `nadi.config.Settings`). `persistence` is about
    revisions; its relative locations begin in `state`. `error_store` says where rows of error stores go. `profile`: note where the time goes.
    `stays`: go on when no app is left, or none was there to begin with, until asked to stop; somebody will add one. `standby`: apps that are added are to run
    at once, so the query that they share is there before the first of them. `updates`: the state of an app whose text
    has changed goes on as far as it fits (`nadi.pipeline.revision.update`). `levels` says at any moment how much hosts are
    to measure of each app. `certificate` is what https sources show; None: one that is made in the state folder. `home` is the folder that a worker lives in:
    its apps reach nothing of it but what its operator says; None: apps are those of who runs the node, and reach what that user does. `closed` are files
    that apps do not reach, either; `sources` are the data sources that stores of apps may name.
    `token` is what the processes of this run know each other by on a cluster."""

    state: Path = Path(".nadi")
    master: str = "local[*,4]"
    conf: Mapping[str, str] = field(default_factory=dict)
    until_end: bool = False
    persistence: Persistence = field(default_factory=Persistence)
    error_store: ErrorStoring = field(default_factory=ErrorStoring)
    engine: str = "nadi.pipeline.engine"
    connectors: str = "nadi.io.registry"
    profile: bool = False
    stays: bool = False
    standby: bool = False
    updates: bool = False
    levels: Levels = field(default_factory=Levels)
    certificate: OwnCertificate | None = None
    home: Path | None = None
    closed: tuple[Path, ...] = ()
    sources: tuple[DataSource, ...] = field(default=(), repr=False)
    token: str = field(default_factory=new_token, repr=False)

    def settings(self) -> Settings:
        """Those of nadi. Errors: INVALID_SETTING for one that does not exist, or has a value of the wrong kind."""
        return read_settings(self.conf)

    def listening(self) -> Listening:
        """How sources of the node listen. Errors: INVALID_SETTING."""
        own = self.settings()
        for name, value, least in (
            ("connections", own.http_connections, 1),
            ("waiting", own.http_waiting, LEAST_WAITING),
            ("head", own.http_head, 1),
            ("body", own.http_body, 1),
        ):
            if value < least:
                raise error("INVALID_SETTING", name=f"nadi.http.{name}", value=value, wanted=f"at least {least:,}")
        limits = Limits(own.http_connections, own.http_waiting, own.http_head, own.http_body, behind=own.http_behind)
        return Listening(limits, self.certificate or OwnCertificate(self.state.resolve() / "security"))

    def reach(self) -> Reach:
        """What connectors may reach outside. Whoever runs apps of theirs without a worker may keep files in the state folder; where apps are bounded it is
        closed. Errors: INVALID_SETTING."""
        own, sources = self.settings(), (self.persistence.datasource, self.error_store.datasource)
        urls = (own.state_url, own.cuts_url, *(source.jdbc_url for source in sources if source is not None))
        kept = [Path(file) for url in urls for file in files_of(url)]
        if revisions := local_file(self.persistence.location):
            kept.append(self.state / revisions)
        return Reach.of(
            own.connector_folders,
            own.connector_databases,
            own.connector_files,
            self.home,
            (*([self.state] if self.home or own.connector_folders else []), *kept, *self.closed),
            hosts=own.connector_hosts,
            sources=self.sources,
        )

    @property
    def cluster(self) -> bool:
        """Whether Spark's executors are not in the driver's process, so that they may be on other machines."""
        return is_cluster(self.master)

    def spark(self) -> dict[str, str]:
        """What goes to Spark."""
        return {k: v for k, v in self.conf.items() if k.startswith("spark.")}


@dataclass(frozen=True, slots=True)
class AppExit:
    """How an app ended: "finished" (all finite inputs consumed), "stopped" (on request) or "failed" with the error; its last progress."""

    app: str
    state: str
    progress: AppProgress
    error: NadiError | None = None


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How a node ended."""

    apps: tuple[AppExit, ...]

    @property
    def failed(self) -> bool:
        return any(a.state == "failed" for a in self.apps)


@contextmanager
def node_lock(state: Path) -> Iterator[None]:
    """Hold the state folder for this process; it is closed to other users. Errors: NODE_LOCKED, FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
    if make_private(state.resolve()):  # a nadi before made it so
        log.warning("other users could read the state folder; it is closed now", folder=str(state))
    with open(state / "node.lock", "a+", opener=own_file) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise error("NODE_LOCKED", folder=state, pid=lock.read().strip() or "?") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def is_locked(state: Path) -> bool:
    """Whether a node runs on the state folder."""
    try:
        with (state / "node.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def needed_outputs(app: App) -> tuple[str, ...]:
    """The streams whose rows are wanted outside: those with a sink."""
    return tuple(s.key for s in app.streams.values() if any(a.name.lower() == "sink" for a in s.annotations))


def make_spec(text: AppText, app: App, options: NodeOptions, cores: int, journal: str) -> AppSpec:
    """The description of an app on this node; what its state folder fixes stays as it was. Errors: APP_CHANGED, SHAPE_DAMAGED, INVALID_SETTING."""
    state = app_folder(options.state, text.home or app.name)
    make_folders(state)
    spec = _spec(text, app, options, cores, journal, cores)
    spec = dataclasses.replace(spec, begin=settle(spec))
    shape = as_before(spec.place.state, app, spec)
    tasks = tasks_of(shape.buckets, spec.hosts, options.master)
    spec = dataclasses.replace(spec, buckets=shape.buckets, tasks=tasks, inputs=dict(shape.inputs))
    traits = {c.ordinal: source_traits(c.type) for c in spec.sources(app)}
    return dataclasses.replace(spec, parted=tuple(n for n, of in traits.items() if of is not None and of.parted))


def spread(specs: Sequence[AppSpec], beside: Sequence[AppSpec] = ()) -> list[AppSpec]:
    """Give each app a host to begin in, `beside` those that have one: the host that the fewest apps begin in (there an app is as long as it shares a query)
    and, of several, the one with the fewest buckets.

    >>> apps = [AppSpec(name, "", "", buckets=n, hosts=2) for name, n in (("A", 1), ("B", 2), ("C", 2), ("D", 1))]
    >>> [spec.first for spec in spread(apps)]
    [0, 1, 0, 1]
    >>> [spec.first for spec in spread(apps[:1], beside=spread(apps)[1:])]
    [0]
    """
    begin = Counter(s.first for s in beside)
    served = Counter(s.host_of(bucket) for s in beside for bucket in range(s.buckets))
    placed = []
    for spec in specs:
        first = min(range(spec.hosts), key=lambda host: (begin[host], served[host]))
        placed.append(dataclasses.replace(spec, first=first))
        begin[first] += 1
        served.update(placed[-1].host_of(bucket) for bucket in range(spec.buckets))
    return placed


def spec_to_restore(text: AppText, app: App, options: NodeOptions, cores: int, buckets: int) -> AppSpec:
    """The description of an app that is to go on from a revision with so many buckets: the settings may want another number. Errors: INVALID_SETTING."""
    return _spec(text, app, options, cores, options.settings().journal_url, buckets)


def _spec(text: AppText, app: App, options: NodeOptions, cores: int, journal: str, buckets: int) -> AppSpec:
    """The description of an app from its text and the settings; it has so many `buckets` where it can be split and neither says how many."""
    home = text.home or app.name
    state = app_folder(options.state, home)
    settings = options.settings()
    hosts = host_count(settings, cores)
    wanted = app.buckets or _given(settings.buckets, buckets)
    split = 1 if app.sharding.kind == "single" else max(1, wanted)
    return AppSpec(
        app.name,
        text.text,
        str(state),
        journal=journal,
        channels=_channels(settings),
        cuts=settings.cuts_url,
        buckets=split,
        tasks=tasks_of(split, hosts, options.master),
        hosts=hosts,
        max_events=settings.batch_events,
        max_bytes=settings.batch_bytes,
        query_within=settings.query_within,
        order_idle=settings.order_idle,
        host_memory=_given(settings.host_memory, _share_of_memory(hosts)),
        properties=settings.of_kernels(),
        until_end=options.until_end,
        outputs=needed_outputs(app),
        engine=options.engine,
        connectors=options.connectors,
        error_store=options.error_store,
        handover=-1 if options.cluster else settings.handover_bytes,
        profile=options.profile,
        pool=app.pool,
        store=_store(settings, home),
        cluster=options.cluster,
        token=options.token if options.cluster else "",
        reach=options.reach(),
        variables=dict(text.variables),
        owner=text.owner,
        home=text.home,
        drains=text.drains,
    )


def _channels(settings: Settings) -> dict[str, str]:
    found = {"nats": settings.channels_nats, "kafka": settings.channels_kafka}
    return found | {MOST: str(settings.channels_bytes)} if settings.channels_bytes else found


def _store(settings: Settings, home: str) -> str:
    url = settings.state_url
    if not url:
        return ""
    return inside(url if "://" in url else str(Path(url).resolve()), home)


def host_count(settings: Settings, cores: int) -> int:
    """How many hosts a node has, whatever apps there are."""
    return max(1, _given(settings.hosts, cores))


def tasks_of(buckets: int, hosts: int, master: str) -> int:
    """How many tasks the buckets of an app are divided among: where Spark is local one for each host, which takes its buckets there one after the other,
    since a task costs time of Java's whatever it does. A cluster has more hosts than one node knows of; there each bucket has a task.

    >>> [tasks_of(n, 2, "local[*,4]") for n in (1, 2, 5)], tasks_of(5, 2, "spark://host:7077")
    ([1, 2, 2], 5)
    """
    return buckets if is_cluster(master) else min(buckets, hosts)


def _share_of_memory(hosts: int) -> int:
    """MB of this machine for each host, if half of it is theirs: a base that is made beside the work may hold as much again."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // hosts // 1_000_000


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
