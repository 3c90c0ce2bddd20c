"""`@App:statistics`: what is measured of an app from its start on, and which metrics there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nadi.lang.tree import Annotation
from nadi.metrics.levels import Level
from nadi.plan.annotations import first

IGNORED = {
    "reporter": "reporters are those of the node, in its deployment.yaml",
    "interval": "reporters are those of the node, in its deployment.yaml",
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """`include` are globs over whole names (empty: all are there); `notices` are sentences about what has no effect."""

    level: Level = Level.OFF
    include: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def includes(self, name: str) -> bool:
        """Whether there is a metric of this whole name.

        >>> Statistics(include=("*.Sources.*",)).includes("org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources.In.http.throughput")
        True
        """
        return not self.include or matches(name, self.include)


def matches(name: str, globs: Sequence[str]) -> bool:
    """Whether a name is like one of some globs, in which `*` and `?` mean something.

    >>> matches("a.b[1]", ["a.?[1]"]), matches("a.b", ["b*"])
    (True, False)
    """
    return any(fnmatchcase(name, glob.replace("[", "[[]")) for glob in globs)


def statistics_of(annotations: tuple[Annotation, ...]) -> Statistics:
    """What the annotations of an app say: BASIC for `@App:statistics`, with `'true'` or `enable='true'`; otherwise OFF."""
    found = first(annotations, "app:statistics")
    if found is None:
        return Statistics()
    given = {element.key.lower(): element.value for element in found.elements}
    enabled = given.get("enable", given.get("", "true")).strip().lower() == "true"
    include = tuple(part.strip() for part in given.get("include", "").split(",") if part.strip())
    notices = tuple(f"'{key}' of @App:statistics has no effect: {IGNORED[key]}" for key in IGNORED if key in given)
    return Statistics(Level.BASIC if enabled else Level.OFF, include, notices)
