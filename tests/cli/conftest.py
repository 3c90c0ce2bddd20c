"""Commands over state folders use the ones that the tests of the pipeline make."""

from __future__ import annotations

import sys
from pathlib import Path

PIPELINE = str(Path(__file__).parents[1] / "pipeline")
if PIPELINE not in sys.path:
    sys.path.insert(0, PIPELINE)
