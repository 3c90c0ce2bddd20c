"""Runs pytest with room for Python's frames: compiling a loop below hypothesis below pytest took a fifth longer, and half of it in the system."""

from __future__ import annotations

import sys

import pytest

from nadi.framestack import with_room


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """The loops of the other plugins."""
    loop = session.config.pluginmanager.subset_hook_caller("pytest_runtestloop", [sys.modules[__name__]])
    return with_room(lambda: loop(session=session))
