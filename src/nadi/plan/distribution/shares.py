"""How the partitions of a channel and the key-groups are shared out."""

from __future__ import annotations

from nadi.plan.distribution.model import KEY_GROUPS


def assigned(partitions: int, instances: int, number: int) -> range:
    """The partitions of an instance (`number` from 1): runs of consecutive ones, as even as can be.

    >>> [list(assigned(7, 3, i)) for i in (1, 2, 3)]
    [[0, 1], [2, 3], [4, 5, 6]]
    """
    return range((number - 1) * partitions // instances, number * partitions // instances)


def key_groups(partitions: range, of: int) -> range:
    """The key-groups g with g * `of` // 128 in these partitions of `of`: what a producer sends there.

    >>> key_groups(range(0, 1), 3), key_groups(range(1, 3), 3)
    (range(0, 43), range(43, 128))
    """
    return range(-(-partitions.start * KEY_GROUPS // of), -(-partitions.stop * KEY_GROUPS // of))


def partition_of(group: int, partitions: int) -> int:
    """The partition of a key-group.

    >>> [partition_of(g, 3) for g in (0, 42, 43, 127)]
    [0, 0, 1, 2]
    """
    return group * partitions // KEY_GROUPS
