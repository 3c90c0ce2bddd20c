"""Who makes the events of a stream and who reads them, over the whole app; and the groups that this needs: receivers and triggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from nadi.plan.annotations import found
from nadi.plan.connectortraits import ConnectorCatalog, Divided
from nadi.plan.context import Context
from nadi.plan.distribution.connectors import divided
from nadi.plan.distribution.cycles import reached, successors
from nadi.plan.distribution.dist import source_parallel
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.model import Strategy
from nadi.plan.distribution.names import free
from nadi.plan.distribution.subscriptions import subscriptions
from nadi.plan.nodes import App
from nadi.plan.streams import input_streams


class Origin(Enum):
    """From where outside of the app the events of a stream come, and whether straight to who reads them or to a receiver group."""

    NONE = "nowhere"
    SOURCE = "a source, straight"
    CHANNEL = "an outside channel, straight"
    RECEIVED_SOURCE = "a source, by receiver groups"
    RECEIVED_CHANNEL = "an outside channel, by a receiver group"


STRAIGHT = (Origin.SOURCE, Origin.CHANNEL)


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream: the groups that make its events, those that read them (both by name), and what comes from outside."""

    stream: str
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    origin: Origin = Origin.NONE

    def others(self, consumer: str) -> tuple[str, ...]:
        """The groups whose events a group gets by a channel."""
        return tuple(p for p in self.producers if p != consumer)


@dataclass(slots=True)
class _Wiring:
    context: Context
    types: ConnectorCatalog
    plan: App
    drafts: list[Draft]
    receivers: list[Draft]
    triggering: list[Draft]
    taken: set[str]
    fed: frozenset[str]  # streams whose events come from outside, at least in part


def wired(
    context: Context, types: ConnectorCatalog, plan: App, drafts: tuple[Draft, ...]
) -> tuple[tuple[Draft, ...], dict[str, Flow]]:
    """All groups, receivers first, and the flows by stream."""
    wiring = _Wiring(
        context, types, plan, list(drafts), [], [], {d.name for d in drafts}, frozenset(input_streams(plan))
    )
    origins = {f.stream: _take_in(wiring, f) for f in _flows(plan, drafts) if f.stream not in plan.triggers}
    for trigger in plan.triggers:
        _fire(wiring, trigger)
    everyone = (*wiring.receivers, *wiring.triggering, *wiring.drafts)
    flows = {f.stream: replace(f, origin=origins.get(f.stream, Origin.NONE)) for f in _flows(plan, everyone)}
    return everyone, {s: f for s, f in flows.items() if f.producers or f.consumers}


def _streams(plan: App) -> list[str]:
    return [s for s, known in plan.streams.items() if known.partition is None and not s.startswith("!")]


def _flows(plan: App, drafts: Iterable[Draft]) -> Iterator[Flow]:
    """Who makes and who reads each stream, in the order of the plan."""
    makers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for draft in drafts:
        for stream in draft.writes(plan):
            makers.setdefault(stream, []).append(draft.name)
        for stream in draft.reads(plan):
            readers.setdefault(stream, []).append(draft.name)
    for stream in _streams(plan):
        yield Flow(stream, tuple(sorted(makers.get(stream, ()))), tuple(sorted(readers.get(stream, ()))))


# ---- from outside --------------------------------------------------------------------------------------------------


def _take_in(wiring: _Wiring, flow: Flow) -> Origin:
    """From where events of a stream come into the app. Receiver groups are made where it takes them."""
    plan, stream = wiring.plan, flow.stream
    sources = found(plan.streams[stream].annotations, "source")
    sinks = found(plan.streams[stream].annotations, "sink")
    outside = not sources and bool(flow.consumers) and (not flow.producers or stream in wiring.fed)
    if not (sources or outside) or not (flow.consumers or sinks):
        return Origin.NONE  # nothing comes, or nobody is interested
    if _straight(wiring, flow, outside, bool(sinks)):
        return Origin.CHANNEL if outside else Origin.SOURCE
    for place, source in enumerate(sources or (None,), 1):
        name = free(f"{plan.name}-passthrough-{stream}-{place}", wiring.taken)
        wide = source_parallel(wiring.context, source) if source is not None else 1
        by = Divided.WHOLE if source is None else divided(source, wiring.types)
        wide = 1 if by is Divided.WHOLE else wide
        wiring.receivers.append(Draft(name, "passthrough", wide, receives=stream, source=source, divided=by))
    return Origin.RECEIVED_CHANNEL if outside else Origin.RECEIVED_SOURCE


def _straight(wiring: _Wiring, flow: Flow, outside: bool, sinks: bool) -> bool:
    readers = [d for d in wiring.drafts if d.name in flow.consumers]
    elsewhere = [p for p in flow.producers if p not in flow.consumers or len(flow.consumers) > 1]
    if len(readers) == 1 and readers[0].parallel == 1:
        return not elsewhere or not (sinks or outside)
    if not outside or sinks or flow.producers:
        return False
    ways = [w for d in readers for w in subscriptions(wiring.context, d, flow.stream)]
    return all(w.strategy is not Strategy.FIELD_GROUPING for w in ways)


# ---- triggers ------------------------------------------------------------------------------------------------------


def _fire(wiring: _Wiring, trigger: str) -> None:
    """One group of one instance fires a trigger: the only one that reads it, else one that nobody else who reads it leads to, else one of its own."""
    plan = wiring.plan
    readers = [d for d in wiring.drafts if trigger in d.reads(plan)]
    sinks = found(plan.streams[trigger].annotations, "sink")
    if not readers and not sinks:
        return
    after = successors(plan, [*wiring.drafts, *wiring.triggering])
    led_to = {d.name: reached(d.name, after) for d in readers}
    for reader in sorted(readers, key=lambda d: d.name):
        if reader.parallel == 1 and not any(reader.name in led_to[other.name] for other in readers):
            wiring.drafts[wiring.drafts.index(reader)] = replace(reader, hosts=(*reader.hosts, trigger))
            return
    name = free(f"{plan.name}-trigger-{trigger}", wiring.taken)
    wiring.triggering.append(Draft(name, "trigger", 1, hosts=(trigger,)))
