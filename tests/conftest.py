"""What concerns all tests: with several processes (`-n 2`) those of a file that start Spark stay in one of them, where they share its session and nodes."""

from __future__ import annotations

import pytest
from servers.emptydatabase import database, database_server

__all__ = ["database", "database_server"]  # fixtures for all

ONE_PROCESS = ("spark", "slow", "long")


@pytest.hookimpl(tryfirst=True)  # before the plugin reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(name) for name in ONE_PROCESS):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
