"""An engine whose states are renewed all the time, within the cuts."""

from __future__ import annotations

from nadi.pipeline import engine
from nadi.pipeline.statelog.lines import Policy

LOG_POLICY = Policy(floor=512, piece=0, inline=1 << 40)

plan_app = engine.plan_app
plan_on_demand = engine.plan_on_demand
make_kernel = engine.make_kernel
