"""What event sync counts of itself; whoever shows it reads the fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Since the process began. Bytes are those of frames, before encryption."""

    sent_records: int = 0
    sent_bytes: int = 0
    received_records: int = 0
    received_bytes: int = 0
    in_flight: int = 0  # records that the partner has not answered
    backlog: int = 0  # bytes that the passive node has in its log and not yet in its services; on both nodes
    last_sync: int | None = None  # ms of the epoch: when something was last made durable at the passive node
