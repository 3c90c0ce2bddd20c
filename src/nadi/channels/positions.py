"""Where readers of a channel stand, by producer and part: what an instance goes on from that reads other parts than the one before it. Pure.

The partitions of an input are numbered by the producers and parts that its instance reads (`nadi.channels.source`). Where a group gets more or fewer instances,
or the one before it does, the numbers are others; the producers and the parts are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nadi.channels.options import Reading

Standing = Mapping[tuple[str, int], int]
"""(producer, part) → the first chunk that is not taken."""


def partition_of(reading: Reading, producer: str, part: int) -> int:
    """The partition of an input that has a part as a producer fills it.

    >>> from nadi.channels.options import Channel
    >>> partition_of(Reading(Channel("nats", "C", 4), (2, 3), ("g-1", "g-2")), "g-2", 3)
    3
    """
    return reading.producers.index(producer) * len(reading.assigned) + reading.assigned.index(part)


def place_of(reading: Reading, partition: int) -> tuple[str, int]:
    """The producer and the part of a partition."""
    producer, part = divmod(partition, len(reading.assigned))
    return reading.producers[producer], reading.assigned[part]


def standing(reading: Reading, ends: Mapping[int, int]) -> dict[tuple[str, int], int]:
    """Where an instance stands, from the ends of its last cut by partition.

    >>> from nadi.channels.options import Channel
    >>> standing(Reading(Channel("nats", "C", 2), (0, 1), ("g-1",)), {0: 17, 1: 4})
    {('g-1', 0): 17, ('g-1', 1): 4}
    """
    return {place_of(reading, partition): end for partition, end in ends.items()}


def ends_of(reading: Reading, known: Sequence[Standing]) -> dict[int, int]:
    """The ends to begin with, from where all instances before it stood at an aligned cut. Parts and producers that none of them knew begin with nothing taken.

    >>> from nadi.channels.options import Channel
    >>> ends_of(Reading(Channel("nats", "C", 2), (1,), ("g-1", "g-2")), [{("g-1", 0): 17, ("g-1", 1): 4}])
    {0: 4, 1: 0}
    """
    stood: dict[tuple[str, int], int] = {}
    for one in known:
        for place, end in one.items():
            stood[place] = max(end, stood.get(place, 0))
    return {
        partition_of(reading, producer, part): stood.get((producer, part), 0)
        for producer in reading.producers
        for part in reading.assigned
    }
