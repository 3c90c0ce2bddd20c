"""How a node takes part in a cluster, by its deployment.yaml: whom it trusts, as whom it comes to others, what it has to share with them."""

from __future__ import annotations

import secrets
import ssl
import time
from dataclasses import replace
from pathlib import Path

from nadi.config import Persistence
from nadi.config.clusters import Interface
from nadi.config.deployment import Deployment
from nadi.config.loopback import is_here
from nadi.config.places import FILES
from nadi.errors import error
from nadi.io.remotefiles import inside, is_remote
from nadi.server.distributed.network import Credentials, HttpNetwork
from nadi.server.distributed.nodekeys import NodeKey

SHARED = {
    "nadi.state.url": "a folder or an object store that all workers reach",
    "nadi.cuts.url": "a database that all workers reach",
    "nadi.journal.url": "a NATS server that all workers reach",
}
ONE_BUCKET = {"nadi.buckets": "1"}
"""An instance is one part of its group, unless its text says more: the number is the same on every worker that it may go to, whatever their settings say."""

STANDALONE = "spark://"
CORES = "spark.cores.max"
SHARES = frozenset({CORES, "spark.dynamicAllocation.enabled"})
"""By one of these several drivers share a standalone cluster."""

BOUNDED = ("nadi.channels.bytes", "nadi.http.behind")
"""Settings that `nadi.cluster.channelBytes` stands for, if they say nothing else: a channel that is full holds up who fills it, and so on up to the source."""


def incarnation() -> str:
    """A name for this start of a node; later ones sort behind it."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}"


def node_key(deployment: Deployment) -> NodeKey | None:
    """What the nodes of the cluster sign requests with; None where they come with names and passwords."""
    own = deployment.sections.own.cluster
    secret = own.secret.get_secret_value()
    return NodeKey(secret, accepted=[one.get_secret_value() for one in own.accepted]) if secret else None


def network_of(deployment: Deployment, own: Interface) -> HttpNetwork:
    """How this node asks others. Errors: INVALID_SETTING."""
    key = node_key(deployment)
    given = deployment.sections.deployment_config.managers
    known = {one.address: Credentials(one.username, one.password.get_secret_value()) for one in given}
    for interface in (*given, own):
        if key is None and interface.scheme == "http" and not is_here(interface.host):
            wanted = "a text of at least 32 random characters, the same on all nodes: without it passwords would travel in the clear"
            raise error("INVALID_SETTING", name="nadi.cluster.secret", value="missing", wanted=wanted)
    others = Credentials(own.username, own.password.get_secret_value())
    if given:
        others = Credentials(given[0].username, given[0].password.get_secret_value())
    return HttpNetwork(key, known, others, trusted_of(deployment))


def trusted_of(deployment: Deployment) -> ssl.SSLContext | None:
    """Who signs the certificates of nodes; None: whom the system trusts."""
    file = deployment.sections.own.cluster.authority
    if not file:
        return None
    if not Path(file).is_file():
        raise error(
            "INVALID_SETTING", name="nadi.cluster.authority", value=file, wanted="a file of certificates in PEM"
        )
    return ssl.create_default_context(cafile=file)


def shared_conf(deployment: Deployment) -> dict[str, str]:
    """The settings of a worker whose apps may go on elsewhere. Errors: INVALID_SETTING, where something is its own, or it would take all of a Spark cluster."""
    named = {"spark.app.name": f"nadi {deployment.sections.carbon.id}"}  # a cluster of Spark has one of each worker
    most = deployment.sections.own.cluster.channel_bytes
    bounds = dict.fromkeys(BOUNDED, str(most)) if most > 0 else {}
    conf = {**named, **bounds, **deployment.conf, **ONE_BUCKET}
    for name, wanted in SHARED.items():
        if not conf.get(name):
            raise error("INVALID_SETTING", name=name, value="missing", wanted=f"{wanted}: apps move between them")
    if deployment.sections.spark.master.startswith(STANDALONE) and not SHARES & conf.keys():
        wanted = "how many cores of the Spark cluster this worker takes: without a number the first worker gets all, and others wait for them"
        raise error("INVALID_SETTING", name=CORES, value="missing", wanted=wanted)
    return conf


def shared_persistence(deployment: Deployment) -> Persistence:
    """Where revisions of instances go, which the leader of the cluster asks for and lets go of: a database, an object store, or what is below the place of
    the state, so that all nodes reach it. Errors: INVALID_SETTING for one that does not."""
    found = replace(deployment.persistence, alone=False)
    if not found.enabled or found.store != FILES or found.is_absolute:
        return found
    state = deployment.conf.get("nadi.state.url", "")
    if not state:
        wanted = (
            "DBPersistenceStore, as all workers have to reach revisions; or with nadi.state.url, below which they are"
        )
        raise error("INVALID_SETTING", name="state.persistence.persistenceStore", value=FILES, wanted=wanted)
    if is_remote(state):
        return replace(found, location=inside(state, found.location))
    folder = Path(state.removeprefix("file://")).resolve() / found.location
    return replace(found, location=str(folder))
