"""Which input is which: the name of an input that does not depend on its place in the app's text, and the number that it has in cuts.

    kafka source of Trades (topic.list=trades)

An input is its stream, its type and the options that say which log it is (`SourceKind.identity`); how the log is reached may change. A number is given to an
input when an app first has it, and to no other one after that: positions in cuts, subjects of the journal and notes in the state folder go by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nadi.io.contract import Connector
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.io.registry import SOURCES, source_kind

CONTROL_INPUT, FAULTS_INPUT = "on-demand queries", "what sinks refused"
"""The names of nadi's own inputs."""
OWN = (CONTROL_INPUT, FAULTS_INPUT)


def identities(sources: Iterable[Connector]) -> list[str]:
    """The names of inputs, in their order; of several that are alike the second one ends in ", 2"."""
    seen: Counter[str] = Counter()
    found = []
    for source in sources:
        name = _identity(source)
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}, {seen[name]}")
    return found


def _identity(source: Connector) -> str:
    if source.type in (CONTROL_TYPE, FAULTS_TYPE):
        return CONTROL_INPUT if source.type == CONTROL_TYPE else FAULTS_INPUT
    wanted = source_kind(source.type).identity if source.type in SOURCES else ()
    told = ", ".join(f"{name}={_plain(source.options[name])}" for name in wanted if name in source.options)
    return f"{source.type} source of {source.stream}" + (f" ({told})" if told else "")


def _plain(value: str) -> str:
    """A list without the spaces that may stand between its items."""
    return ",".join(item.strip() for item in value.split(","))


def first_numbers(sources: Sequence[Connector]) -> dict[str, int]:
    """The numbers of the sources of an app that has not run yet, in the order of its text; nadi's own inputs have theirs, whether the app needs them or not."""
    return {name: n for n, name in enumerate((*identities(sources), *OWN))}


def more_numbers(sources: Sequence[Connector], known: Mapping[str, int], free: int) -> dict[str, int]:
    """The numbers of the sources of a changed app: those that are known, and from `free` on new ones.

    >>> more_numbers((), {"on-demand queries": 4, "file source of S": 0}, 6)
    {'on-demand queries': 4, 'what sinks refused': 6}
    """
    found: dict[str, int] = {}
    for name in (*identities(sources), *OWN):
        if name in known:
            found[name] = known[name]
        else:
            found[name] = free
            free += 1
    return found


def numbered(sources: Iterable[Connector], numbers: Mapping[str, int]) -> tuple[Connector, ...]:
    """The inputs with their numbers as ordinals, in the order of these."""
    given = tuple(sources)
    pairs = zip(identities(given), given, strict=True)
    return tuple(sorted((replace(c, ordinal=numbers[name]) for name, c in pairs), key=lambda c: c.ordinal))
