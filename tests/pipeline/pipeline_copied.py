"""An engine whose states are renewed by forked children all the time."""

from __future__ import annotations

from nadi.pipeline import engine
from nadi.pipeline.statelog.lines import Policy

LOG_POLICY = Policy(floor=1024, piece=0, inline=128)

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand
make_kernel = engine.make_kernel
