"""`deployment.config` of a pair: one node is active, the other one has all that it needs to go on in its place. Times are in ms.

The reference sends events to the passive node in the background and keeps them in memory there; here they are on its disk before a sender is answered. So most
of its keys have nothing to say here, and neither have those of its older mode, in which both nodes processed everything.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nadi.config.section import Section, unused

HA = "ha"
SYNC_PORT = 9893
EVERY_ADDRESS = ("", "0.0.0.0", "::")

_DURABLE = "the passive node has each event on its disk before the sender is answered, so nothing waits in memory there"
_ONE_CONNECTION = "the active node keeps one connection to the passive one"
_ONE_LOOP = "one thread serves the connection of the active node"
_WAITS = "the active node goes on alone, says so, and takes its partner in whenever it comes"
_OLD = "only the active node takes events in and gives results out; the passive one has a copy of all that the active one knows"


class SyncServer(Section):
    """`eventSyncServer`: where this node listens for the active one, and by which address its partner reaches that."""

    host: str = "0.0.0.0"  # the contract's default
    port: int = Field(default=SYNC_PORT, ge=0, le=65_535)
    advertised_host: str = Field(default="", alias="advertisedHost")
    advertised_port: int = Field(default=0, ge=0, le=65_535, alias="advertisedPort")
    boss_threads: Any = unused("bossThreads", _ONE_LOOP)
    worker_threads: Any = unused("workerThreads", _ONE_LOOP)

    @property
    def reached_at(self) -> tuple[str, int]:
        """Host and port for the partner; no host: the file does not say it.

        >>> SyncServer(host="10.0.0.5").reached_at, SyncServer(advertisedHost="a.example", advertisedPort=9894).reached_at
        (('10.0.0.5', 9893), ('a.example', 9894))
        """
        host = self.advertised_host or ("" if self.host in EVERY_ADDRESS else self.host)
        return host, self.advertised_port or self.port


class SyncClientPool(Section):
    """`eventSyncClientPool`: nothing of it is needed."""

    max_active: Any = unused("maxActive", _ONE_CONNECTION)
    max_total: Any = unused("maxTotal", _ONE_CONNECTION)
    max_idle: Any = unused("maxIdle", _ONE_CONNECTION)
    max_wait: Any = unused("maxWait", _ONE_CONNECTION)
    idle_time: Any = unused("minEvictableIdleTimeMillis", _ONE_CONNECTION)


class PairKeys(Section):
    """The keys of `deployment.config` that a node of a pair reads, or that the reference has for one."""

    sync_server: SyncServer = Field(default=SyncServer(), alias="eventSyncServer")
    sync_pool: SyncClientPool = Field(default=SyncClientPool(), alias="eventSyncClientPool")
    details_wait: Any = unused("passiveNodeDetailsWaitTimeOutMillis", _WAITS)
    details_retry: Any = unused("passiveNodeDetailsRetrySleepTimeMillis", _WAITS)
    queue_capacity: Any = unused("eventByteBufferQueueCapacity", _DURABLE)
    extractor_threads: Any = unused("byteBufferExtractorThreadPoolSize", _DURABLE)
    live_sync: Any = unused(
        "liveSync",
        f"{_OLD}: let senders reach both nodes through a load balancer that asks '/health?role=active', and name 'eventSyncServer'",
    )
    output_sync: Any = unused("outputSyncInterval", f"{_OLD}: outputs are copied with each batch")
    grace_period: Any = unused("stateSyncGracePeriod", f"{_OLD}: a node that returns catches up by itself, at once")
    sink_queue: Any = unused("sinkQueueCapacity", f"{_OLD}: no output waits for a fail-over in memory")
    source_queue: Any = unused("sourceQueueCapacity", _DURABLE)
    retry_sync: Any = unused("retryAppSyncPeriod", f"{_OLD}: a node that returns catches up by itself, at once")
