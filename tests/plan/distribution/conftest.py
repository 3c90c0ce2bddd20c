"""Cutting apps in tests: with the functions of the product, and a database that is never reached."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nadi.functions import Registry, StoreKind, StoreTable
from nadi.functions.registry import default_registry
from nadi.io import registry as types
from nadi.plan.distribution import Topology, distribute


def _no_database(_table: StoreTable) -> object:
    raise AssertionError("cutting an app opens no table")


@pytest.fixture(scope="session")
def registry() -> Registry:
    made = default_registry().copy()
    made.add(StoreKind("rdbms", _no_database))
    return made


@pytest.fixture
def cut(registry: Registry) -> Callable[..., Topology]:
    return lambda text, transport="nats", **more: distribute(text, registry, types, transport=transport, **more)
