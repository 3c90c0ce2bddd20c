"""The last cuts of an app that is to go on as another one: it takes in nothing more from outside, only what it has already. Pure.

What is still taken: the channels, until all who fill them have said that nothing will come any more; the app's own journal, which nobody appends to any more;
what was asked on demand, and what sinks refused. All other inputs stay where they are, and who comes after goes on there. Timers do not fire by themselves: the
last cut has the greatest clock that a writer of a channel closed at. So all instances of a group stand at the ends of the same channels, at one clock, and one
that does its last cuts again, wherever that is, makes none that it had not made before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nadi.io.contract import Connector
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.io.registry import source_traits
from nadi.pipeline.cutting.cuts import Place, Waiting


def keeps_own(source: Connector) -> bool:
    """Whether what an input has belongs to the app alone, so that it has to take all of it: nobody after it will.

    >>> from nadi.lang.tree import Annotation
    >>> [keeps_own(Connector("S", None, kind, {}, Annotation("map", ()), 0)) for kind in ("http", "channel", "kafka", "file")]
    [True, True, False, False]
    """
    if source.type in (CONTROL_TYPE, FAULTS_TYPE):
        return True
    traits = source_traits(source.type)
    return traits is not None and traits.owned


def staying(ends: Mapping[Place, int], ordinal: int) -> list[Waiting]:
    """An input that stays where it is."""
    return [Waiting(place, end, end) for place, end in sorted(ends.items()) if place[0] == ordinal]


def closing_clock(reached: Mapping[Place, int | None], said: Mapping[Place, int]) -> int | None:
    """The clock of the last cut, once all writers have closed (ms); None where one has not, or there is none.

    >>> closing_clock({(0, 0): None, (0, 1): None}, {(0, 0): 90, (0, 1): 100})
    100
    >>> closing_clock({(0, 0): None, (0, 1): 95}, {(0, 0): 90, (0, 1): 95}), closing_clock({}, {})
    (None, None)
    """
    if not reached or any(clock is not None for clock in reached.values()):
        return None
    return max(said.values())


def is_drained(
    waiting: Sequence[Waiting], reached: Mapping[Place, int | None], clock: int, closes_at: int | None
) -> bool:
    """Whether an app that stands at `clock` has taken all there is: nothing waits, and the writers of its channels have closed before or at that clock."""
    if any(w.end > w.start for w in waiting):
        return False
    return not reached or (closes_at is not None and closes_at <= clock)
