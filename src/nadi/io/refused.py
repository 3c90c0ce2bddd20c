"""How many messages the sources of each app have refused since the app came to this node. Their senders heard why; nothing else keeps them.

watch(place.state, ring)        # whoever shows it
note(place.state, 3)            # an ingress
count(place.state)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


def _nobody() -> None:
    """Where nobody looks."""


@dataclass(slots=True)
class _Refused:
    messages: int = 0
    ring: Callable[[], object] = _nobody
    rung: bool = False


_OF: dict[Path, _Refused] = {}
_LOCK = threading.Lock()


def watch(state: Path, ring: Callable[[], object]) -> None:
    """Have `ring` called, from any thread, when there are more of an app than were looked at. `state` is its folder."""
    with _LOCK:
        _OF.setdefault(state, _Refused()).ring = ring


def note(state: Path, messages: int) -> None:
    """A source of an app has refused some."""
    with _LOCK:
        found = _OF.setdefault(state, _Refused())
        found.messages += messages
        rings = not found.rung
        found.rung = True
    if rings:
        found.ring()


def count(state: Path) -> int:
    """All of an app.

    >>> note(Path("/state/A"), 2); note(Path("/state/A"), 1); count(Path("/state/A"))
    3
    >>> forget(Path("/state/A")); count(Path("/state/A"))
    0
    """
    with _LOCK:
        found = _OF.get(state)
        if found is None:
            return 0
        found.rung = False
        return found.messages


def forget(state: Path) -> None:
    """The app leaves the node."""
    with _LOCK:
        _OF.pop(state, None)
