"""The namespace `coordination`: the role of the node that runs an app.

Only the active node of a pair runs apps, and a partial app of a cluster runs at one worker: wherever the function is asked, the answer is yes. So results do
not depend on the node that makes them, and a node that takes over comes to the same.
"""

from __future__ import annotations

from nadi.functions.declare import scalar
from nadi.functions.entries import Entry
from nadi.lang.tree import Type


def _is_leader() -> bool:
    return True


ENTRIES: tuple[Entry, ...] = (
    scalar(
        "coordination:isLeader",
        "Whether the node that runs the app is the one that is to run it: true, as the passive node of a pair runs none.",
        ("coordination:isLeader() → true",),
        Type.BOOL,
        [()],
        _is_leader,
    ),
)
