"""What planning and both engines must know of an aggregator beside its arguments: each registered one says all of it, and no module of the plan keeps names of
aggregators.

Every field of `AggregatorTraits` must be given: what is forgotten is an error where the aggregator is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto


class Looks(Enum):
    """What an aggregator looks at of its argument."""

    NOTHING = auto()  # it counts events
    TEXTS = auto()  # it tells values of an attribute apart, null among them, by their texts
    VALUES = auto()


class OnColumns(Flag):
    """What there is on columns for an aggregator; nothing at all where queries that have it run on rows."""

    NOTHING = 0
    STREAMS = auto()  # over what one stream brings
    JOINS = auto()  # over the rows of a join
    PURGED = auto()  # where `@purge` forgets keys: all that it knows of a group lies in arrays by groups
    FORMED = auto()  # `nadi.plan.columns.stateforms` knows its state, and rows can go on with it


NOTHING = OnColumns.NOTHING
EVERYWHERE = OnColumns.STREAMS | OnColumns.JOINS | OnColumns.PURGED | OnColumns.FORMED
STREAMS = OnColumns.STREAMS
JOINS = OnColumns.JOINS
PURGED = OnColumns.PURGED
FORMED = OnColumns.FORMED


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorTraits:
    """What the plan and both engines ask of an aggregator.

    `sure`: no value that its argument can have makes it fail. `null_fails`: null does. `forever`: what leaves changes nothing of it. `extreme`: it is one of
    the values that are held, which must be remembered one by one where any of them may leave next. `looks`: at what of its argument. `incremental`:
    `define aggregation` may have it. `numbers`: of what its state on rows consists, as its arrays on columns are called (none: of the value that it shows).
    `columns`: what there is for it on columns.
    """

    sure: bool
    null_fails: bool
    forever: bool
    extreme: bool
    looks: Looks
    incremental: bool
    numbers: tuple[str, ...]
    columns: OnColumns


ON_ROWS = AggregatorTraits(
    sure=False,
    null_fails=False,
    forever=False,
    extreme=False,
    looks=Looks.VALUES,
    incremental=False,
    numbers=(),
    columns=NOTHING,
)
"""Those of aggregators of which rows alone know something."""

OF_DISTINCT_COUNT = AggregatorTraits(
    sure=True,
    null_fails=False,
    forever=False,
    extreme=False,
    looks=Looks.TEXTS,
    incremental=True,
    numbers=("n",),
    columns=STREAMS | JOINS | FORMED,
)
"""Those of `distinctCount`, which takes the place of sets that are only counted (`nadi.plan.columns.countedsets`)."""
