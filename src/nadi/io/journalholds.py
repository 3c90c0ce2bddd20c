"""From where on the revisions of an app need the journal of its sources: nothing of that is removed, whatever its age.

Who knows revisions tells it here, in the process that reads the journal, as `nadi.pipeline.revision.journalneeds` does.
"""

from __future__ import annotations

from collections.abc import Mapping

from nadi.io.journalmessages import Name

_HELD: dict[tuple[str, str], Mapping[Name, int] | None] = {}


def hold(url: str, app: str, needed: Mapping[Name, int] | None) -> None:
    """Events of the sources of an app stay from these positions on; of one that is not named none is needed. None: that is not known yet, and all stays."""
    _HELD[url, app] = needed


def removable(url: str, app: str, source: Name, position: int) -> int:
    """Up to where, at most to a position, no revision needs the events of a source."""
    needed = _HELD.get((url, app), {})
    return 0 if needed is None else min(position, needed.get(source, position))
