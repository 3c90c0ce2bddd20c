"""The names of objects in a state log: who wrote what, when.

    d-<epoch>-<cut>-<host>-<random>      the deltas of a host's buckets after a cut
    b-<epoch>-<cut>-<bucket>-<random>    the base of a bucket: its state after a cut

The epoch has 8 hexadecimal digits, the cut 12 decimal ones, the random part 8 hexadecimal digits: two attempts at a cut never have one name.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

_NAME = re.compile(r"([db])-([0-9a-f]{8,})-([0-9]{12,})-([0-9]+)-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Named:
    """What the name of an object says. `place` is the host of deltas, the bucket of a base."""

    base: bool
    epoch: int
    cut: int
    place: int


def delta_name(epoch: int, cut: int, host: int) -> str:
    """A new name for the deltas of a host."""
    return _name("d", epoch, cut, host)


def base_name(epoch: int, cut: int, bucket: int) -> str:
    """A new name for the base of a bucket."""
    return _name("b", epoch, cut, bucket)


def _name(kind: str, epoch: int, cut: int, place: int) -> str:
    return f"{kind}-{epoch:08x}-{cut:012d}-{place}-{secrets.token_hex(4)}"


def named(name: str) -> Named:
    """What a name says. Errors: ValueError where it is none of a state log's.

    >>> named("b-0000000a-000000000007-3-c0ffee00")
    Named(base=True, epoch=10, cut=7, place=3)
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"'{name}' is no name of an object in a state log")
    return Named(found[1] == "b", int(found[2], 16), int(found[3]), int(found[4]))


def is_name(name: str) -> bool:
    """Whether an object is one of a state log's."""
    return _NAME.fullmatch(name) is not None
