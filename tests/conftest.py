"""What concerns all tests: with several processes (`-n 2`) those that start Spark stay in one of them, where they share its session, and those of the columns
kernel in one, too."""

from __future__ import annotations

import pytest
from hypothesis import settings
from servers.emptydatabase import database, database_server

__all__ = ["database", "database_server"]  # fixtures for all

pytest.register_assert_rewrite("tests.kernel.columns.comparing")

settings.register_profile("nadi", deadline=None)  # how long a case takes is the machine's business
settings.load_profile("nadi")

ONE_PROCESS = ("spark", "slow", "long")  # two of these at a time fight for the machine: 14 minutes instead of 11


def _group(item: pytest.Item) -> str:
    """The name of the tests that one process runs, one after the other; "" where any process may."""
    if any(item.get_closest_marker(name) for name in ONE_PROCESS):
        return "spark"
    # Who calls a loop first compiles it: of two processes that begin with the same tests both would, and generated ones wait for each other.
    return "columns" if "columns" in (item.path.parent.name, item.path.stem.rpartition("_")[2]) else ""


@pytest.hookimpl(tryfirst=True)  # before the plugin reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))
