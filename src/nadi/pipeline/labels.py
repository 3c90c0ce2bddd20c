"""Labels of buckets: numbers that Spark's hash partitioning spreads evenly over its partitions.

Buckets may share partitions (`tasks_of` of `nadi.pipeline.node`): bucket i is in partition i modulo their number.

Spark puts a row with the int label x into partition `pmod(murmur3(x, seed 42), n)`; 0 and 1 both fall into partition 1 of 2, so that
one partition would get two buckets and the other none.
"""

from __future__ import annotations

from functools import cache

_MASK = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's `hash` of one int column, as a signed 32-bit int.

    >>> spark_hash(0)
    933211791
    """
    k = (value * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    h = 42 ^ ((k * 0x1B873593) & _MASK)
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the length in bytes
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


@cache
def labels(buckets: int, partitions: int | None = None) -> tuple[int, ...]:
    """The label of every bucket; bucket i goes to partition i modulo the number of partitions (as many as buckets by default).

    >>> labels(4)
    (12, 6, 2, 0)
    """
    count = buckets if partitions is None else partitions
    found: dict[int, list[int]] = {}
    wanted = {i % count: len(range(i, buckets, count)) for i in range(min(count, buckets))}
    missing, label = buckets, 0
    while missing:
        home = spark_hash(label) % count
        if len(found.get(home, ())) < wanted.get(home, 0):
            found.setdefault(home, []).append(label)
            missing -= 1
        label += 1
    return tuple(found[i % count][i // count] for i in range(buckets))
