"""On a cluster: a bucket stays where its kernel is, wherever Spark sends its rows (rules.md#p7).

Nothing in Spark keeps a bucket on one executor. So a request names the *owner* of each bucket, the host that had it last. Any other host hands the request on
to the owner's door and passes the answer back. Where the owner does not answer it is dead, or its machine is: then this host does the work, and is the owner
from now on. Who lacks the state for that says so (`need`), and is told where it lies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from nadi.pipeline.hosting.doors import Door, DoorClient
from nadi.pipeline.hosting.lane import RECEIPT, Op, Request, Row, decode_bodies, decode_rows, encode_bodies, encode_rows
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.hosting.seats import Seat, machine_of

_PACK = msgspec.msgpack.Encoder().encode
_MAP = msgspec.msgpack.Decoder(dict[str, Any])
_ROW = msgspec.msgpack.Decoder(tuple[str, int, int, dict[str, Any], memoryview])

SIDE_BY_SIDE = 64  # requests that are handed on at a time
Receipts = list[dict[str, Any]]
_Bucket = tuple[str, int, int]
"""Id of the app, epoch, bucket."""


class Work(Protocol):
    """What a host does by itself: `nadi.pipeline.executor.cutwork.CutWork`."""

    def read(self, request: Part) -> Iterator[Row]: ...
    def write(self, bodies: Iterable[Part]) -> bytes: ...


class Owned:
    """What host `number` of a cluster's executor, which is at `place`, does: what is its own by `work`, the rest by the owners. The door opens with the first
    request, which brings the token."""

    def __init__(self, work: Work, place: str, number: int) -> None:
        self._work = work
        self._place = place
        self._number = number
        self._door: Door | None = None
        self._doors = Doors()
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, "hand on")
        self._lock = threading.Lock()

    def read(self, request: Part) -> Iterator[Row]:
        """As `CutWork.read`."""
        asked = _MAP.decode(request)
        seat = self._seat(asked["token"])
        if asked["k"] != "run":
            for row in self._work.read(request):
                yield row if row.host != RECEIPT else Row(row.bk, row.host, _packed(_groups(row.body, seat)))
            return
        mine: list[dict[str, Any]] = []
        others: dict[str, list[dict[str, Any]]] = {}
        for group in asked["groups"]:
            owner = group["owner"]
            (mine if owner in ("", seat.address) else others.setdefault(owner, [])).append(group)

        def own(groups: Sequence[dict[str, Any]]) -> Receipts:
            rows = self._work.read(_PACK({**asked, "groups": groups})) if groups else ()
            return [told for row in rows for told in _groups(row.body, seat)]

        def of_owner(owner: str, groups: Sequence[dict[str, Any]]) -> Receipts:
            return self._handed(asked["token"], owner, Op.READ, _PACK({**asked, "groups": groups}))

        yield Row(0, RECEIPT, _packed(self._together(mine, others, own, of_owner)))

    def write(self, bodies: Iterable[Part]) -> bytes:
        """As `CutWork.write`."""
        by_bucket: dict[_Bucket, list[Part]] = {}
        owners: dict[_Bucket, str] = {}
        token = ""
        for packed in bodies:
            app, epoch, bucket, head, _body = _ROW.decode(packed)
            by_bucket.setdefault((app, epoch, bucket), []).append(packed)
            if head["k"] == "clock":  # there is none where a reading has failed, which has told so itself
                owners[(app, epoch, bucket)], token = head["owner"], head["token"]
        if not token:
            return self._work.write(part for parts in by_bucket.values() for part in parts)
        seat = self._seat(token)
        mine: list[Part] = []
        others: dict[str, list[Part]] = {}
        for which, parts in by_bucket.items():
            owner = owners.get(which, "")
            (mine if owner in ("", seat.address) else others.setdefault(owner, [])).extend(parts)

        def own(parts: Sequence[Part]) -> Receipts:
            return _groups(self._work.write(parts), seat) if parts else []

        def of_owner(owner: str, parts: Sequence[Part]) -> Receipts:
            return self._handed(token, owner, Op.WRITE, encode_bodies(parts))

        return _packed(self._together(mine, others, own, of_owner))

    def _together(
        self,
        mine: Sequence[Any],
        others: Mapping[str, Sequence[Any]],
        own: Callable[[Sequence[Any]], Receipts],
        of_owner: Callable[[str, Sequence[Any]], Receipts],
    ) -> Receipts:
        """What is told of all, side by side; what an owner cannot be told is done here."""
        handed: list[tuple[Sequence[Any], Future[Receipts]]] = [
            (theirs, self._pool.submit(of_owner, owner, theirs)) for owner, theirs in others.items()
        ]
        told = own(mine)
        for theirs, coming in handed:
            try:
                told += coming.result()
            except OSError:
                told += own(theirs)
        return told

    def _handed(self, token: str, owner: str, op: Op, payload: Part) -> Receipts:
        """What the owner tells. Errors: OSError where it is not there any more; LaneFailure."""
        parts = self._doors.ask(owner, token, op, payload)
        if op is Op.WRITE:
            return _groups(b"".join(parts), None)
        return [told for part in parts for row in decode_rows(part) for told in _groups(row.body, None)]

    def _seat(self, token: str) -> Seat:
        with self._lock:
            if self._door is None:
                self._door = Door(machine_of(self._place), token, self._answer)
            return Seat(self._place, self._door.address, self._number)

    def _answer(self, request: Request) -> Part | Iterator[Part]:
        """What another host asks at the door."""
        if request.op is Op.READ:
            return (encode_rows([row]) for row in self.read(request.payload))
        if request.op is Op.WRITE:
            return self.write(decode_bodies(request.payload))
        raise ValueError(f"a host is not asked for {request.op.name} by another one")

    def close(self) -> None:
        """Close the door and what is open to others."""
        self._pool.shutdown(wait=False)
        self._doors.close()
        if self._door is not None:
            self._door.close()


class Doors:
    """Connections to the doors of other hosts, kept from request to request."""

    def __init__(self) -> None:
        self._free: dict[str, list[DoorClient]] = {}
        self._lock = threading.Lock()

    def ask(self, address: str, token: str, op: Op, payload: Part) -> list[bytes]:
        """The frames of an answer. A connection that was kept may be one to a host that is gone: then another one is tried, once. Errors: OSError,
        LaneFailure."""
        with self._lock:
            free = self._free.setdefault(address, [])
            kept = free.pop() if free else None
        if kept is not None:
            with suppress(OSError):
                return self._asked(kept, address, op, payload)
        return self._asked(DoorClient(address, token), address, op, payload)

    def _asked(self, connection: DoorClient, address: str, op: Op, payload: Part) -> list[bytes]:
        try:
            found = [bytes(part) for part in connection.frames(op, payload)]
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._free.setdefault(address, []).append(connection)
        return found

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            for free in self._free.values():
                for connection in free:
                    connection.close()
            self._free.clear()


def _groups(receipt: Part, seat: Seat | None) -> Receipts:
    """What a receipt tells of each group, and who tells it."""
    told: Receipts = _MAP.decode(receipt)["groups"]
    return told if seat is None else [{**each, "seat": list(seat)} for each in told]


def _packed(told: Receipts) -> bytes:
    return _PACK({"groups": told})
