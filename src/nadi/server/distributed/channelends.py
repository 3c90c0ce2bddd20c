"""Which channels an instance reads and fills, by its text, and which chunks of them it still needs after a cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nadi.channels.options import Channel, Filling, Reading, filling, reading
from nadi.channels.positions import place_of
from nadi.cluster.rows import Part
from nadi.io.contract import Place
from nadi.io.identity import first_numbers, identities, numbered
from nadi.pipeline import engine
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.node import AppText
from nadi.pipeline.spec import AppSpec
from nadi.plan.distribution.connectors import TYPE

Needs = dict[tuple[str, str, int], int]
"""(channel, producer, part) → the first chunk that is needed."""


@dataclass(frozen=True, slots=True)
class Read:
    """A channel as an instance reads it: by the name of the input (`nadi.io.identity`), under the number that it has in cuts."""

    name: str
    ordinal: int
    reading: Reading

    @property
    def partitions(self) -> int:
        return len(self.reading.producers) * len(self.reading.assigned)


@dataclass(frozen=True, slots=True)
class Ends:
    """What an instance has to do with channels, with the numbers that its inputs have where it has not run with another text before."""

    instance: str
    reads: tuple[Read, ...]
    fills: tuple[Filling, ...]

    def under(self, numbers: Mapping[str, int] | None) -> Ends:
        """The same with the numbers that inputs have, by their names; None: as they are."""
        if not numbers:
            return self
        reads = tuple(replace(read, ordinal=numbers.get(read.name, read.ordinal)) for read in self.reads)
        return replace(self, reads=reads)

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels, by name."""
        found = [*(read.reading.channel for read in self.reads), *(filling.channel for filling in self.fills)]
        return {channel.name: channel for channel in found}


def ends_of(text: AppText, place: Place) -> Ends:
    """What a text says. Errors: those of the text."""
    app = text.planned(engine)
    spec = AppSpec(app.name, text.text, str(place.state), variables=dict(text.variables))
    registry = spec.load_connectors()
    sources = spec.user_sources(app)
    named = zip(identities(sources), numbered(sources, first_numbers(sources)), strict=True)
    reads = [Read(name, c.ordinal, reading(c, place)) for name, c in named if c.type == TYPE]
    fills = [filling(c, place) for c in registry.connectors(app, "sink") if c.type == TYPE]
    return Ends(app.name, tuple(reads), tuple(fills))


def needs_after(ends: Ends, cut: Cut | None) -> Needs | None:
    """What an instance still needs after its last commit (None: it has none); None where the cut is not one of this text."""
    found: Needs = {}
    for read in ends.reads:
        known = {} if cut is None else {p: end for (ordinal, p), end in cut.ends.items() if ordinal == read.ordinal}
        if any(partition >= read.partitions for partition in known):
            return None
        for partition in range(read.partitions):
            producer, part = place_of(read.reading, partition)
            place = read.reading.channel.name, producer, part
            found[place] = min(known.get(partition, 0), found.get(place, known.get(partition, 0)))
    return found


class EndsOf:
    """`ends_of` the instances of a cluster, each text once."""

    def __init__(self, filled: Callable[[str], AppText], place: Callable[[str], Place]) -> None:
        """`filled` gives a text its variables, `place` says what a node tells connectors of an app."""
        self._filled = filled
        self._place = place
        self._known: dict[tuple[str, str], Ends] = {}

    def of(self, part: Part) -> Ends:
        """What an instance has to do with channels. Errors: those of its text."""
        key = part.instance, part.digest
        if key not in self._known:
            self._known[key] = ends_of(self._filled(part.text), self._place(part.instance))
        return self._known[key]

    def keep(self, parts: Sequence[Part]) -> None:
        """Forget all others."""
        wanted = {(part.instance, part.digest) for part in parts}
        self._known = {key: ends for key, ends in self._known.items() if key in wanted}
