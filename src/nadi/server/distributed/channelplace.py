"""The channels of apps, on the servers that a manager's deployment.yaml names: a manager makes and removes them, partial apps name their address."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.channels import administration, outside
from nadi.channels.administration import Bounds
from nadi.channels.options import Channel
from nadi.plan.distribution import Channel as Planned
from nadi.plan.distribution import Topology, provisions


@dataclass(frozen=True, slots=True)
class ChannelPlace:
    """Where channels are, and how large each may get."""

    transport: str
    servers: str
    bounds: Bounds = field(default_factory=Bounds)

    def create(self, topology: Topology) -> None:
        """Make the channels of an app; those that are there stay as they are.

        An app may say that all are there (`@app:transportChannelCreationEnabled('false')`): on Kafka they have to be then. On NATS the channels between its
        groups are made nevertheless where they are missing: who first uses one would make it, and knows neither its bound nor its replicas.

        Errors: CONNECTION_UNAVAILABLE, REFUSED, CHANNEL_RECORD; DIST_CHANNEL_MISSING, DIST_SOURCE_TOPIC_MISSING, DIST_CHANNEL_TOO_WIDE.
        """
        if not topology.creates_channels and self.transport == "kafka":
            for narrow in provisions(topology, outside.topics(self.servers)):
                administration.resize(self._channel(narrow.channel), self.bounds)
            return
        for channel in topology.channels:
            if not channel.outside:
                administration.create(self._channel(channel), self.bounds)
            elif topology.creates_channels:
                outside.create(self._channel(channel), self.bounds, channel.places)

    def remove(self, topology: Topology) -> None:
        """Delete the channels of an app with all that they have, but for those that others fill. Errors: as `create`."""
        if topology.creates_channels or self.transport == "nats":
            for channel in topology.channels:
                if not channel.outside:
                    administration.remove(self._channel(channel))

    def _channel(self, channel: Planned) -> Channel:
        return Channel(self.transport, channel.name, channel.partitions, self.servers)
