"""Where an example runs: in a folder of its own. Ctrl-C, an orderly end and a closed terminal end it with all that it has started."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from narration import Ended, end_at, say


def perform(name: str, example: Callable[[Path], bool]) -> int:
    """Give the example a folder; -> an exit status. The folder stays where something went wrong: it has what everybody said."""
    end_at(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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
