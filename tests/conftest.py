"""What concerns all tests: with several processes (`-n 2`) those that start Spark stay in one of them, where they share its session."""

from __future__ import annotations

import pytest
from hypothesis import settings
from servers.emptydatabase import database, database_server

__all__ = ["database", "database_server"]  # fixtures for all

settings.register_profile("nadi", deadline=None)  # how long a case takes is the machine's business
settings.load_profile("nadi")

ONE_PROCESS = ("spark", "slow", "long")  # two of these at a time fight for the machine: 14 minutes instead of 11


@pytest.hookimpl(tryfirst=True)  # before the plugin reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(name) for name in ONE_PROCESS):
            item.add_marker(pytest.mark.xdist_group("spark"))
