"""A deployment.yaml: one model per section, from which reading, errors and documentation are made.

found = read_deployment(Path("deployment.yaml"))
found.http                      # the listeners of the REST APIs, ports with the offset
found.notices                   # keys that nothing reads, with the nearest known one

Names and defaults are those of WSO2 Stream Processor 4.x; what is nadi's own stands under `nadi:` and `spark:`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nadi.config.persistence import DataSource, ErrorStoring, Persistence, error_storing_of, persistence_of
from nadi.config.placeholders import Lookup, fill
from nadi.config.settings import read_settings
from nadi.errors import error, nearest

HTTP, HTTPS = 9090, 9443
QUERY_HTTP, QUERY_HTTPS = 7070, 7443
LARGEST = 1_000_000  # bytes of a file
LOOPBACK = "127.0.0.1"

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
}
"""Sections of the reference that a worker does not read, and what is there instead."""


class Section(BaseModel):
    """A section: keys that it does not know are kept, and become notices."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


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
    """One of `listenerConfigurations`. A key store is a file in PKCS#12, or else nadi's own certificate is used."""

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
    transport_properties: Any = Field(default=None, alias="transportProperties")
    senders: Any = Field(default=None, alias="senderConfigurations")


class ArtifactDeployment(Section):
    """`wso2.artifact.deployment`: where the folder `siddhi-files` is, and after how many seconds it is looked at again at the latest."""

    update_interval: int = Field(default=5, ge=1, le=86_400, alias="updateInterval")
    repository_location: str = Field(default="", alias="repositoryLocation")


class User(Section):
    """A user of `userStore.users`. `password` is base64, as the reference has it, or an argon2 hash; `roles` are ids, with commas between them."""

    username: str = Field(min_length=1)
    password: str = Field(min_length=1, repr=False)
    roles: str | int = ""

    @property
    def role_ids(self) -> tuple[str, ...]:
        """The ids of the roles."""
        return tuple(part.strip() for part in str(self.roles).split(",") if part.strip())


class UserEntry(Section):
    user: User


class Role(Section):
    """A role of `userStore.roles`."""

    id: str | int
    display_name: str = Field(default="", alias="displayName")


class RoleEntry(Section):
    role: Role


class UserStore(Section):
    """The local users and roles."""

    users: tuple[UserEntry, ...] = ()
    roles: tuple[RoleEntry, ...] = ()


class UserManager(Section):
    """Users of the role `adminRole` may do everything."""

    admin_role: str = Field(default="admin", alias="adminRole")
    user_store: UserStore = Field(default=UserStore(), alias="userStore")


class RestAuth(Section):
    """Which paths of the REST APIs want credentials: all but those that match a pattern of `exclude` (`*`, `?`)."""

    auth_enable: bool = Field(default=True, alias="authEnable")
    exclude: tuple[str, ...] = ()


class AuthProperties(Section):
    """How long a login lasts, in seconds."""

    session_timeout: int = Field(default=3_600, ge=1, alias="sessionTimeout")
    refresh_session_timeout: int = Field(default=86_400, ge=1, alias="refreshSessionTimeout")


class Auth(Section):
    """`auth.configs`."""

    type: Literal["local"] = "local"
    sso_enabled: bool = Field(default=False, alias="ssoEnabled")
    properties: AuthProperties = AuthProperties()
    rest: RestAuth = Field(default=RestAuth(), alias="restAPIAuthConfigs")
    user_manager: UserManager = Field(default=UserManager(), alias="userManager")


class Tls(Section):
    """`nadi.tls`: a certificate chain and its key, both in PEM; without them the first start makes a pair."""

    certificate: str = ""
    key: str = ""


class Own(Section):
    """`nadi`: what is nadi's own. `variables` are what `${name}` in the text of an app may stand for; every other key is a setting `nadi.…`."""

    variables: Mapping[str, str] = Field(default_factory=dict)
    tls: Tls = Tls()

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
    own: Own = Field(default=Own(), alias="nadi")
    spark: Spark = Spark()


_ELSEWHERE = ("state.persistence", "error.store", "wso2.datasources")  # nadi.config.persistence reads them


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a deployment.yaml says. `notices` are sentences about what has no effect."""

    sections: Sections = field(default_factory=Sections)
    persistence: Persistence = field(default_factory=Persistence)
    error_store: ErrorStoring = field(default_factory=ErrorStoring)
    notices: tuple[str, ...] = ()

    @property
    def http(self) -> tuple[Listener, ...]:
        """Where the REST APIs are served."""
        return self._listeners(self.sections.transport, HTTP, HTTPS)

    @property
    def query(self) -> tuple[Listener, ...]:
        """Where on-demand queries are served."""
        return self._listeners(self.sections.query, QUERY_HTTP, QUERY_HTTPS)

    @property
    def conf(self) -> dict[str, str]:
        """The settings of nadi and Spark, as `--conf` takes them."""
        return {**self.sections.own.conf, **self.sections.spark.conf}

    def _listeners(self, transport: Transport, http: int, https: int) -> tuple[Listener, ...]:
        given = transport.listeners
        if given is None:
            given = (Listener(id="default", port=http), Listener(id="default-https", port=https, scheme="https"))
        return tuple(listener.at(self.sections.carbon.ports.offset) for listener in given)


def read_deployment(path: Path, lookups: Mapping[str, Lookup] | None = None) -> Deployment:
    """A deployment.yaml.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING, where the file is no YAML, or a value cannot be; with the path of the value.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise error("INVALID_SETTING", name="deployment.yaml", value=path, wanted=f"at most {LARGEST:,} bytes")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise error(
            "INVALID_SETTING", name="deployment.yaml", value=path, wanted=f"a file in YAML ({reason})"
        ) from problem
    if content is not None and not isinstance(content, dict):
        raise error("INVALID_SETTING", name="deployment.yaml", value=path, wanted="sections: `name:` and below it keys")
    return deployment_of(content or {}, lookups)


def environment_lookups(home: Path | None = None) -> dict[str, Lookup]:
    """What placeholders stand for on this machine: `${env:…}` the environment, `${sys:…}` too, where no system property of the reference is meant."""
    own = {"wso2.runtime": "worker"} | ({} if home is None else {"carbon.home": str(home)})
    return {"env": os.environ.get, "sys": lambda name: own.get(name, os.environ.get(name)), "sec": lambda _name: None}


def deployment_of(content: Mapping[str, Any], lookups: Mapping[str, Lookup] | None = None) -> Deployment:
    """What the content of a deployment.yaml says.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING.

    >>> [(l.scheme, l.port) for l in deployment_of({"wso2.carbon": {"ports": {"offset": 1}}}).http]
    [('http', 9091), ('https', 9444)]
    """
    filled = _joined(fill(dict(content), lookups or environment_lookups()))
    try:
        sections = Sections.model_validate(filled)
    except ValidationError as problem:
        raise _invalid(problem) from problem
    read_settings(sections.own.conf)
    return Deployment(
        sections=sections,
        persistence=persistence_of(filled, {}),
        error_store=error_storing_of(filled, {}),
        notices=tuple(_notices(sections)),
    )


def _joined(content: Mapping[str, Any]) -> dict[str, Any]:
    """A section without content is as good as none."""
    return {str(name): section for name, section in content.items() if section is not None}


def _invalid(problem: ValidationError) -> Exception:
    """The first of what pydantic found, as a condition."""
    first = problem.errors(include_url=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
    value = first["input"]
    shown = "missing" if first["type"] == "missing" else "…" if _is_secret(path) else value
    return error("INVALID_SETTING", name=path, value=shown, wanted=_wanted(first))


def _wanted(found: Mapping[str, Any]) -> str:
    """What a value should have been, after `wanted is`."""
    context = found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_type" | "int_from_float":
            return "a whole number"
        case "greater_than_equal":
            return f"a number of {context['ge']} or more"
        case "less_than_equal":
            return f"a number of {context['le']} or less"
        case "bool_parsing" | "bool_type":
            return "true or false"
        case "literal_error":
            return f"one of {context['expected']}"
        case "string_type":
            return "a text"
        case "tuple_type" | "list_type":
            return "a list"
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            return "keys with values"
        case "missing":
            return "a value: it has no default"
        case "string_too_short":
            return "a text that is not empty"
    return str(found["msg"])


def _is_secret(path: str) -> bool:
    """Whether the value at a path is not to be shown."""
    last = path.rpartition(".")[2].lower()
    return any(part in last for part in ("password", "certpass", "secret", "token"))


def _notices(sections: Sections) -> Iterator[str]:
    """What is written in the file and has no effect."""
    known = [str(f.alias or name) for name, f in Sections.model_fields.items()] + list(_ELSEWHERE)
    for name in sections.model_extra or {}:
        if name in _ELSEWHERE:
            continue
        if name in UNUSED:
            yield f"'{name}' has no effect: {UNUSED[name]}"
        else:
            yield _unknown(name, name, [*known, *UNUSED])
    for name, model in Sections.model_fields.items():
        yield from _within(getattr(sections, name), str(model.alias or name))


def _within(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Own | Spark):  # every other key is a setting, and was checked as one, or is Spark's
        return
    if isinstance(value, Section):
        names = {name: str(f.alias or name) for name, f in type(value).model_fields.items()}
        for extra in value.model_extra or {}:
            yield _unknown(f"{path}.{extra}", extra, list(names.values()))
        for name, written in names.items():
            yield from _within(getattr(value, name), f"{path}.{written}")
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from _within(inner, f"{path}[{i}]")


def _unknown(path: str, name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"'{path}' has no effect: nothing reads it" + (f"; did you mean '{near}'?" if near else "")


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


MASKED = "***"


def as_yaml(found: Deployment) -> dict[str, Any]:
    """All settings by the names that they have in a file; passwords are masked."""
    content = found.sections.model_dump(mode="json", by_alias=True)
    kept, errors = found.persistence, found.error_store
    content["state.persistence"] = {
        "enabled": kept.enabled,
        "intervalInMin": kept.interval,
        "revisionsToKeep": kept.keep,
        "persistenceStore": kept.store,
        "config": {"location": kept.location, "table": kept.table} | _named(kept.datasource),
    }
    content["error.store"] = {
        "enabled": errors.datasource is not None,
        "config": {"table": errors.table} | _named(errors.datasource),
    }
    masked: dict[str, Any] = _masked(content, "")
    return masked


def _named(source: DataSource | None) -> dict[str, str]:
    return {} if source is None else {"datasource": source.name}


def _masked(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(inner, path) for inner in value]
    return MASKED if value and isinstance(value, str) and _is_secret(path) else value
