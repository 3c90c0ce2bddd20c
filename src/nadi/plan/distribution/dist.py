"""What `@dist` says, in front of queries and partitions and inside of sources."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.errors import NOWHERE, Span, did_you_mean
from nadi.lang import tree
from nadi.lang.tree import Annotation
from nadi.plan.annotations import element, first, found
from nadi.plan.context import Context
from nadi.plan.distribution.model import KEY_GROUPS

OPTIONS = ("execGroup", "parallel")
"""All that an @dist can have, in any case."""


def exec_group(annotations: tuple[Annotation, ...]) -> str:
    """The name of the execution group, "" for the default one."""
    given = first(annotations, "dist")
    return (given.get("execGroup") or "") if given is not None else ""


def parallel(context: Context, annotations: tuple[Annotation, ...]) -> int:
    """The number of instances, 1 where nothing is said.

    Raises:
        DIST_PARALLEL_INVALID: it is no number from 1 to 128.
    """
    given = first(annotations, "dist")
    return 1 if given is None else _number(context, given)


def source_parallel(context: Context, source: Annotation) -> int:
    """The number of instances of the receiver group of a source: the least of its @dist, of which one without `parallel` counts as 1."""
    return min((_number(context, dist) for dist in source.all("dist")), default=1)


def _number(context: Context, dist: Annotation) -> int:
    given = element(dist, "parallel")
    if given is None:
        return 1
    text = given.value.strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= KEY_GROUPS):
        raise context.fail("DIST_PARALLEL_INVALID", given.span, parallel=given.value, most=KEY_GROUPS)
    return int(text)


def place_of(annotations: tuple[Annotation, ...], otherwise: Span) -> Span:
    """Where the @dist of an element stands, or the element."""
    given = first(annotations, "dist")
    return otherwise if given is None or given.span == NOWHERE else given.span


def check_inside(context: Context, partition: tree.Partition) -> None:
    """Queries in a partition go with it.

    Raises:
        DIST_INSIDE_PARTITION: one of them has an @dist.
    """
    for query in partition.queries:
        for given in found(query.annotations, "dist"):
            raise context.fail("DIST_INSIDE_PARTITION", given.span)


def check_options(context: Context, app: tree.SiddhiApp) -> None:
    """No @dist has an option of which nobody would take notice, wherever it stands.

    Raises:
        OPTION_UNKNOWN: one has, with the nearest option that there is.
    """
    for holder in (*app.definitions, *app.elements):
        for given in _all_dist(holder.annotations):
            for option in given.elements:
                if option.key.lower() not in map(str.lower, OPTIONS):
                    name = option.key or option.value
                    hint = did_you_mean(name, OPTIONS)
                    raise context.fail("OPTION_UNKNOWN", option.span, where="@dist", name=name, hint=hint)


def is_distributed(app: tree.SiddhiApp) -> bool:
    """Whether there is an @dist anywhere in an app: its author wants a cluster for it."""
    inside = (query for element in app.elements if isinstance(element, tree.Partition) for query in element.queries)
    return any(any(_all_dist(one.annotations)) for one in (*app.definitions, *app.elements, *inside))


def _all_dist(annotations: tuple[Annotation, ...]) -> Iterator[Annotation]:
    """Those among annotations, and in them."""
    for annotation in annotations:
        if annotation.name.lower() == "dist":
            yield annotation
        yield from _all_dist(annotation.nested)


def without_dist(annotations: tuple[Annotation, ...]) -> tuple[Annotation, ...]:
    """Annotations as partial apps have them: no @dist, neither among them nor in a source."""
    return tuple(
        Annotation(a.name, a.elements, without_dist(a.nested), span=a.span)
        for a in annotations
        if a.name.lower() != "dist"
    )
