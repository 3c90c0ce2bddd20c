"""What a command loads before it begins."""

from __future__ import annotations

import subprocess
import sys


def test_what_runs_apps_loads_no_library_that_only_some_apps_need() -> None:
    asked = "import sys, nadi.cli.run; print(*{'numba', 'pandas', 'pyspark', 'sqlalchemy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
