"""What runs the groups of a cluster's apps: instances on workers, or a Spark cluster that exists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nadi.config import read_settings
from nadi.config.deployment import Deployment
from nadi.lang import parse
from nadi.pipeline.session import is_cluster
from nadi.plan.annotations import first
from nadi.plan.distribution import Placement
from nadi.plan.distribution.model import KEY_GROUPS


@dataclass(frozen=True, slots=True)
class Execution:
    """How apps are cut: `least_buckets` is how many buckets a group has at least that a Spark cluster can divide."""

    placement: Placement = Placement.INSTANCES
    least_buckets: int = 1

    @classmethod
    def of(cls, deployment: Deployment) -> Execution:
        """As a manager's deployment.yaml says: with the master of a cluster in `spark.master`, that cluster runs the groups. Errors: INVALID_SETTING."""
        if not is_cluster(deployment.sections.spark.master):
            return cls()
        wanted = read_settings(deployment.conf).buckets
        return cls(Placement.SPARK, min(KEY_GROUPS, max(1, wanted or 1)))

    @classmethod
    def of_parts(cls, texts: Iterable[str]) -> Execution:
        """How an app was cut that runs, by the texts of its partial apps: one on Spark says how many buckets it has."""
        found = [int(buckets) for text in texts if (buckets := _buckets_of(text))]
        return cls(Placement.SPARK, min(found)) if found else cls()

    @property
    def is_spark(self) -> bool:
        return self.placement is Placement.SPARK


def _buckets_of(text: str) -> str:
    given = first(parse(text).annotations, "app:spark")
    return "" if given is None else given.get("buckets") or ""
