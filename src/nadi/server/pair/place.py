"""What a deployment.yaml says of a node of a pair: whom it forms a pair with, where it is reached, and where both keep what they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import msgspec

from nadi.cluster.pair import PairSettings
from nadi.config import Persistence
from nadi.config.deployment import HTTP, HTTPS, LOOPBACK, Deployment
from nadi.config.pairs import EVERY_ADDRESS
from nadi.config.places import FILES, DataSource
from nadi.databases import Address
from nadi.errors import error
from nadi.io.remotefiles import is_remote
from nadi.kernel import segments, semantics
from nadi.kernel.rows import payloads
from nadi.pipeline import shape
from nadi.pipeline.state import layout

SEMANTICS = f"{semantics.SEMANTICS}.{shape.VERSION}.{layout.FORMAT}.{payloads.VERSION}.{segments.VERSION}"
"""What kernels do, and the forms in which apps keep what they have: of two nodes with others none can go on where the other one was."""

OWN = ("nadi.journal.url", "nadi.cuts.url", "nadi.state.url")
"""Where each node keeps its copy: nothing that a file could say."""

CLUSTER = "cluster.config.enabled"
DATASOURCE = "cluster.config.strategyConfig.datasource"
ADVERTISED = "deployment.config.eventSyncServer.advertisedHost"


@dataclass(frozen=True, slots=True)
class PairPlace:
    """See the module's text. `listens` is where event sync listens, `reached` where the partner finds it; `rest` is the REST API of this node, for the partner,
    "" where it has none that others reach."""

    id: str
    settings: PairSettings
    database: Address
    listens: tuple[str, int]
    reached: tuple[str, int]
    rest: str


def place_of(deployment: Deployment) -> PairPlace:
    """Errors: INVALID_SETTING, for what is missing or cannot be."""
    sections = deployment.sections
    cluster, config = sections.cluster, sections.deployment_config
    if not cluster.enabled:
        wanted = (
            "true, with groupId and strategyConfig, the same on both nodes: a database decides which of them is active"
        )
        raise error("INVALID_SETTING", name=CLUSTER, value="false", wanted=wanted)
    source = sections.datasources.source(cluster.strategy.datasource, DATASOURCE)
    server = config.sync_server
    host, port = server.reached_at
    if not host:
        wanted = "the address at which the partner reaches this node, as 'host' is every address"
        raise error("INVALID_SETTING", name=ADVERTISED, value="missing", wanted=wanted)
    for name in OWN:
        if deployment.conf.get(name):
            wanted = "no value: each node of a pair has its own, and a copy of its partner's"
            raise error("INVALID_SETTING", name=name, value=deployment.conf[name], wanted=wanted)
    return PairPlace(
        sections.carbon.id,
        PairSettings(cluster.group, cluster.strategy.interval, cluster.strategy.retries),
        Address(source.jdbc_url, source.username, source.password),
        (server.host, server.port),
        (host, port),
        _rest(deployment, host),
    )


def _rest(deployment: Deployment, host: str) -> str:
    """The REST API as the partner reaches it: as `httpsInterface` or `httpInterface` say, else the first listener; one with http, if there is one, as what
    nodes ask each other is signed, and their certificates need not be known."""
    config = deployment.sections.deployment_config
    if config.https_interface is not None or config.http_interface is not None:
        return config.interface(HTTPS, HTTP).address
    listeners = sorted(deployment.http, key=lambda one: one.scheme != "http")
    if not listeners or not listeners[0].port:
        return ""
    first = listeners[0]
    where = host if first.host in (*EVERY_ADDRESS, LOOPBACK) else first.host
    return f"{first.scheme}://{f'[{where}]' if ':' in where else where}:{first.port}"


def revisions_of(deployment: Deployment, copied: str) -> Persistence:
    """Where revisions go: both nodes have to reach them. Files without a place that both have are below `copied`, which the partner gets a copy of."""
    found: Persistence = deployment.persistence
    if found.enabled and found.store == FILES and not found.is_absolute:
        return replace(found, location=copied)
    return found


def notices(deployment: Deployment) -> list[str]:
    """What an operator may not have meant: files where the other node is to find the same as this one."""
    found = []
    sections = deployment.sections
    coordination = sections.datasources.find(sections.cluster.strategy.datasource)
    if coordination is not None and _is_file(coordination):
        found.append(
            f"the data source '{coordination.name}', in which the pair decides who is active, is a file of SQLite: both nodes have to be on this machine"
        )
    kept = deployment.persistence
    if kept.enabled and kept.datasource is not None and _is_file(kept.datasource):
        found.append(f"revisions are in a file of SQLite ('{kept.datasource.name}'): the other node has to reach it")
    if kept.enabled and kept.store == FILES and kept.is_absolute and not is_remote(kept.location):
        found.append(f"revisions are in {kept.location}: the other node has to have the same folder there")
    return found


def _is_file(source: DataSource) -> bool:
    return source.jdbc_url.removeprefix("jdbc:").startswith("sqlite:")


def digest_of(deployment: Deployment) -> str:
    """A digest of all settings by which the nodes of a pair could come to different results: two nodes with another one cannot stand in for each other."""
    own = {name: value for name, value in deployment.conf.items() if name.startswith("nadi.") and name not in OWN}
    said = msgspec.json.encode([own, dict(deployment.sections.own.variables), deployment.refs], order="sorted")
    return blake2b(said, digest_size=8).hexdigest()
