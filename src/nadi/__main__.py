"""The command `nadi`, and `python -m nadi`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def _end(_signal: int, _frame: FrameType | None) -> None:
    os._exit(130)


def main() -> None:
    """Run the command. A Ctrl-C while its modules are loaded ends it at once, without a trace: nothing has begun."""
    before = signal.signal(signal.SIGINT, _end)
    from nadi.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
