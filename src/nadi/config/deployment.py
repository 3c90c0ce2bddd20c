"""A deployment.yaml: one model per section, from which reading, errors and documentation are made.

found = read_deployment(Path("deployment.yaml"))
found.http                      # the listeners of the REST APIs, ports with the offset
found.notices                   # keys that nothing reads, with the nearest known one

Names and defaults are those of WSO2 Stream Processor 4.x; what is nadi's own stands under `nadi:` and `spark:`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from nadi.config import clusters, extensions, yamltext
from nadi.config.auth import Auth, Permissions
from nadi.config.datasources import DataSources
from nadi.config.extensions import ExtensionEntry, RefEntry, properties_of
from nadi.config.metrics import Jdbc, JdbcReporter, JdbcSource, Metrics, Otlp
from nadi.config.persistence import ErrorStoreSection, StatePersistence
from nadi.config.placeholders import Lookup, fill
from nadi.config.places import JNDI, DataSource, ErrorStoring, Persistence
from nadi.config.secrets import secret_lookup
from nadi.config.section import Section, invalid, is_secret, notices_of, unknown, unused
from nadi.config.settings import read_settings
from nadi.errors import error
from nadi.errors.redaction import MASKED, redacted

HTTP, HTTPS = 9090, 9443
MANAGER_HTTP, MANAGER_HTTPS = 9190, 9543
QUERY_HTTP, QUERY_HTTPS = 7070, 7443
LARGEST = 1_000_000  # bytes of a file
LOOPBACK = "127.0.0.1"

_NAMES_SOURCE = re.compile(r"data_?source(_?name)?$", re.IGNORECASE)

UNUSED = {
    "databridge.config": "nadi has no Thrift and binary receivers",
    "data.agent.config": "nadi has no Thrift and binary publishers",
    "wso2.securevault": "secrets are kept by 'nadi secret set'",
    "docker.configs": "nothing is exported to Docker",
    "analytics.solutions": "every app of the folder is deployed",
    "wso2.status.dashboard": "a worker shows its own status page",
    "wso2.business.rules.manager": "there are no business rules yet",
    "wso2.dashboard.datasearch": "there is no dashboard portal yet",
    "wso2.dashboard": "there is no dashboard portal yet",
    "wso2.rdbms.data.provider": "there is no dashboard portal yet",
    "wso2.metrics.prometheus": "Prometheus reads '/metrics' of each node",
    "wso2.metrics.das": "nadi has no Thrift and binary publishers",
}
"""Sections of the reference that a worker does not read, and what is there instead."""


class Ports(Section):
    """`wso2.carbon.ports`: what is added to each port that is not set by hand."""

    offset: int = Field(default=0, ge=0, le=50_000)


class Carbon(Section):
    """`wso2.carbon`: who this node is. `id` is the SOURCE of its metrics, so no other node may have it."""

    id: str = "wso2-sp"
    name: str = "WSO2 Stream Processor"
    type: str = "wso2-sp"
    ports: Ports = Ports()


class Listener(Section):
    """One of `listenerConfigurations`."""

    id: str = "default"
    host: str = LOOPBACK
    port: int = Field(ge=0, le=65_535)
    scheme: Literal["http", "https"] = "http"
    key_store_file: str = Field(default="", alias="keyStoreFile")
    key_store_password: str = Field(default="", alias="keyStorePassword", repr=False)
    cert_pass: str = Field(default="", alias="certPass", repr=False)

    def at(self, offset: int) -> Listener:
        """With the port offset added; port 0 stays: the system chooses it."""
        return self.model_copy(update={"port": self.port + offset if self.port else 0})


class Transport(Section):
    """`wso2.transport.http` and `siddhi.stores.query.api`: where a server listens. Properties of the reference's transport have no effect."""

    listeners: tuple[Listener, ...] | None = Field(default=None, alias="listenerConfigurations")
    transport_properties: Any = unused("transportProperties", "the servers of nadi have bounds of their own")
    senders: Any = unused("senderConfigurations", "each http sink says how it sends")


class ArtifactDeployment(Section):
    """`wso2.artifact.deployment`: where the folder `siddhi-files` is, and after how many seconds it is looked at again at the latest."""

    update_interval: int = Field(default=5, ge=1, le=86_400, alias="updateInterval")
    repository_location: str = Field(default="", alias="repositoryLocation")


class Tls(Section):
    """`nadi.tls`: a certificate chain and its key, both in PEM; without them the first start makes a pair."""

    certificate: str = ""
    key: str = ""


class Log(Section):
    """`nadi.log`: `file` is relative to the worker's home; without one, the log goes to standard error."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    file: str = ""


class Own(Section):
    """`nadi`: what is nadi's own. `variables` are what `${name}` in the text of an app may stand for; every other key is a setting `nadi.…`."""

    variables: Mapping[str, str] = Field(default_factory=dict)
    tls: Tls = Tls()
    otlp: Otlp = Otlp()
    log: Log = Log()
    cluster: clusters.ClusterSecurity = clusters.ClusterSecurity()

    @property
    def conf(self) -> dict[str, str]:
        """The settings, as `--conf` takes them."""
        return _flat("nadi", self.model_extra or {})


class Spark(Section):
    """`spark`: `master`, and every other key is a setting of Spark."""

    master: str = "local[*,4]"

    @property
    def conf(self) -> dict[str, str]:
        """The settings, as `--conf` takes them."""
        return _flat("spark", self.model_extra or {})


class Sections(Section):
    """All sections that are models."""

    carbon: Carbon = Field(default=Carbon(), alias="wso2.carbon")
    transport: Transport = Field(default=Transport(), alias="wso2.transport.http")
    query: Transport = Field(default=Transport(), alias="siddhi.stores.query.api")
    deployment: ArtifactDeployment = Field(default=ArtifactDeployment(), alias="wso2.artifact.deployment")
    auth: Auth = Field(default=Auth(), alias="auth.configs")
    permissions: Permissions = Field(default=Permissions(), alias="wso2.analytics.permissions")
    metrics: Metrics = Field(default=Metrics(), alias="wso2.metrics")
    metrics_jdbc: Jdbc = Field(default=Jdbc(), alias="wso2.metrics.jdbc")
    own: Own = Field(default=Own(), alias="nadi")
    spark: Spark = Spark()
    persistence: StatePersistence = Field(default=StatePersistence(), alias="state.persistence")
    errors: ErrorStoreSection = Field(default=ErrorStoreSection(), alias="error.store")
    datasources: DataSources = Field(default=DataSources(), alias="wso2.datasources")
    refs: tuple[RefEntry, ...] = Field(default=(), alias="siddhi.refs")
    properties: Mapping[str, Any] = Field(default_factory=dict, alias="siddhi.properties")
    extensions: tuple[ExtensionEntry, ...] = Field(default=(), alias="siddhi.extensions")
    cluster: clusters.ClusterConfig = Field(default=clusters.ClusterConfig(), alias="cluster.config")
    deployment_config: clusters.DeploymentConfig = Field(default=clusters.DeploymentConfig(), alias="deployment.config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a deployment.yaml says. `notices` are sentences about what has no effect; `secrets` are the values that `${sec:…}` stands for in it."""

    sections: Sections = field(default_factory=Sections)
    persistence: Persistence = field(default_factory=Persistence)
    error_store: ErrorStoring = field(default_factory=ErrorStoring)
    metrics_places: tuple[tuple[JdbcReporter, JdbcSource, DataSource], ...] = ()
    notices: tuple[str, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def http(self) -> tuple[Listener, ...]:
        """Where the REST APIs are served."""
        return self._listeners(self.sections.transport, HTTP, HTTPS)

    @property
    def manager_http(self) -> tuple[Listener, ...]:
        """Where a manager serves its REST API."""
        return self._listeners(self.sections.transport, MANAGER_HTTP, MANAGER_HTTPS)

    @property
    def query(self) -> tuple[Listener, ...]:
        """Where on-demand queries are served."""
        return self._listeners(self.sections.query, QUERY_HTTP, QUERY_HTTPS)

    @property
    def conf(self) -> dict[str, str]:
        """The settings of nadi and Spark, as `--conf` takes them."""
        return {**properties_of(self.sections.properties), **self.sections.own.conf, **self.sections.spark.conf}

    @property
    def refs(self) -> dict[str, tuple[str, dict[str, str]]]:
        """What `ref='name'` in a source, a sink or a store stands for: a type and options."""
        return {one.ref.name: (one.ref.type, one.ref.texts) for one in self.sections.refs}

    @property
    def sources_of_apps(self) -> tuple[DataSource, ...]:
        """The data sources that stores of apps may name: those that the node does not use itself. One with two names is there twice."""
        entries = self.sections.datasources.entries
        used = set(_named_sources(self.sections.model_dump(by_alias=True, exclude={"datasources"})))
        own = {_database(entry.source.jdbc_url) for entry in entries if used & {*entry.names}}
        own |= set(map(_database, self.conf.values()))  # such as nadi.cuts.url
        return tuple(
            replace(entry.source, name=name)
            for entry in entries
            if _database(entry.source.jdbc_url) not in own
            for name in entry.names
        )

    def _listeners(self, transport: Transport, http: int, https: int) -> tuple[Listener, ...]:
        given = transport.listeners
        if given is None:
            given = (Listener(id="default", port=http), Listener(id="default-https", port=https, scheme="https"))
        return tuple(listener.at(self.sections.carbon.ports.offset) for listener in given)


def _named_sources(section: Any) -> Iterator[str]:
    """The data sources that sections name, also where a default does: under keys such as `datasource` and `dataSourceName`."""
    if isinstance(section, Mapping):
        for key, value in section.items():
            if isinstance(value, str) and _NAMES_SOURCE.search(str(key)):
                yield value.removeprefix(JNDI)
            yield from _named_sources(value)
    elif isinstance(section, (list, tuple)):
        for part in section:
            yield from _named_sources(part)


def _database(url: str) -> str:
    """What two URLs of one database have in common.

    >>> _database("jdbc:mysql://DB/orders?useSSL=false") == _database("mysql://nadi:secret@db/orders")
    True
    """
    return re.sub(r"[?;].*$|^jdbc:|(?<=//)[^/@]*@", "", url.strip().lower())


def read_deployment(path: Path, lookups: Mapping[str, Lookup] | None = None) -> Deployment:
    """A deployment.yaml.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, where the file is no YAML, or a value cannot be; with the path of the value.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise error("INVALID_SETTING", name="deployment.yaml", value=path, wanted=f"at most {LARGEST:,} bytes")
        content = yamltext.read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        reason = " ".join(str(problem).split())
        raise error(
            "INVALID_SETTING", name="deployment.yaml", value=path, wanted=f"a file in YAML ({reason})"
        ) from problem
    if content is not None and not isinstance(content, dict):
        raise error("INVALID_SETTING", name="deployment.yaml", value=path, wanted="sections: `name:` and below it keys")
    return deployment_of(content or {}, lookups)


def environment_lookups(home: Path | None = None) -> dict[str, Lookup]:
    """What placeholders stand for on this machine: `${env:…}` the environment, `${sys:…}` too, where no system property of the reference is meant;
    `${sec:…}` the secrets of a home."""
    own = {"wso2.runtime": "worker"} | ({} if home is None else {"carbon.home": str(home)})
    secret = secret_lookup(None if home is None else home / "security")
    return {"env": os.environ.get, "sys": lambda name: own.get(name, os.environ.get(name)), "sec": secret}


def state_lookups(state: Path) -> dict[str, Lookup]:
    """Likewise, for commands that know the state folder of a node: a worker's lies in its home, and any other is the home itself."""
    state = state.resolve()
    return environment_lookups(state.parent if (state.parent / "security").is_dir() else state)


def deployment_of(content: Mapping[str, Any], lookups: Mapping[str, Lookup] | None = None) -> Deployment:
    """What the content of a deployment.yaml says.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING.

    >>> [(l.scheme, l.port) for l in deployment_of({"wso2.carbon": {"ports": {"offset": 1}}}).http]
    [('http', 9091), ('https', 9444)]
    """
    secrets: set[str] = set()
    filled = _joined(fill(dict(content), _noting(lookups or environment_lookups(), secrets)))
    try:
        sections = Sections.model_validate(filled)
    except ValidationError as problem:
        raise invalid(problem) from problem
    found = Deployment(
        sections=sections,
        persistence=sections.persistence.resolved(sections.datasources),
        error_store=sections.errors.resolved(sections.datasources),
        metrics_places=sections.metrics_jdbc.places(_metrics_source(sections)),
        notices=tuple(_notices(sections)),
        secrets=frozenset(filter(None, secrets)),
    )
    read_settings(found.conf)
    return found


def _metrics_source(sections: Sections) -> Callable[[str, str], DataSource | None]:
    """Finds the data sources of reporters. The shipped file has a reporter that nobody has to have a database for as long as nothing is measured."""
    if sections.metrics.enabled:
        return sections.datasources.source
    return lambda name, _key: sections.datasources.find(name)


def _noting(lookups: Mapping[str, Lookup], secrets: set[str]) -> dict[str, Lookup]:
    """The lookups; what `${sec:…}` stands for is noted."""

    def secret(name: str) -> str | None:
        value = lookups["sec"](name)
        secrets.update([] if value is None else [value])
        return value

    return {**lookups, "sec": secret}


def _joined(content: Mapping[str, Any]) -> dict[str, Any]:
    """A section without content is as good as none, and so is a part of one."""
    return {str(name): _with_content(section) for name, section in content.items() if section is not None}


def _with_content(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_content(part) for name, part in value.items() if part is not None}
    return [_with_content(part) for part in value] if isinstance(value, list) else value


def _notices(sections: Sections) -> Iterator[str]:
    """What is written in the file and has no effect, or another one."""
    known = [str(f.alias or name) for name, f in Sections.model_fields.items()]
    for name in sections.model_extra or {}:
        if name in UNUSED:
            yield f"'{name}' has no effect: {UNUSED[name]}"
        else:
            yield unknown(name, name, [*known, *UNUSED])
    for name, model in Sections.model_fields.items():
        yield from notices_of(getattr(sections, name), str(model.alias or name), _is_settled)
    for name, section in (
        ("nadi.tls", sections.own.tls),
        ("nadi.log", sections.own.log),
        ("nadi.cluster", sections.own.cluster),
    ):
        yield from notices_of(section, name, _is_settled)
    yield from clusters.notices(sections.cluster, sections.deployment_config, sections.own.cluster)
    yield from extensions.notices(sections.extensions, sections.properties)
    yield from sections.datasources.notices()
    yield from sections.auth.notices()
    yield from sections.metrics.notices()


def _is_settled(value: object) -> bool:
    """Whether the other keys of a section are looked at elsewhere: as settings, as those of Spark, or with the section as a whole."""
    if isinstance(value, clusters.DeploymentConfig):
        return not value.is_distributed and not value.is_pair
    return isinstance(value, Own | Spark)


def _flat(prefix: str, content: Mapping[str, Any]) -> dict[str, str]:
    """Nested keys as one with dots; values as texts.

    >>> _flat("nadi", {"batch": {"events": 5}, "pools": True})
    {'nadi.batch.events': '5', 'nadi.pools': 'true'}
    """
    found: dict[str, str] = {}
    for name, value in content.items():
        key = f"{prefix}.{name}"
        if isinstance(value, Mapping):
            found |= _flat(key, value)
        else:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def as_yaml(found: Deployment) -> dict[str, Any]:
    """All settings by the names that they have in a file. Passwords are masked: what has such a name, what `${sec:…}` stands for, and those in URLs."""

    def masked(value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            return {name: masked(inner, f"{path}.{name}") for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [masked(inner, path) for inner in value]
        if not isinstance(value, str) or not value:
            return value
        parts = path.split(".")  # what a variable of an app is for is not told by its name
        return MASKED if "variables" in parts or any(map(is_secret, parts)) else redacted(value, found.secrets)

    shown: dict[str, Any] = masked(found.sections.model_dump(mode="json", by_alias=True), "")
    return shown
