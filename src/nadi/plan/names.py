"""Names and ids: which query is called what, and where its state is kept.

A query is called by its @info(name), else `query_<n>` counted over all queries of the app. The *id*, which starts the ids of its elements,
must not change when something else in the app is edited: the given name, else `unnamed_<k>` counted over the unnamed queries only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.errors import NadiError
from nadi.lang import tree
from nadi.lang.tree import Annotation
from nadi.plan.annotations import first
from nadi.plan.context import Context


@dataclass(slots=True)
class Names:
    """Hands out names and ids in the order of the text."""

    queries: int = 0
    unnamed: int = 0
    partitions: int = 0
    anonymous: int = 0
    taken: set[str] = field(default_factory=set)

    def query(self, annotations: tuple[Annotation, ...]) -> tuple[str, str]:
        """Name and id of the next query."""
        self.queries += 1
        given = _info_name(annotations)
        if given is None:
            self.unnamed += 1
        element = given or f"unnamed_{self.unnamed}"
        return given or f"query_{self.queries}", self._unique(element)

    def partition(self, annotations: tuple[Annotation, ...]) -> str:
        """Id of the next partition."""
        self.partitions += 1
        return self._unique(_info_name(annotations) or f"partition_{self.partitions}")

    def anonymous_stream(self) -> str:
        """Name of the stream between an anonymous query and the one around it."""
        self.anonymous += 1
        return f"anonymous_{self.anonymous}"

    def _unique(self, wanted: str) -> str:
        """A query in a partition may be called like one outside of it; their states may not."""
        made, again = wanted, 1
        while made in self.taken:
            again += 1
            made = f"{wanted}~{again}"
        self.taken.add(made)
        return made


def repeated_names(context: Context, nodes: tuple[tree.ExecutionElement, ...]) -> list[NadiError]:
    """An error (DUPLICATE_NAME) for each name given twice: among the queries and partitions of an app, or among the queries of one partition."""
    found: list[NadiError] = []
    names: set[str] = set()
    for node in nodes:
        given = _info_name(node.annotations)
        if given is not None and given in names:
            at = first(node.annotations, "info")
            span = at.span if at is not None else node.span
            found.append(context.fail("DUPLICATE_NAME", span, name=given, other="query or partition"))
        if given is not None:
            names.add(given)
        if isinstance(node, tree.Partition):
            found.extend(repeated_names(context, node.queries))
    return found


def _info_name(annotations: tuple[Annotation, ...]) -> str | None:
    info = first(annotations, "info")
    return (info.get("name") or None) if info is not None else None
