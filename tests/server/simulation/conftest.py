"""A simulator whose apps only note what they are sent (each module says which app there is), on a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simulation_build import Client, FakeTarget, FakeTargets, StillClock, simulator


@pytest.fixture
def targets(app: FakeTarget) -> FakeTargets:
    return FakeTargets(Stocks=app)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def client(tmp_path: Path, targets: FakeTargets, clock: StillClock) -> Iterator[Client]:
    made = simulator(tmp_path, targets, lambda: clock)
    yield Client(made)
    made.close()
