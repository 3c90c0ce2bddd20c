"""Which apps can run where hosts have nothing of the node's state folder: on a cluster with `nadi.state.url`."""

from __future__ import annotations

from nadi.errors import error
from nadi.io.contract import Connector
from nadi.io.registry import sink_traits, source_traits
from nadi.pipeline.node import NodeOptions
from nadi.pipeline.spec import Connectors
from nadi.plan.nodes import App


def check_cluster(app: App, registry: Connectors, options: NodeOptions) -> None:
    """Whether a node with these options can run an app on its Spark cluster, where it has one. Errors: NEEDS_STATE_FOLDER."""
    settings = options.settings()
    if options.cluster and settings.state_url:
        check_apart(app, registry, bool(settings.journal_url))


def check_apart(app: App, registry: Connectors, journal: bool) -> None:
    """Whether all that an app needs is reached from every machine; `journal` is whether the node was told of a server for the journal.

    Errors: NEEDS_STATE_FOLDER.
    """
    for source in registry.connectors(app, "source"):
        traits = source_traits(source.type)
        if traits is None:
            continue
        if traits.local:
            raise _refused(
                source, "source", "its files, and what it notes of them, must be where all hosts find them", _OTHER
            )
        if traits.journal and not journal:
            raise _refused(
                source, "source", "the journal that the node starts is reached from its own machine only", _JOURNAL
            )
    for sink in registry.connectors(app, "sink"):
        target = sink_traits(sink.type)
        if target is not None and target.local:
            raise _refused(
                sink, "sink", "what it keeps until a cut is committed must be where all hosts find it", _OTHER
            )


_OTHER = "use one of another type, or leave nadi.state.url out and have a state folder that all machines share"
_JOURNAL = "name a NATS server that all machines reach with nadi.journal.url"


def _refused(connector: Connector, what: str, reason: str, hint: str) -> Exception:
    named = f"@{what} '{connector.type}' of {connector.stream}"
    return error("NEEDS_STATE_FOLDER", connector.place("type"), what=named, reason=reason, hint=hint)
