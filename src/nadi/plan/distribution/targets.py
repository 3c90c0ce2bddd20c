"""What of a sink one instance alone can have, as a file that it fills: of several each would cut off what the others have written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nadi.lang.tree import Annotation
from nadi.plan.annotations import found
from nadi.plan.connectortraits import ConnectorCatalog
from nadi.plan.context import Context
from nadi.plan.distribution.model import Group
from nadi.plan.nodes import App


@dataclass(slots=True)
class _Filled:
    """Who has a value: the groups, and how many instances they have together."""

    sink: Annotation
    option: str
    why: str
    stream: str
    groups: dict[str, None] = field(default_factory=dict)
    instances: int = 0


def check_targets(context: Context, types: ConnectorCatalog, plan: App, groups: Iterable[Group]) -> None:
    """Each of these values has one instance that has it, whichever sinks and groups of the app name it.

    Raises:
        DIST_SINK_SHARED: one has several.
    """
    known: dict[tuple[str, str], _Filled] = {}
    for group in groups:
        for output in group.outputs:
            if output.user_given:
                for option, why, sink in _alone(types, plan, output.name):
                    key = (sink.get("type") or "").lower(), sink.get(option) or ""
                    filled = known.setdefault(key, _Filled(sink, option, why, output.name))
                    filled.groups[group.name] = None
                    filled.instances += len(group.instances)
    for (_type, target), filled in known.items():
        if filled.instances > 1:
            raise context.fail(
                "DIST_SINK_SHARED",
                filled.sink.place(filled.option),
                option=f"{filled.option}='{target}'",
                why=filled.why,
                stream=filled.stream,
                instances=filled.instances,
                groups=", ".join(filled.groups),
            )


def _alone(types: ConnectorCatalog, plan: App, stream: str) -> Iterator[tuple[str, str, Annotation]]:
    """The sinks of a stream that have such an option, with it and what would become of several."""
    for sink in found(plan.streams[stream].annotations, "sink"):
        traits = types.sink_traits((sink.get("type") or "").lower())
        for option, why in () if traits is None else traits.alone:
            if sink.get(option):
                yield option, why, sink
