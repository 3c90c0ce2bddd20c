"""What hosts tell of the groups of a batch: receipts, put together by group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nadi.errors import NadiError, error
from nadi.pipeline.hosting.seats import Seat

_UNPACK = msgspec.msgpack.Decoder().decode
_WORSE = ("done", "pending", "need", "left", "fenced", "failed")
"""A group is as badly off as the worst of its parts."""


@dataclass(slots=True)
class Receipt:
    """Of one group: done, pending (a host is still at it), left (the host before died with the request), need (a host lacks what it needs to know), fenced (a
    newer epoch was there) or failed; what each of its buckets told.

    >>> tried, lacks, died = {"n": 7, "state": "need", "probed": True}, {"n": 7, "state": "need"}, {"n": 7, "state": "left"}
    >>> for hosts in ([tried], [tried, tried], [tried, lacks], [lacks, tried], [tried, died]):
    ...     receipt = Receipt()
    ...     for told in hosts:
    ...         receipt.add(told)
    ...     print(receipt.probed)
    True
    True
    False
    False
    False
    """

    state: str = "done"
    n: int = 0
    worked: float = 0.0  # seconds of the processor, all hosts together
    computed: float = 0.0  # seconds of the processor, that host which took longest
    wrote: float = 0.0  # seconds that a host waited for sinks when all else was done
    error: dict[str, Any] | None = None
    starved: bool = False  # a kernel had no memory left …
    guilty: tuple[int, int, int] | None = None  # … for this message: input, partition, position
    tried: bool = False  # the cut was only tried, message by message, and nobody died of it …
    lacks: bool = False  # … but a host lacked what it needs, or another one has died of it
    buckets: list[dict[str, Any]] = field(default_factory=list)
    seats: list[tuple[Seat, tuple[int, ...]]] = field(default_factory=list)
    """On a cluster: who has taken which buckets, or (none named) is at all of them."""

    def add(self, told: dict[str, Any]) -> None:
        """Take what another host tells."""
        if _WORSE.index(told["state"]) > _WORSE.index(self.state):
            self.state = told["state"]
            self.error = told.get("error")
        self.n = told["n"]
        self.starved |= told.get("starved", False)
        if told.get("guilty"):
            self.guilty = tuple(told["guilty"])
        tried = told.get("probed", False)
        self.tried |= tried
        self.lacks |= told["state"] in ("need", "left") and not tried
        self.worked += told.get("worked", 0.0)
        self.computed = max(self.computed, told.get("computed", 0.0))
        self.wrote = max(self.wrote, told.get("wrote", 0.0))
        self.buckets.extend(told.get("buckets") or ())
        if "seat" in told and told["state"] in ("done", "pending"):
            self.seats.append((Seat(*told["seat"]), tuple(b["bucket"] for b in told.get("buckets") or ())))

    @property
    def probed(self) -> bool:
        """Whether all of the cut was tried, and nobody died of it."""
        return self.tried and not self.lacks

    def failure(self) -> NadiError:
        """What went wrong, by its name."""
        told = self.error or {"message": "it was not told why"}
        if "condition" in told:
            return error(told["condition"], **told["parameters"])
        return error("HOST_FAILED", operation="cut", reason=told["message"])


def gather(receipts: Iterable[bytes | memoryview]) -> dict[tuple[str, int], Receipt]:
    """The receipts of a batch by group: (id of its app, epoch)."""
    found: dict[tuple[str, int], Receipt] = {}
    for packed in receipts:
        for told in _UNPACK(packed)["groups"]:
            found.setdefault((told["app"], told["epoch"]), Receipt()).add(told)
    return found
