"""What holds for all topologies."""

from __future__ import annotations

import random
from dataclasses import replace

from generated import Generated, apps
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reading import annotations

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.lang import parse, print_app
from nadi.plan import plan_app
from nadi.plan.distribution import Holder, Strategy, Topology, distribute

REGISTRY = default_registry()
TRANSPORTS = st.sampled_from(["nats", "kafka"])


def _cut(made: Generated, transport: str) -> Topology:
    try:
        return distribute(made.text, REGISTRY, connectors, transport=transport)
    except NadiError as refused:
        assume(not refused.condition.startswith("DIST_"))
        raise


def _contents(topology: Topology) -> dict[str, object]:
    """Everything but the order."""
    found: dict[str, object] = {"channels": set(topology.channels)}
    for group in topology.groups:
        texts = [parse(i.text) for i in group.instances]
        found[group.name] = (
            group.parallel,
            group.kind,
            frozenset(group.elements),
            frozenset(group.inputs),
            frozenset(group.outputs),
            [(i.name, i.key_groups) for i in group.instances],
            [frozenset(map(repr, t.definitions)) | frozenset(map(repr, t.elements)) for t in texts],
        )
    return found


@settings(max_examples=30, deadline=None)
@given(made=apps(), transport=TRANSPORTS, seed=st.integers(0, 99))
def test_the_order_of_declarations_means_nothing(made, transport, seed):
    order = random.Random(seed)
    definitions, elements = list(made.definitions), list(made.elements)
    order.shuffle(definitions)
    order.shuffle(elements)
    shuffled = replace(made, definitions=tuple(definitions), elements=tuple(elements))
    assert _contents(_cut(made, transport)) == _contents(_cut(shuffled, transport))


@settings(max_examples=30, deadline=None)
@given(made=apps(), transport=TRANSPORTS)
def test_partial_apps_are_apps_as_printed_and_cutting_again_gives_the_same(made, transport):
    topology = _cut(made, transport)
    for instance in topology.instances:
        assert plan_app(instance.text, REGISTRY).name == instance.name
        assert print_app(parse(instance.text)) == instance.text
        assert "@dist" not in instance.text
    assert topology == _cut(made, transport)
    names = [i.name for i in topology.instances]
    assert len(names) == len(set(names))


@settings(max_examples=30, deadline=None)
@given(made=apps(), transport=TRANSPORTS)
def test_what_is_made_reaches_all_who_read_it(made, transport):
    topology = _cut(made, transport)
    plan = plan_app(made.text, REGISTRY)
    makers: dict[str, set[str]] = {s: set() for s in plan.streams}
    readers: dict[str, set[str]] = {s: set() for s in plan.streams}
    for group in topology.groups:
        for instance in group.instances:
            part = plan_app(instance.text, REGISTRY)
            for query in part.queries:
                makers.setdefault(getattr(query.output, "target", ""), set()).add(group.name)
        for each in () if group.receiver else group.inputs:
            if each.holder in (Holder.STREAM, Holder.TRIGGER):
                readers[each.name].add(group.name)
    for stream, found in readers.items():
        for reader in found:
            for maker in makers.get(stream, set()) - {reader}:
                assert _connected(topology, stream, maker, reader), (stream, maker, reader)


def _connected(topology: Topology, stream: str, maker: str, reader: str) -> bool:
    """Whether every instance of one group fills a channel of which the instances of the other one read all, or each of them all."""
    given = [i for i in topology.group(reader).inputs if i.name == stream and i.channel and maker in i.producers]
    for each in given:
        name = each.channel.name
        for instance in topology.group(maker).instances:
            assert name in [s.get("name") for s in annotations(instance.text, "sink")]
        assigned: list[int] = []
        for instance in topology.group(reader).instances:
            (source,) = (s for s in annotations(instance.text, "source") if s.get("name") == name)
            makers = {i.name for i in topology.group(maker).instances}
            assert makers <= set(source["producers"].split(","))
            whole = range(each.channel.partitions)
            assigned += map(int, source["assigned"].split(",")) if "assigned" in source else whole
        times = len(topology.group(reader).instances) if each.strategy is Strategy.ALL else 1
        assert sorted(assigned) == sorted(list(range(each.channel.partitions)) * times)
    return bool(given)


@settings(max_examples=30, deadline=None)
@given(made=apps(), transport=TRANSPORTS)
def test_the_instances_of_a_group_own_each_key_group_once(made, transport):
    for group in _cut(made, transport).groups:
        owned = [g for i in group.instances for g in i.key_groups]
        assert owned == list(range(128))
