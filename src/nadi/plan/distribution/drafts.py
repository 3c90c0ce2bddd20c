"""Groups while an app is being cut."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.lang.tree import Annotation
from nadi.plan.connectortraits import Divided
from nadi.plan.distribution.parts import Part
from nadi.plan.nodes import App


@dataclass(frozen=True, slots=True)
class Draft:
    """A group: its parts, and the aggregations that it feeds (`fed`), in the order of the text; `looked` are the tables that these look into.

    A receiver group has the stream that it takes in from outside in `receives`, and its `source` unless that is an outside channel; `divided` says how its
    instances share that. `hosts` are the triggers that fire here and reach others.
    """

    name: str
    kind: str
    parallel: int
    parts: tuple[Part, ...] = ()
    fed: tuple[str, ...] = ()
    receives: str = ""
    source: Annotation | None = None
    divided: Divided = Divided.WHOLE
    hosts: tuple[str, ...] = ()
    looked: frozenset[str] = frozenset()

    def reads(self, plan: App) -> frozenset[str]:
        """The streams that it reads."""
        own = frozenset(plan.aggregations[a].input.source for a in self.fed)
        return own.union(*(p.streams for p in self.parts))

    def writes(self, plan: App) -> frozenset[str]:
        """The streams that it makes events of."""
        taken_in = frozenset((self.receives,) if self.receives else ())
        made = frozenset().union(*(p.written for p in self.parts))
        return taken_in.union(self.hosts, (w for w in made if w in plan.streams))

    def touches(self, name: str) -> bool:
        """Whether it reads or changes a table, named window or aggregation."""
        return any(name in p.touched for p in self.parts) or name in self.fed or name in self.looked
