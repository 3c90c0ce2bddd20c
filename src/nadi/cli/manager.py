"""`nadi manager`: a server that takes apps for a cluster; exit status 0 (stopped), 1 (it could not start), 130 (stopped at once)."""

from __future__ import annotations

from pathlib import Path

from nadi.cli.interrupts import stops
from nadi.cli.worker import mouths
from nadi.config.deployment import environment_lookups, read_deployment
from nadi.server.distributed.managerserver import ClusterManager
from nadi.server.home import open_home


def manager(config: Path, home: Path) -> int:
    """Run a manager until Ctrl-C or SIGTERM; -> exit status. Errors: those of `ClusterManager`, LOG_NOT_WRITTEN."""
    deployment = read_deployment(config, environment_lookups(home.resolve()))
    place = open_home(home)
    tell, say = mouths(deployment, place)
    for notice in deployment.notices:
        tell(f"warning: {notice}")
    made = ClusterManager(deployment, place, tell, say)
    with stops(made.request_stop, tell, "giving the leadership back", "workers go on, and another manager leads"):
        made.run()
    tell("stopped")
    return 0
