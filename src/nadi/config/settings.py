"""The settings `nadi.…` of a node: one model, from which reading, errors and documentation are made.

A field of `Settings` is a setting: `batch_events` is `nadi.batch.events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from nadi.errors import error, nearest

PREFIX = "nadi."
PROPERTY = PREFIX + "properties."
KERNEL = PREFIX + "kernel"
KERNELS = ("auto", "rows", "columns")
YES_NO = ("true", "false")
REMOTE_INTERVAL = 500  # ms; two requests a second and host: 172,800 a day
_CORES = "as many as cores"


def _setting(default: Any, doc: str, *, unit: str = "", otherwise: str = "") -> Any:
    """A field with its documentation; `otherwise` says what a default of None comes to."""
    return field(default=default, metadata={"doc": doc, "unit": unit, "otherwise": otherwise})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, typed. None: the node finds out by itself.

    >>> Settings().batch_events
    200000
    """

    batch_events: int = _setting(200_000, "how many events a batch takes at most; 0: no bound", unit="events")
    batch_bytes: int = _setting(
        256_000_000, "how many bytes a batch takes, about, by the average so far; 0: no bound", unit="bytes"
    )
    batch_interval: int | None = _setting(
        None,
        "how long after a batch of an app its next one begins at the earliest: fewer batches cost brokers and processors less, and events wait longer",
        unit="ms",
        otherwise="0; 500 where the state log is in an object store, which wants money and 0.1 s for each batch",
    )
    buckets: int | None = _setting(
        None,
        "in how many parts the keys of an app are processed, where it can be split and does not say so itself (`@app:spark(buckets = '…')`); "
        "the first start fixes it",
        unit="buckets",
        otherwise=_CORES,
    )
    hosts: int | None = _setting(
        None, "how many processes hold kernels and connections", unit="processes", otherwise=_CORES
    )
    http_connections: int = _setting(
        16_000,
        "how many connections a port of http sources has at a time; less where the process may not have as many files open (`ulimit -Hn`)",
        unit="connections",
    )
    http_waiting: int = _setting(
        64_000_000,
        "how many bytes of messages may wait on a port of http sources until they are in the journal; then it answers 503",
        unit="bytes",
    )
    http_behind: int = _setting(
        0,
        "how many bytes of messages of an http source may be in the journal that the app has not processed yet; then it answers 503; 0: no bound",
        unit="bytes",
    )
    http_head: int = _setting(
        10_000, "how long the head of a request may take to come, on a port of http sources", unit="ms"
    )
    http_body: int = _setting(
        30_000, "how long the body of a request may take to come, on a port of http sources", unit="ms"
    )
    slots: int | None = _setting(
        None,
        "how many tasks run at a time where Spark is local",
        unit="tasks",
        otherwise="4 per core, or as many as the master says, if that is more; one app has as many as a master says that names a number",
    )
    apps_user: int = _setting(
        100,
        "how many apps a user who is no administrator may have deployed over REST; 0: no bound",
        unit="apps",
    )
    query_within: int = _setting(
        10_000,
        "how long an on-demand query that finds rows may take in each bucket, which stands still meanwhile; 0: no bound",
        unit="ms",
    )
    pools: str = _setting(
        "true",
        "whether small apps of a node share a query of Spark: `true`, or `false` for a query for each app, which costs memory and a share of every core",
    )
    handover_bytes: int = _setting(
        65_536,
        "where Spark is local, events of this size or more do not go through Spark, but stay in the process that has read them until a kernel takes them; "
        "-1: none do",
        unit="bytes",
    )
    host_memory: int | None = _setting(
        None,
        "how much memory a host process should hold at most; above it a warning is shown, "
        "and beyond twice as much and 2 GB more an event that fills memory is set aside",
        unit="MB",
        otherwise="half of the machine's, divided by the hosts",
    )
    host_within: int = _setting(
        20_000,
        "how long a kernel may be at one cut, or at one message of a cut that is tried, before it is taken for one that loops and its host is ended; "
        "0: no bound",
        unit="ms",
    )
    order_idle: int = _setting(
        5_000, "how long an input that cannot be reached holds up the others; then they go on without it", unit="ms"
    )
    kernel: str = _setting(
        "auto",
        "what runs queries: `auto`, columns (over whole batches) where a query can and rows where it cannot; `rows`; `columns`, an error where an app cannot"
        " as a whole. State that one of them has written stays with it; `nadi restore` under `rows` moves it there",
    )
    journal_url: str = _setting("", "a NATS server for the journal instead of the embedded one")
    channels_nats: str = _setting("", "the NATS servers of channels between partial apps that do not name any")
    channels_kafka: str = _setting("", "the Kafka brokers of channels between partial apps that do not name any")
    channels_bytes: int = _setting(
        0,
        "how many bytes a channel on Kafka may have; then who fills it waits, as brokers refuse nothing (NATS does, by the bound of the stream); 0: no bound",
        unit="bytes",
    )
    cuts_url: str = _setting(
        "", "a database for the cut logs, which nodes can share; else they are in the state folder"
    )
    state_url: str = _setting(
        "",
        "where the state logs are: a folder, or a URL of `pyarrow.fs` (`s3://bucket/folder`, `hdfs://…`, `gs://…`); else they are in the state folder. On a "
        "cluster, executors then need nothing of the state folder. Credentials come from the environment, not from the URL",
    )
    connector_files: str = _setting(
        "",
        "a folder: options of sources and sinks may name certificates and keys in it (`ssl.ca.location` of Kafka and the like); without it they may name none",
    )
    connector_folders: str = _setting(
        "",
        "the folders that sources and sinks may reach, with commas, links followed: relative ones are in a worker's home, or where `nadi run` was started. "
        "Never the rest of the home, the state folder, `/proc` and `/sys`",
        otherwise="`files` in the home of a worker; any folder under `nadi run`",
    )
    connector_databases: str = _setting(
        "",
        "the servers of databases that sinks, stores and simulations may connect to, with commas: `host` or `host:port`",
        otherwise="any",
    )
    connector_hosts: str = _setting(
        "",
        "the servers that sources and sinks of http, MQTT, Kafka and NATS may connect to, with commas: `host` or `host:port`. Others that a broker names as "
        "its own are reached, too",
        otherwise="any",
    )
    properties: Mapping[str, str] = field(
        default_factory=dict,
        metadata={
            "doc": "a property of the node (`nadi.properties.region=eu`): what `env:…` functions and `aggTimeZone` read"
        },
    )

    def interval(self, remote: bool) -> int:
        """The least time between two batches of an app, ms; `remote` is whether its state log is in an object store.

        >>> Settings().interval(remote=True), Settings(batch_interval=0).interval(remote=True), Settings().interval(remote=False)
        (500, 0, 0)
        """
        if self.batch_interval is not None:
            return self.batch_interval
        return REMOTE_INTERVAL if remote else 0

    def share_queries(self) -> bool:
        """Whether small apps share a query. Errors: INVALID_SETTING."""
        if self.pools not in YES_NO:
            raise error("INVALID_SETTING", name="nadi.pools", value=self.pools, wanted=f"one of {', '.join(YES_NO)}")
        return self.pools == "true"

    def of_kernels(self) -> dict[str, str]:
        """What kernels read of the node: its properties, and under `nadi.kernel` which of them is wanted: where nothing is said, as in process, it is rows.

        Errors: INVALID_SETTING.
        """
        if self.kernel not in KERNELS:
            raise error("INVALID_SETTING", name="nadi.kernel", value=self.kernel, wanted=f"one of {', '.join(KERNELS)}")
        return {**self.properties, **({} if self.kernel == "rows" else {KERNEL: self.kernel})}


@dataclass(frozen=True, slots=True)
class Described:
    """A setting for people: `default` as it would be written, or in words; `unit` is "" for texts."""

    name: str
    type: str
    default: str
    unit: str
    doc: str


def read_settings(pairs: Mapping[str, str]) -> Settings:
    """The settings among key=value pairs; keys that do not start with `nadi.` are not looked at, and an empty value means the default.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, for a name that does not exist or a value of the wrong kind.

    >>> read_settings({"nadi.batch.events": "500", "spark.driver.memory": "2g"}).batch_events
    500
    """
    types = {_name(f.name): (f.name, str(f.type)) for f in _plain()}
    properties = {name.removeprefix(PROPERTY): value for name, value in pairs.items() if name.startswith(PROPERTY)}
    given: dict[str, Any] = {"properties": properties} if properties else {}
    for name, value in pairs.items():
        if not name.startswith(PREFIX) or name.startswith(PROPERTY):
            continue
        if name not in types:
            raise error("INVALID_SETTING", name=name, value=value, wanted=_known(name, [*types, PROPERTY + "…"]))
        own, kind = types[name]
        if value.strip():
            given[own] = value.strip() if kind == "str" else _whole_number(name, value.strip())
    return Settings(**given)


def settings_table() -> tuple[Described, ...]:
    """Every setting, in the order of the model, for documentation.

    >>> [s.default for s in settings_table() if s.name in ("nadi.batch.events", "nadi.hosts")]
    ['200000', 'as many as cores']
    """
    plain = tuple(
        Described(
            _name(f.name),
            "text" if f.type == "str" else "whole number",
            f.metadata["otherwise"] or str(f.default),
            f.metadata["unit"],
            f.metadata["doc"],
        )
        for f in _plain()
    )
    (properties,) = (f for f in fields(Settings) if f.name == "properties")
    return (*plain, Described(PROPERTY + "…", "text", "", "", properties.metadata["doc"]))


def _plain() -> tuple[Field[Any], ...]:
    """The settings of one value each."""
    return tuple(f for f in fields(Settings) if f.name != "properties")


def _name(own: str) -> str:
    return PREFIX + own.replace("_", ".")


def _known(name: str, names: list[str]) -> str:
    near = nearest(name, names)
    others = ", ".join(n for n in names if n != near)
    return f"'{near}', or another of {others}" if near else f"one of {others}"


def _whole_number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise error("INVALID_SETTING", name=name, value=value, wanted="a whole number, 0 or more")
    return int(value)
