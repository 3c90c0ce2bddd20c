"""Hosts on a cluster that start with their executors, not with the first batch: settings for a plugin of Spark that the connector brings."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from nadi.pipeline.hosting.hostclient import own_folder
from nadi.pipeline.query import HOST

PLUGIN = "nadi.EarlyHosts"
PLUGINS = "spark.plugins"


def early_hosts(conf: Mapping[str, str], count: int) -> dict[str, str]:
    """The settings for so many hosts of each executor, beside those that a user gives in `conf`.

    >>> early_hosts({"spark.plugins": "theirs.Plugin"}, 2)["spark.plugins"]
    'theirs.Plugin,nadi.EarlyHosts'
    """
    return {
        PLUGINS: ",".join(filter(None, (conf.get(PLUGINS, ""), PLUGIN))),
        "spark.nadi.hosts.base": str(own_folder()),
        "spark.nadi.hosts.python": conf.get("spark.pyspark.python", sys.executable),
        "spark.nadi.hosts.module": HOST,
        "spark.nadi.hosts.count": str(count),
    }
