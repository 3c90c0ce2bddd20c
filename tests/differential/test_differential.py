"""Random apps on Siddhi and on nadi, if Siddhi can be had: `make differential` compares more of them and shows what differs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES, MOST = 30, 2
"""How many apps there are, and of how many one may learn here for the first time that they differ."""


def _folder() -> Path:
    """Where the Makefile, or the environment, has the comparison."""
    named = re.search(r"^DIFFERENTIAL \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named is not None
    return (ROOT / os.environ.get("DIFFERENTIAL", named[1])).resolve()


def _lacking() -> str:
    """Why there is nothing to compare with; "" where there is."""
    if not (_folder() / "run.py").is_file():
        return f"the comparison with Siddhi is not in {_folder()}: DIFFERENTIAL would say where it is"
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"Siddhi runs with {' and '.join(missing)}, which this machine lacks" if missing else ""


@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
def test_random_apps_give_what_they_give_on_siddhi() -> None:
    seed = int(time.time()) // 3600  # others each hour
    command = [sys.executable, _folder() / "run.py", "--cases", str(CASES), "--seed", str(seed), "--show", "1"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "dependency:build-classpath" in done.stderr:
        pytest.skip("Maven could not get Siddhi")
    told = re.search(r"([\d.]+) % equal of (\d+)$", done.stdout.strip())
    assert told is not None, done.stdout + done.stderr
    judged = int(told[2])
    assert judged >= CASES // 2, done.stdout
    assert round(judged * (1 - float(told[1]) / 100)) <= MOST, done.stdout
