"""How long a stop waits for the cut under way. What it leaves, the app's next start takes.

A sink may wait for its target for a minute, and then comes to an end. A kernel may compute for ever, so it has less time: undeploying, stopping and updating
an app end within ten seconds whatever its kernels do, with these and the five that hosts have to forget the app.
"""

from __future__ import annotations

from collections.abc import Callable

CUT_WITHIN = 60.0  # seconds
KERNEL_WITHIN = 4.0  # where a kernel computes after so many


def next_look(asked: float, now: float) -> float:
    """When it is to be looked at whether a stop that was asked for is over.

    >>> next_look(100.0, 101.0), next_look(100.0, 104.5)
    (104.0, 160.0)
    """
    return asked + (KERNEL_WITHIN if now < asked + KERNEL_WITHIN else CUT_WITHIN)


def is_late(asked: float, now: float) -> bool:
    """Whether nothing that an app does is waited for any longer; `asked` is 0 where no stop is asked for."""
    return bool(asked) and now > asked + CUT_WITHIN


def gives_up(asked: float, now: float, computes: Callable[[], bool]) -> bool:
    """Whether the cut under way is given up, as a kernel computes that may never end.

    >>> gives_up(100.0, 103.0, lambda: True), gives_up(100.0, 104.0, lambda: True), gives_up(100.0, 104.0, lambda: False), gives_up(0.0, 104.0, lambda: True)
    (False, True, False, False)
    """
    return bool(asked) and now >= asked + KERNEL_WITHIN and computes()
