"""What the examples print of their story, and how they wait for its next part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 240.0  # seconds
LOOK = 0.1

BEGUN = time.monotonic()


def say(sentence: str) -> None:
    """Print a sentence with how many seconds the story has taken so far."""
    print(f"{time.monotonic() - BEGUN:6.1f} s  {sentence}", flush=True)


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for something that nobody rings for; -> what it is then."""
    late = time.monotonic() + PATIENCE
    while time.monotonic() < late:
        if found := holds():
            return found
        time.sleep(LOOK)
    raise SystemExit(f"{what}: not within {PATIENCE:.0f} s")
