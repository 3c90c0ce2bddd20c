"""The engine of the nodes of the kill test: bases are renewed all the time, mostly by forked children, and processes hold at named moments."""

from __future__ import annotations

import os

import holding

from nadi.pipeline import engine
from nadi.pipeline.statelog.lines import Policy

LOG_POLICY = Policy(floor=1024, piece=0, inline=1024)

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand
make_kernel = engine.make_kernel

if holding.FOLDER in os.environ:  # the test itself has this engine, too, to replay
    holding.install()
