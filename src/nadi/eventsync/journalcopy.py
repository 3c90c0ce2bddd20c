"""The journal of a node, a NATS server: a copy has the same messages in the same order of each subject, and so the same events under the same numbers.

Sequences of the two servers differ. Nothing durable names one: an event is known by its number, a message by that of its first event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from nadi.errors import NadiError, error
from nadi.eventsync.contract import Keep
from nadi.eventsync.journalrestore import Restored, trim
from nadi.eventsync.journalstand import Piece, Subject, digest_of, missing, packed, parts_of, standing, unpacked
from nadi.io.copiedappends import EXPECTED, WHOLE
from nadi.io.jetstream import Outgoing, ensure_stream, get, publish
from nadi.io.journalmessages import COUNT, FIRST, Group, group_of
from nadi.io.natsclient import NatsClient, api, submit
from nadi.replica.address import replica_of
from nadi.replica.contract import JournalAppend, JournalTrim, Record


class JournalCopy:
    """Implements `nadi.eventsync.contract.Copy` for the server at a URL. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED; from `apply` also COPY_GAP,
    COPY_DIFFERS."""

    kinds = (JournalAppend, JournalTrim)

    def __init__(self, url: str) -> None:
        self._client = NatsClient(replica_of(url)[0])
        self._made: set[str] = set()  # streams that are known to be there
        self._lasts: dict[
            str, tuple[Group, bytes]
        ] = {}  # the last message of a subject; as only this copy writes on a passive node

    async def holds(self, record: Record) -> bool:
        """A message that is not there, and would still be the next one, is published: as it may be on its way, only that tells for sure. An event whose sender
        was not answered may be stored all the same."""
        if isinstance(record, JournalTrim):
            return True  # that something is kept for longer changes nothing
        assert isinstance(record, JournalAppend)
        return await asyncio.wrap_future(submit(self._store(record)))

    async def apply(self, record: Record) -> None:
        if isinstance(record, JournalAppend):
            await asyncio.wrap_future(submit(self._append(record)))
        else:
            assert isinstance(record, JournalTrim)
            await asyncio.to_thread(self._trim, record)

    async def standing(self) -> bytes:
        return await asyncio.to_thread(lambda: msgspec.msgpack.encode(standing(self._client)))

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        pieces: Iterator[Piece] = missing(self._client, parts_of(standing))
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield packed(piece)

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        self._forget()
        restored = Restored(self._client, keep)
        async for piece in pieces:
            await asyncio.to_thread(restored.take, unpacked(piece))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _forget(self) -> None:
        self._made.clear()
        self._lasts.clear()

    async def _store(self, record: JournalAppend) -> bool:
        while True:
            await self._ensure(record)
            group, digest = await self._last(record)
            if record.first == group.first and digest:
                return digest == digest_of(outgoing(record))
            if record.first < group.end:
                return await self._is_before(record)
            if record.first > group.end:
                return False
            try:
                await self._publish(record, group)
            except NadiError as reason:
                if reason.condition != "SEQUENCE_TAKEN":
                    raise
            else:
                return True

    async def _is_before(self, record: JournalAppend) -> bool:
        """Whether it is one of the messages before the last one."""
        found = await asyncio.to_thread(Subject(self._client, record.stream, record.subject).holding, record.first)
        return found is not None and digest_of(found) == digest_of(outgoing(record))

    async def _append(self, record: JournalAppend) -> None:
        if record.stream not in self._made:
            await self._ensure(record)
            self._made.add(record.stream)
        known = self._lasts.get(record.subject)
        group, digest = await self._last(record) if known is None else known
        mine = digest_of(outgoing(record))
        if digest and record.first == group.first:
            if digest == mine:
                return
            if group.count:  # else an end of the journal stands there, which has no events
                where = f"event {record.first} of {record.subject}"
                raise error("COPY_DIFFERS", what="the journal", reason=f"another message has {where}")
        if record.first < group.end:
            return
        if record.first > group.end:
            raise error("COPY_GAP", what=f"the journal, {record.subject},", given=record.first, last=group.end - 1)
        self._lasts.pop(record.subject, None)
        sequence = await self._publish(record, group)
        if sequence <= group.sequence:
            raise error("COPY_DIFFERS", what="the journal", reason="its server knows a message that it does not have")
        self._lasts[record.subject] = Group(sequence, record.first, int(record.headers[COUNT])), mine

    async def _publish(self, record: JournalAppend, last: Group) -> int:
        message = outgoing(record)
        message.headers[EXPECTED] = str(last.sequence)
        return await self._client.perform(lambda nc: publish(nc, message))

    async def _last(self, record: JournalAppend) -> tuple[Group, bytes]:
        found = await self._client.perform(lambda nc: get(nc, record.stream, {"last_by_subj": record.subject}))
        return group_of(found), b"" if found is None else digest_of(found)

    async def _ensure(self, record: JournalAppend) -> None:
        config: dict[str, Any] = msgspec.json.decode(record.config)
        await self._client.perform(lambda nc: ensure_stream(nc, config))

    def _trim(self, record: JournalTrim) -> None:
        if record.position == WHOLE:
            self._forget()
            self._client.call(lambda nc: api(nc, f"STREAM.DELETE.{record.stream}"))
        else:
            trim(self._client, record.stream, record.subject, record.position)


def outgoing(record: JournalAppend) -> Outgoing:
    """The message of a record."""
    assert FIRST in record.headers
    return Outgoing(record.subject, record.payload, dict(record.headers))
