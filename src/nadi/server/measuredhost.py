"""Stands between deployer and node, so that what measures knows each app before it runs."""

from __future__ import annotations

from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.deployer import Host
from nadi.server.statistics import Statistics


class MeasuredHost:
    """A host whose apps are measured."""

    def __init__(self, host: Host, statistics: Statistics) -> None:
        self._host, self._statistics = host, statistics

    def add(self, text: AppText) -> AppProgress:
        """As the host does."""
        self._statistics.enter(text)
        return self._host.add(text)

    def remove(self, name: str, revision: bool = True) -> object:
        """As the host does."""
        return self._host.remove(name, revision)
