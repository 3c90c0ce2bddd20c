"""The option `share='i/n'`: n sources read one log between them, each message by one of them.

Which one is a function of the message's place alone, so that it is the same at every reading: of the number of its partition, or where a log has one partition,
of its number there. nadi writes the option into partial apps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nadi.errors import NOWHERE, Span, error
from nadi.plan.options import Option

Ints = npt.NDArray[np.int64]

OPTION = Option(
    "share",
    doc=(
        "`i/n`: the i-th of n shares, each message being in one of them; nadi writes it into partial "
        "apps of a [cluster](distributed.md#how-events-get-in)"
    ),
)
MOST = 128
_FORM = re.compile(r"\s*([0-9]{1,3})\s*/\s*([0-9]{1,3})\s*")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Share:
    """Part `part` of `of` parts, from 0."""

    part: int = 0
    of: int = 1

    def has_partition(self, number: int) -> bool:
        """Whether a partition is in it.

        >>> [Share(1, 3).has_partition(p) for p in range(4)]
        [False, True, False, False]
        """
        return number % self.of == self.part

    def has_messages(self, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Which messages of one partition are in it, by their numbers."""
        found: npt.NDArray[np.bool_] = by_number(numbers, self.of) == self.part
        return found


WHOLE = Share()


def share_of(where: str, options: Mapping[str, str], span: Span = NOWHERE) -> Share:
    """The share that the options of a source name, the whole log without one. Errors: OPTION_INVALID.

    >>> share_of("@source of S (nats)", {"share": "2/3"})
    Share(part=1, of=3)
    """
    text = options.get("share")
    if text is None:
        return WHOLE
    found = _FORM.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) <= MOST:
        wanted = f"i/n with numbers from 1 to {MOST}, i no larger than n"
        raise error("OPTION_INVALID", span, where=where, name="share", value=text, wanted=wanted)
    return Share(int(found[1]) - 1, int(found[2]))


def by_number(numbers: Ints, parts: int) -> Ints:
    """The part of what has a number: evenly, also where only every second number, or every tenth, is there.

    Multiples of the golden ratio, without their whole part, lie evenly in [0, 1), and so do those of every other number: with a remainder instead, chunks of
    two rows would all go to one of two parts.

    >>> by_number(np.arange(8), 2).tolist(), by_number(2 * np.arange(8), 2).tolist()
    ([0, 1, 0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 0, 0, 1])
    """
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) * _GOLDEN
    found: Ints = ((mixed >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.int64)
    return found
