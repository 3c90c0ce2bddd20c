from __future__ import annotations

from pathlib import Path

import pytest

from bench.fleet import FleetSetting, measure_placement


@pytest.mark.slow
def test_a_small_fleet_is_placed_grows_and_shrinks(tmp_path: Path):
    found = measure_placement(FleetSetting(tmp_path, workers=50, instances=100), lambda _line: None)
    assert (found["deploy"]["least"], found["deploy"]["most"]) == (10, 10)
    assert found["grow"]["least"] >= 9
    assert found["shrink"]["least"] >= 9
