"""How one version of a distributed app follows another one: what its instances begin with, and whether the app has to drain for it. Pure.

Instances that are the same, with the same ends, go on where they are: a query has changed, or its options. All else takes effect when the whole app has
drained: instances of the new version then begin with the state of those of the old one, by group and key-group, and read channels of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nadi.errors import error
from nadi.functions.registry import default_registry
from nadi.io.registry import sink_traits
from nadi.lang import parse, tree
from nadi.pipeline.revision.inheritance import Ancestor, Heritage
from nadi.plan import plan_app, plan_restore
from nadi.plan.distribution import Group, Topology
from nadi.plan.migration import KEPT, MIGRATED, NEW, RESET
from nadi.plan.nodes import App
from nadi.plan.restore import Fate

Ends = tuple[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an app: as it is cut, what its instances keep is known by (empty: their own names), and the values of its connections."""

    topology: Topology
    homes: Mapping[str, str]
    connections: Mapping[str, str]

    def home(self, instance: str) -> str:
        return self.homes.get(instance) or instance

    def planned(self, text: str) -> App:
        return plan_app(text, default_registry(), connections=self.connections)


def goes_on(before: Topology, after: Topology) -> bool:
    """Whether the instances are the same, and read and write the same, so that each may go on from where it is."""
    olds, news = ({i.name: i.text for i in each.instances} for each in (before, after))
    shapes = [{g.name: (g.parallel, g.buckets or 1) for g in each.groups} for each in (before, after)]
    return olds.keys() == news.keys() and shapes[0] == shapes[1] and all(_ends(olds[n]) == _ends(news[n]) for n in olds)


def _ends(text: str) -> Ends:
    """The streams of a partial app that come from somewhere, or go to a channel: with their attributes, and where."""
    found = []
    for definition in parse(text).definitions:
        ends = tuple(_told(a) for a in definition.annotations if _is_end(a))
        if ends and isinstance(definition, tree.StreamDefinition):
            attributes = tuple((a.name, str(a.type)) for a in definition.attributes)
            found.append((definition.source.name, attributes, ends))
    return tuple(found)


def _is_end(annotation: tree.Annotation) -> bool:
    """Whether it is a source, or a sink whose readers are told how far the app has come."""
    if annotation.name.lower() != "sink":
        return annotation.name.lower() == "source"
    traits = sink_traits((annotation.get("type") or "").lower())
    return traits is not None and traits.announces


def _told(annotation: tree.Annotation) -> str:
    return repr((annotation.name.lower(), [(e.key, e.value) for e in annotation.elements]))


# ---- what instances begin with


def heritages(before: Version, after: Version) -> dict[str, Heritage]:
    """What each instance of the new version begins with; instances that nobody was before begin anew, and are not there.

    Raises:
        SiddhiAppValidationException: GROUPS_CHANGED, where a group would have to begin with what another one keeps.
    """
    own = _predecessors(before, after)
    _check_stays(before, after, own)
    found = {}
    for group in after.topology.groups:
        known = [own[group.name]] if group.name in own else []
        known += [old for old in before.topology.groups if old not in known and _sources(old) & _sources(group)]
        firsts = tuple(instance.key_groups.start for instance in group.instances)
        for number, instance in enumerate(group.instances):
            if known:
                mine, others = _ancestors(before, known[:1]), _ancestors(before, known[1:])
                found[instance.name] = Heritage(mine, number, firsts, others)
    return found


def _ancestors(version: Version, groups: Sequence[Group]) -> tuple[Ancestor, ...]:
    return tuple(Ancestor(version.home(i.name), i.text) for group in groups for i in group.instances)


def _sources(group: Group) -> frozenset[str]:
    """The streams that come into a group straight from a source of the app."""
    return frozenset(given.name for given in group.inputs if given.user_given and given.channel is None)


def _predecessors(before: Version, after: Version) -> dict[str, Group]:
    """The group that each new one goes on from, by the name of that: the one of the same name or, where just one new group has use for what one that is gone
    keeps, and for nothing of others, this one. So a group keeps its state under another name; a state is neither divided among groups nor brought together."""
    olds, news = ({g.name: g for g in each.topology.groups} for each in (before, after))
    found = {name: olds[name] for name in news if name in olds}
    gone = {name: before.planned(g.instances[0].text) for name, g in olds.items() if name not in news}
    fresh = {name: after.planned(g.instances[0].text) for name, g in news.items() if name not in olds} if gone else {}
    taken = [(old, new) for old, left in gone.items() for new, wants in fresh.items() if _goes_along(left, wants)]
    for old, new in taken:
        if [pair for pair in taken if old in pair or new in pair] == [(old, new)]:
            found[new] = olds[old]
    return found


def _goes_along(old: App, new: App) -> bool:
    """Whether an element of the new app would go on from one of the old one."""
    return any(fate.new and fate.fate in (KEPT, MIGRATED) for fate in _fates(old, new))


def _check_stays(before: Version, after: Version, own: Mapping[str, Group]) -> None:
    moved = []
    olds = {g.name: before.planned(g.instances[0].text) for g in before.topology.groups}
    for group in after.topology.groups:
        new = after.planned(group.instances[0].text)
        mine = own[group.name].name if group.name in own else ""
        lacking = {f.new for f in _fates(olds.get(mine), new) if f.new and f.fate in (NEW, RESET)}
        if lacking and any(
            f.new in lacking and f.fate in (KEPT, MIGRATED)
            for name, old in olds.items()
            if name != mine
            for f in _fates(old, new)
        ):
            moved.append(group.name)
    if moved:
        raise error("GROUPS_CHANGED", groups=", ".join(moved))


def _fates(old: App | None, new: App) -> tuple[Fate, ...]:
    empty = plan_app("@app:name('Nothing') define stream Nothing (nothing int);", default_registry())
    return plan_restore(old or empty, new, default_registry()).fates


def rows(before: Version, after: Version) -> list[tuple[str, str, str, str, str]]:
    """What becomes of each element that keeps something: group, element, what it keeps, fate, why."""
    olds = {g.name: before.planned(g.instances[0].text) for g in before.topology.groups}
    own = {new: old.name for new, old in _predecessors(before, after).items()}
    return [*_of_groups(olds, own, after), *_of_gone({n: old for n, old in olds.items() if n not in own.values()})]


def _of_groups(
    olds: Mapping[str, App], own: Mapping[str, str], after: Version
) -> Iterator[tuple[str, str, str, str, str]]:
    for group in after.topology.groups:
        for fate in _fates(olds.get(own.get(group.name, "")), after.planned(group.instances[0].text)):
            yield (group.name, fate.new or fate.old, fate.what, fate.fate, fate.reason)


def _of_gone(gone: Mapping[str, App]) -> Iterator[tuple[str, str, str, str, str]]:
    empty = plan_app("@app:name('Nothing') define stream Nothing (nothing int);", default_registry())
    for name, old in gone.items():
        for fate in plan_restore(old, empty, default_registry()).fates:
            yield (name, fate.old, fate.what, fate.fate, "its group is not there any more")
