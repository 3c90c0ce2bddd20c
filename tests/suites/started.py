"""What each command of this package begins with."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.suites.processes import Processes

PROJECT = Path(__file__).parents[2]
OUTPUTS = PROJECT / ".nadi"


def processes(kind: str) -> Processes:
    """Those of this project, with a folder of outputs of this run. Ctrl-C and an orderly end reach them."""
    found = Processes(PROJECT, OUTPUTS / kind / time.strftime("%Y%m%d-%H%M%S"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: found.end())
    return found


def test_paths(project: Path, within: list[str]) -> list[str]:
    """The files of tests below these folders, or these files themselves, as paths in the project."""
    found = [
        file
        for path in within
        for file in ([project / path] if path.endswith(".py") else (project / path).rglob("test_*.py"))
    ]
    return sorted(str(file.relative_to(project)) for file in found)


test_paths.__test__ = False  # type: ignore[attr-defined]
