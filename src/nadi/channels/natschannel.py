"""A channel on NATS JetStream: one stream, with a subject for the progress of each producer and one for each part as it fills it.

    nadi.channel.<channel>.p.<producer>            progress records
    nadi.channel.<channel>.d.<part>.<producer>     batches

A progress record is only appended behind the very record that its producer knows as its last one (`Nats-Expected-Last-Subject-Sequence`): once another run has
announced itself, an older one can append none. Batches are appended many at a time, and read by their sequences.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from nadi.channels.options import Channel
from nadi.channels.records import Progress, decode_progress, encode_progress
from nadi.channels.transport import Bounds, Size, Told
from nadi.errors import NadiError, error
from nadi.io.jetstream import Outgoing, Stream, ensure_stream, publish, publish_all, stream_config, token
from nadi.io.natsclient import CALL_WITHIN, NatsClient, api, shared
from nadi.io.streamear import StreamEar

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
SPARE = 4 * 1024  # bytes of a message that are not its record
TOGETHER = 64  # batches that are published in one call
WRITTEN_WITHIN = 60.0  # seconds
NEWS = 500  # progress records, or batches, that are asked for at a time
NEWS_BYTES = 4 * 1024 * 1024
_FULL = ("maximum bytes exceeded", "maximum messages exceeded", "insufficient storage")


class NatsChannel:
    """Implements `Transport`."""

    def __init__(self, channel: Channel, client: NatsClient) -> None:
        self._client = client
        self._stream_name = f"nadi-channel-{token(channel.name)}"
        self._root = f"nadi.channel.{token(channel.name)}"
        self.name = f"channel {channel.name} on {client.name}"
        self._progress = Stream(client, self._stream_name, f"{self._root}.p.*")
        self._ear: StreamEar | None = None
        self._claimed: dict[str, int] = {}
        self._there = False
        self._most = 0
        self._lock = threading.Lock()

    # ---- what a manager does

    def create(self, bounds: Bounds) -> None:
        self._client.call(lambda nc: ensure_stream(nc, self._config(bounds)), WRITTEN_WITHIN)
        self._there = True

    def _config(self, bounds: Bounds) -> dict[str, Any]:
        subjects = [f"{self._root}.p.*", f"{self._root}.d.*.*"]
        made = stream_config(self._stream_name, subjects)
        return {**made, "max_bytes": bounds.bytes, "num_replicas": bounds.replicas}

    def resize(self, bounds: Bounds) -> None:
        """Parts are subjects: there is nothing to be made for more of them."""
        self._made()
        self._client.call(lambda nc: api(nc, f"STREAM.UPDATE.{self._stream_name}", self._config(bounds)))

    def remove(self) -> None:
        self._client.call(lambda nc: api(nc, f"STREAM.DELETE.{self._stream_name}"))
        self._there = False

    def trim(self, needed: Sequence[tuple[str, int]]) -> None:
        self._made()
        for producer, place in needed:
            last = self._last(producer)
            until = place + 1 if last is None else min(place + 1, last[0])  # what is before it goes
            for subject in (f"{self._root}.p.{token(producer)}", f"{self._root}.d.*.{token(producer)}"):
                self._purge(subject, until)

    def _purge(self, subject: str, until: int) -> None:
        asked = {"filter": subject, "seq": until}
        self._client.call(lambda nc: api(nc, f"STREAM.PURGE.{self._stream_name}", asked))

    def size(self) -> Size:
        self._made()
        state = self._client.call(lambda nc: api(nc, f"STREAM.INFO.{self._stream_name}")).get("state", {})
        return Size(int(state.get("bytes", 0)), int(state.get("messages", 0)))

    def _made(self) -> None:
        if not self._there:
            self.create(Bounds())

    # ---- producers

    def largest(self) -> int:
        if not self._most:
            self._most = self._client.call(_most) - SPARE
        return self._most

    def admit(self, size: int) -> None:
        """The server refuses what is too much."""

    def write(self, producer: str, bucket: int, batches: Sequence[tuple[int, bytes]]) -> list[int]:
        self._made()
        name = token(producer)
        messages = [Outgoing(f"{self._root}.d.{part}.{name}", record, {}) for part, record in batches]
        places: list[int] = []
        for at in range(0, len(messages), TOGETHER):
            some = messages[at : at + TOGETHER]
            places += self._appended(lambda nc, some=some: publish_all(nc, some))  # type: ignore[misc]
        return places

    def claim(self, producer: str) -> Progress | None:
        self._made()
        found = self._last(producer)
        self._claimed[producer] = 0 if found is None else found[0]
        return None if found is None else decode_progress(found[1])

    def _last(self, producer: str) -> tuple[int, bytes] | None:
        """The last progress record of a producer, from the server that leads the stream."""
        asked = {"last_by_subj": f"{self._root}.p.{token(producer)}"}
        found = self._client.call(lambda nc: api(nc, f"STREAM.MSG.GET.{self._stream_name}", asked))
        message = found.get("message")
        return None if message is None else (int(message["seq"]), base64.b64decode(message["data"]))

    def announce(self, producer: str, progress: Progress) -> None:
        last = self._claimed.pop(producer, None)
        if last is None:
            raise error("FENCED", connector=self.name, producer=producer)
        subject = f"{self._root}.p.{token(producer)}"
        message = Outgoing(subject, encode_progress(progress), {EXPECTED: str(last)})
        try:
            self._claimed[producer] = self._appended(lambda nc: publish(nc, message))
        except NadiError as reason:
            if reason.condition == "SEQUENCE_TAKEN":
                raise error("FENCED", connector=self.name, producer=producer) from reason
            raise

    def _appended(self, operation: Callable[[Connection], Any]) -> Any:
        """What an append gives. Errors: as of the call; a stream that is full is away until there is room."""
        try:
            return self._client.call(operation, WRITTEN_WITHIN)
        except NadiError as reason:
            said = reason.diagnostic.message
            if any(full in said for full in _FULL):
                raise error("CONNECTION_UNAVAILABLE", connector=self.name, reason="it is full") from reason
            raise

    def tails(self) -> list[Progress]:
        self._made()
        asked = {"subjects_filter": f"{self._root}.p.*"}
        told = self._client.call(lambda nc: api(nc, f"STREAM.INFO.{self._stream_name}", asked))
        found = []
        for subject in sorted(told.get("state", {}).get("subjects") or {}):
            last = self._last(subject.rpartition(".")[2])  # it is a token, and that of a token is itself
            if last is not None:
                found.append(decode_progress(last[1]))
        return found

    # ---- readers

    def news(self, after: int) -> list[Told]:
        self._made()
        asked = {"seq": after + 1, "next_by_subj": f"{self._root}.p.*", "batch": NEWS, "max_bytes": NEWS_BYTES}
        found = self._client.call(lambda nc: _batch(nc, self._stream_name, asked))
        return [Told(place, decode_progress(record)) for place, record in found]

    def before(self, producer: str, positions: Mapping[int, int]) -> int:
        """By halves: the last record is sought that tells of no chunk from the positions on."""
        self._made()
        subject = f"{self._root}.p.{token(producer)}"
        low, high = 0, self._progress.bounds().last + 1
        while high - low > 1:
            middle = (low + high) // 2
            asked = {"seq": middle, "next_by_subj": subject, "batch": 1}
            found = self._client.call(lambda nc, asked=asked: _batch(nc, self._stream_name, asked))  # type: ignore[misc]
            if not found or decode_progress(found[0][1]).is_beyond(positions):
                high = middle
            else:
                low = found[0][0]
        return max(0, low - 1)

    def fetch(self, producer: str, part: int, places: Sequence[int]) -> list[bytes]:
        wanted = dict.fromkeys(places, b"")
        subject, at = f"{self._root}.d.{part}.{token(producer)}", places[0]
        while at <= places[-1]:
            asked = {"seq": at, "next_by_subj": subject, "batch": NEWS, "max_bytes": NEWS_BYTES}
            found = self._client.call(lambda nc, asked=asked: _batch(nc, self._stream_name, asked), WRITTEN_WITHIN)  # type: ignore[misc]
            if not found:
                break
            wanted.update((place, record) for place, record in found if place in wanted)
            at = found[-1][0] + 1
        missing = [place for place, record in wanted.items() if not record]
        if missing:
            first = self._progress.bounds().first
            if missing[0] < first:
                raise error("LOG_TRUNCATED", log=self.name, position=missing[0], first=first)
            said = f"the batch at {missing[0]} is not to be had"
            raise error("CONNECTION_UNAVAILABLE", connector=self.name, reason=said)
        return list(wanted.values())

    def listen(self, after: int, heard: Callable[[], None]) -> None:
        if self._ear is None:
            self._ear = StreamEar(self._client, heard)
        self._ear.listen(self._progress, after)

    @property
    def settles(self) -> float:
        return 0.0

    def listening(self) -> bool:
        return self._ear is not None and self._ear.listening()

    def close(self) -> None:
        """The connection stays: it is shared."""
        if self._ear is not None:
            self._ear.close()


async def _most(connection: Connection) -> int:
    return connection.max_payload


async def _batch(connection: Connection, stream: str, asked: Mapping[str, object]) -> list[tuple[int, bytes]]:
    """(sequence, data) of the next messages that a direct get with `batch` gives; none where there are none. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    found: list[tuple[int, bytes]] = []
    most = asked["batch"]
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            found.append((int(headers["Nats-Sequence"]), message.data))
            if len(found) == most and most == 1 and not done.done():
                done.set_result(None)
        elif done.done():
            return
        elif status in ("204", "404"):
            done.set_result(None)
        elif status == "503":
            done.set_exception(error("CONNECTION_UNAVAILABLE", connector=f"stream {stream}", reason="it is not there"))
        else:
            done.set_exception(error("REFUSED", connector=f"stream {stream}", reason=f"status {status}"))

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=take)
    try:
        await connection.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(asked).encode(), reply=inbox)
        async with asyncio.timeout(CALL_WITHIN):
            await done
    finally:
        if not connection.is_closed:
            await subscription.unsubscribe()
    return found


def open_channel(channel: Channel) -> NatsChannel:
    """The channel on the servers that it names; the connection is shared by the process."""
    user = channel.options.get("username") or ""
    return NatsChannel(channel, shared(channel.servers, user, channel.options.get("password", "") if user else ""))
