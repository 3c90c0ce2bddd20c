"""What several end-to-end tests need."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def broker_module() -> Any:
    path = Path(__file__).parents[2] / "examples" / "kafka" / "broker.py"
    spec = importlib.util.spec_from_file_location("endtoend_broker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module
