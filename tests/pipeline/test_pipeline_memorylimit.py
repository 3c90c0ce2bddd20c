"""How much memory a host can take."""

from __future__ import annotations

import subprocess
import sys

import pytest

FILLED = """
import mmap, sys
from nadi.pipeline.executor.memorylimit import data_limit, limit_memory
for meant in sys.argv[2:]:
    limit_memory(int(meant))
def takes(size):
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()  # no page of it is touched
        return True
    except OSError:  # ENOMEM, which is a MemoryError of whoever allocates
        return False
print(*(takes(data_limit(int(meant)) * share // 100) for meant in sys.argv[1].split(",") for share in (70, 100)))
"""


def _found(asked: str, *told: str) -> str:
    """For each of the limits asked for, whether most of it and all of it can be had, where hosts are told of others."""
    command = [sys.executable, "-c", FILLED, asked, *told]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_host_finds_no_memory_beyond_its_limit_and_the_largest_one_counts() -> None:
    assert _found("100", "100") == "True False"
    assert _found("100,2000", "100", "2000", "100") == "True True True False"
    assert _found("100", "0") == "True True"
