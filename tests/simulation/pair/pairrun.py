"""The pair's suite of schedules."""

from __future__ import annotations

from pairworld import PairWorld
from simrun import Suite

PAIR = Suite("tests/simulation/pair", PairWorld)
