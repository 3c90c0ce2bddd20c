"""`python -m tests.suites PART... [-- ARGUMENTS]`: run the suites of these parts (`table.PARTS`), with more arguments of pytest where some are given.

What fails is run again after everything else, each with its whole file, alone. What passes then is listed as FLAKY, and the run is green; what fails
again is RED.
"""

from __future__ import annotations

import argparse
import sys

from tests.suites.run import Runner
from tests.suites.started import processes
from tests.suites.summary import summary
from tests.suites.table import PARTS


def main(words: list[str]) -> int:
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("part", nargs="+", choices=PARTS)
    parts = parser.parse_args(words[:end]).part
    runs = processes("suites")
    verdict = Runner(runs, words[end + 1 :]).run([suite for part in parts for suite in PARTS[part]])
    for line in summary(verdict, runs.folder):
        print(line, flush=True)
    return 0 if verdict.green else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
