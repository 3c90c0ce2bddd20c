"""What planning must know of a window beside its parameters: each registered window says all of it, and no module keeps sets of names of windows.

Every field of `WindowTraits` must be given: what is forgotten is an error where the window is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto


class Resized(Enum):
    """What becomes of a window's state where numbers among its parameters have changed (`nadi.plan.migration`)."""

    RESET = auto()  # it may not fit
    ANY = auto()  # it fits whatever the numbers are
    ROOM = auto()  # it fits where the window has not become smaller
    TIME = auto()  # each event has a timer, which moves with the time; a number behind it may not become smaller
    PERIOD = auto()  # the batch under way ends as it would have, unless a start time says when


class Attributes(Enum):
    """What becomes of a window's state where its stream has more attributes than before."""

    TAKEN = auto()  # its rows lie where `nadi.persistence.rewrites` looks for them, and it keeps nothing else that is made of whole rows
    REFUSED = auto()
    KEYS = auto()  # refused, as all attributes make its keys


class OnColumns(Flag):
    """What there is on columns for a window; nothing at all where its queries run on rows."""

    NOTHING = 0
    SLIDING = auto()  # the operators of sliding windows hold it
    BATCHES = auto()  # the operators of batches hold it
    UNIQUE_BATCHES = auto()  # the operators of batches with one event per key hold it
    UNORDERED = auto()  # an operator of its own holds it, which events leave in another order than they came
    DELAYS = auto()  # its events wait in front of the query
    STAGED_IN_JOINS = auto()  # its events wait in front of a join, which takes what it lets go on
    HOARDING = auto()  # in Siddhi 5 it forgets a batch only when it lets it go as expired events: in joins that put out none it shows all of them
    PASSING = auto()  # it lets some events pass and drops others
    EXPIRING = auto()  # its expired events can come out
    EXTERNAL = auto()  # its clock is its first parameter, an attribute
    STARTING = auto()  # it may have a start time behind its period
    SHOWN = auto()  # `output snapshot` can show what it holds
    TIMED = auto()  # it puts something out by itself
    TIMED_IN_JOINS = auto()  # in a join it matters when each of its timers fires
    HANDED = auto()  # what its query makes can be handed on to rows: it comes with the events that the query reads


NOTHING = OnColumns.NOTHING
SLIDING = OnColumns.SLIDING
BATCHES = OnColumns.BATCHES
UNIQUE_BATCHES = OnColumns.UNIQUE_BATCHES
UNORDERED = OnColumns.UNORDERED
DELAYS = OnColumns.DELAYS
STAGED_IN_JOINS = OnColumns.STAGED_IN_JOINS
HOARDING = OnColumns.HOARDING
PASSING = OnColumns.PASSING
EXPIRING = OnColumns.EXPIRING
EXTERNAL = OnColumns.EXTERNAL
STARTING = OnColumns.STARTING
SHOWN = OnColumns.SHOWN
TIMED = OnColumns.TIMED
TIMED_IN_JOINS = OnColumns.TIMED_IN_JOINS
HANDED = OnColumns.HANDED


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTraits:
    """What the plan, the pipeline and both engines ask of a window.

    `timed`: timers wake it. `first`: it may put something out before any event came. `phase`: how many numbers it must have so that one of them is a start
    time; with fewer the first event of any key fixes the phase for all keys (0: it has no such phase). `sure`: no event can make it fail where its
    parameters are constants. `resized` and `attributes`: what becomes of its state in a changed app. `columns`: what there is for it on columns.
    """

    timed: bool
    first: bool
    phase: int
    sure: bool
    resized: Resized
    attributes: Attributes
    columns: OnColumns


OF_BATCH = WindowTraits(
    timed=False,
    first=False,
    phase=0,
    sure=True,
    resized=Resized.RESET,
    attributes=Attributes.TAKEN,
    columns=BATCHES | SHOWN,
)
OF_TIME_BATCH = WindowTraits(
    timed=True,
    first=False,
    phase=2,
    sure=True,
    resized=Resized.PERIOD,
    attributes=Attributes.TAKEN,
    columns=BATCHES | STAGED_IN_JOINS | HOARDING | STARTING | SHOWN | TIMED | TIMED_IN_JOINS,
)
"""Those of `batch` and of `timeBatch`, which operators put in the place of other windows."""
