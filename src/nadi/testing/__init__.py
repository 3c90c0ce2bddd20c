"""Tests of apps on a virtual clock: YAML files (`nadi test`), pytest (`nadi.testing.plugin`), or plain Python.

Start with `app.AppUnderTest`; `scenarios` runs the YAML files.
"""

from nadi.testing.app import AppUnderTest, ExpectedError
from nadi.testing.report import Difference, Unexpected

__all__ = ["AppUnderTest", "Difference", "ExpectedError", "Unexpected"]
