"""`cluster.config` and `deployment.config`: a node that is one of several. A worker runs by itself, and says so where the file wants something else."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.config.section import Section


class ClusterConfig(Section):
    """`cluster.config`: all other keys are for the pair and the cluster."""

    enabled: bool = False


class DeploymentConfig(Section):
    """`deployment.config`: likewise."""

    type: str = ""


def notices(cluster: ClusterConfig, deployment: DeploymentConfig) -> Iterator[str]:
    """Strong words: two nodes that do not know of each other would both run the same apps."""
    alone = "THIS NODE RUNS ALONE and takes no part in"
    do_not = "do not start another node with the same apps: each would read all inputs and write all outputs"
    if deployment.type:
        kinds = {"ha": "a pair for high availability", "distributed": "a distributed deployment"}
        what = kinds.get(deployment.type.lower(), f"a deployment of type '{deployment.type}'")
        yield f"'deployment.config' has no effect: {alone} {what}; {do_not}"
    if cluster.enabled:
        yield f"'cluster.config' has no effect: {alone} a cluster; {do_not}"
