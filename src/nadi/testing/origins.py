"""Which queries of an app a row can have come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nadi.lang import parse
from nadi.lang.tree import Partition, Query, SiddhiApp
from nadi.plan.queries import sources


@dataclass(frozen=True, slots=True)
class Origin:
    """A query: its name in @info or its number in the app (from 1), the line where it begins, its text."""

    name: str
    line: int
    text: str


def origins(text: str, target: str) -> tuple[Origin, ...]:
    """The queries that write a stream, table or window; for a fault stream `!S` those that read `S`.

    >>> [o.name for o in origins("define stream S (a int); from S insert into T; @info(name='q') from S insert into U;", "U")]
    ["'q'"]
    """
    return tuple(
        Origin(name, query.span.line, text[query.span.start : query.span.end])
        for name, query in _queries(parse(text))
        if target in _made(query)
    )


def _made(query: Query) -> set[str]:
    read = {f"!{source}" for source in sources(query.input)}
    target = getattr(query.output, "target", None)  # a query may also return its rows
    return read if target is None else {*read, str(target)}


def _queries(app: SiddhiApp) -> Iterator[tuple[str, Query]]:
    number = 0
    for element in app.elements:
        for query in element.queries if isinstance(element, Partition) else (element,):
            number += 1
            info = next((a for a in query.annotations if a.name.lower() == "info"), None)
            name = info.get("name") if info is not None else None
            yield (f"'{name}'" if name else str(number)), query
