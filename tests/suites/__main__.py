"""`python -m tests.suites PART... [-- ARGUMENTS]`: run the suites of these parts (`table.PARTS`), with more arguments of pytest where some are given.

What fails is run again after everything else, each with its whole file, alone. What passes then is listed as FLAKY, and the run is green; what fails
again is RED.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.suites.run import Runner
from tests.suites.summary import summary
from tests.suites.table import PARTS

PROJECT = Path(__file__).parents[2]


def main(words: list[str]) -> int:
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("part", nargs="+", choices=PARTS)
    parts = parser.parse_args(words[:end]).part
    folder = PROJECT / ".nadi" / "suites" / time.strftime("%Y%m%d-%H%M%S")
    runner = Runner(PROJECT, folder, words[end + 1 :])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: runner.end())
    verdict = runner.run([suite for part in parts for suite in PARTS[part]])
    for line in summary(verdict, folder):
        print(line, flush=True)
    return 0 if verdict.green else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
