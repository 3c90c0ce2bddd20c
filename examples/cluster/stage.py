"""Where an example runs: in a folder of its own. Ctrl-C, an orderly end and a closed terminal end it with all that it has started."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from narration import say

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """Somebody has ended the example with the signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def perform(name: str, example: Callable[[Path], bool]) -> int:
    """Give the example a folder; -> an exit status. The folder stays where something went wrong: it has what everybody said."""
    for number in ENDS:
        signal.signal(number, _end)
    folder = Path(tempfile.mkdtemp(prefix=f"nadi-{name}-"))
    try:
        right = example(folder)
    except Ended as ended:
        shutil.rmtree(folder, ignore_errors=True)
        say("Ended.")
        return 128 + ended.number
    except BaseException:
        say(f"{folder} has what managers, workers and servers wrote.")
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if right else 1


def _end(number: int, _: FrameType | None) -> None:
    # Whoever ends `make` or closes a terminal sends the signal twice; the second one must not interrupt the end of what was started.
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)
