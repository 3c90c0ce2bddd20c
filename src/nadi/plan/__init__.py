"""Plans: names resolved, types known, everything checked.

Start with `binder.plan_app`; `islands` says what runs on columns, `explain` says why.
"""

from nadi.plan.binder import bind, bind_as_far, bind_collecting, diagnose, plan_app
from nadi.plan.elements import fingerprints, stateful
from nadi.plan.explain import explained, explanation
from nadi.plan.on_demand import bind_on_demand
from nadi.plan.restore import RestorePlan, plan_restore
from nadi.plan.sharding import groups, shard
from nadi.plan.streams import input_streams

__all__ = [
    "RestorePlan",
    "bind",
    "bind_as_far",
    "bind_collecting",
    "bind_on_demand",
    "diagnose",
    "explained",
    "explanation",
    "fingerprints",
    "groups",
    "input_streams",
    "plan_app",
    "plan_restore",
    "shard",
    "stateful",
]
