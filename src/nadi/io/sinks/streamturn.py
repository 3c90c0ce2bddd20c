"""Publishing to a stream where others may publish the same messages: a run of the app on another node, which went on while this one was asleep.

Every message has an id, and is published only where nothing is between it and the last sequence up to which it is known what the stream has
(`Nats-Expected-Last-Sequence`), or the message before it (`Nats-Expected-Last-Msg-Id`): else the server refuses it, and whoever publishes looks at what has
come. So a message that is there is never published once more, however long ago it was: the server's own memory of ids (two minutes by default) plays no part.

Where others write much to the same stream, messages go one after the other, each where nothing is between it and the last one of its subject.
"""

from __future__ import annotations

from collections.abc import Sequence

from nadi.errors import NadiError
from nadi.io.jetstream import EXPECTED_OF_SUBJECT, MESSAGE_ID, Outgoing, Stream, last_of, publish, publish_after

AT_ONCE = 2_000  # messages published in one call
WITHIN = 60.0  # seconds for them
ONE_BY_ONE = 64  # messages after somebody has come between; twice as many each time in a row …
MOST = 1_024  # … up to so many


class StreamTurn:
    """One writer to one stream. `known` is the sequence up to which it knows what of its own the stream has."""

    def __init__(self, stream: Stream, prefix: str, known: int) -> None:
        """`prefix` is what the ids of its messages begin with."""
        self._stream = stream
        self._prefix = prefix
        self._own: dict[str, int] = {}  # the last message of a subject that it has published after `known`
        self.known = known

    def append(self, messages: Sequence[Outgoing]) -> int:
        """Publish in order what the stream does not have after `known`; -> the last sequence of any of them that it has seen, 0 for none.

        Errors: CONNECTION_UNAVAILABLE, REFUSED; then some may be there.
        """
        left, last, pause = list(messages), 0, ONE_BY_ONE
        while left:
            part = left[:AT_ONCE]
            stored = self._publish_after(part)
            left = left[len(stored) :]
            last = max([last, *stored])
            follow = sum(sequence == self.known + 1 + i for i, sequence in enumerate(stored))
            self.known += follow
            if follow == len(part):
                continue
            pause = ONE_BY_ONE if stored else min(2 * pause, MOST)
            left, seen = self._look(left)
            left, stored_last = self._one_by_one(left, pause)
            last = max(last, seen, stored_last)
            if left:
                left, seen = self._look(left)
                last = max(last, seen)
        return last

    def _look(self, messages: Sequence[Outgoing]) -> tuple[list[Outgoing], int]:
        """Those that have not come meanwhile, and the last sequence of one of this app's that has."""
        present, last, end = present_after(self._stream, self._prefix, self.known)
        self.known = end
        self._own.clear()
        return [m for m in messages if m.headers[MESSAGE_ID] not in present], last

    def _one_by_one(self, messages: Sequence[Outgoing], most: int) -> tuple[list[Outgoing], int]:
        """Publish some; -> what is left, and the last sequence."""
        left, last = list(messages), 0
        for _ in range(most):
            if not left:
                break
            subject = left[0].subject
            before = self._last_of(subject)
            if before > self.known and before != self._own.get(subject):
                left, seen = self._look(left)
                last = max(last, seen)
                continue
            try:
                sequence = self._publish_behind(left[0], before)
            except NadiError as reason:
                if reason.condition != "SEQUENCE_TAKEN":
                    raise
                continue  # somebody was faster: look again
            self._own[subject] = last = sequence
            del left[0]
        return left, last

    def _publish_after(self, messages: Sequence[Outgoing]) -> list[int]:
        return self._stream.client.call(lambda nc: publish_after(nc, messages, self.known), WITHIN)

    def _last_of(self, subject: str) -> int:
        return self._stream.client.call(lambda nc: last_of(nc, self._stream.name, subject))

    def _publish_behind(self, message: Outgoing, before: int) -> int:
        """Publish a message where this is the last one of its subject. Errors: SEQUENCE_TAKEN, where it is not."""
        expected = Outgoing(message.subject, message.data, {**message.headers, EXPECTED_OF_SUBJECT: str(before)})
        return self._stream.client.call(lambda nc: publish(nc, expected))


def present_after(stream: Stream, prefix: str, start: int) -> tuple[set[str], int, int]:
    """The ids with this prefix that a stream holds after a sequence, the last sequence of one of them (0 for none), and the last one of the stream."""
    bounds = stream.bounds()
    found: set[str] = set()
    last = 0
    for part in stream.read(max(start + 1, bounds.first), bounds.last + 1):
        for message in part:
            identity = message.headers.get(MESSAGE_ID, "")
            if identity.startswith(prefix):
                found.add(identity)
                last = message.sequence
    return found, last, bounds.last
