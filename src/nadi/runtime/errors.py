"""What an app in this process could not take, kept until it is sent again or purged: `Runtime.errors`, with the names of `nadi errors`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from nadi.errors import error
from nadi.kernel.contract import Failure
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row


@dataclass(frozen=True, slots=True)
class Kept:
    """One error: `kind` is "query" (an event that a query failed) or "sink" (a message that could not be published), `time` the timestamp of its first event
    (ms), `payload` the rows of its events. `final` says why it cannot be sent again; `replayed` how often it was.
    """

    id: str
    time: int
    kind: str
    stream: str
    reason: str
    payload: tuple[Row, ...]
    final: str = ""
    replayed: int = 0
    again: Callable[[tuple[Row, ...]], None] | None = field(default=None, repr=False, compare=False)


class Errors:
    """The errors of one app, oldest first. `deliver` takes an event to a stream of the app again; `collect` is called before the errors are looked at.

    Ids count from 1.
    """

    def __init__(
        self, app: str, streams: Iterable[str], deliver: Callable[[str, Chunk], None], collect: Callable[[], object]
    ) -> None:
        self._app = app
        self._streams = frozenset(streams)
        self._deliver = deliver
        self._collect = collect
        self._rows: dict[str, Kept] = {}
        self._count = 0

    def list(
        self, kind: str = "", stream: str = "", since: int | None = None, until: int | None = None, limit: int = 0
    ) -> list[Kept]:
        """The errors that all conditions mean; with a limit the newest ones. Times are ms, `until` exclusive."""
        self._collect()
        found = [
            kept
            for kept in self._rows.values()
            if kind in ("", kept.kind)
            and stream in ("", kept.stream)
            and (since is None or kept.time >= since)
            and (until is None or kept.time < until)
        ]
        return found[-limit:] if limit else found

    def show(self, id_: str) -> Kept:
        """One error. Raises SiddhiAppRuntimeException: ERROR_NOT_FOUND."""
        self._collect()
        if id_ not in self._rows:
            raise error("ERROR_NOT_FOUND", app=self._app, id=id_)
        return self._rows[id_]

    def replay(self, *ids: str, again: bool = False, payload: Sequence[Row] | None = None) -> int:
        """Send errors again, events to their stream and messages to their topic; how many. Without ids: all that can be and were not before.

        Args:
            ids: which ones.
            again: also those that were sent again before.
            payload: rows that stand for those of the one error that is named.

        Raises:
            SiddhiAppRuntimeException: ERROR_NOT_FOUND, ERROR_REPLAYED, ERROR_NOT_REPLAYABLE (nothing is sent then); NOT_RUNNING.
        """
        if not ids:
            chosen = [kept for kept in self.list() if kept.again is not None and (again or not kept.replayed)]
        else:
            chosen = [self._sendable(id_, again) for id_ in dict.fromkeys(ids)]
        for kept in chosen:
            assert kept.again is not None
            kept.again(kept.payload if payload is None else tuple(map(tuple, payload)))
            self._rows[kept.id] = replace(kept, replayed=kept.replayed + 1)
        return len(chosen)

    def _sendable(self, id_: str, again: bool) -> Kept:
        kept = self.show(id_)
        if kept.again is None:
            raise error("ERROR_NOT_REPLAYABLE", id=id_, reason=kept.final)
        if kept.replayed and not again:
            raise error("ERROR_REPLAYED", id=id_, time=f"{kept.time} ms")
        return kept

    def purge(
        self, *ids: str, kind: str = "", stream: str = "", since: int | None = None, until: int | None = None
    ) -> int:
        """Forget errors: those of the ids, or without ids all that the conditions mean; how many."""
        found = [kept.id for kept in self.list(kind, stream, since, until) if not ids or kept.id in ids]
        for id_ in found:
            del self._rows[id_]
        return len(found)

    # ---- keeping

    def keep_events(self, failures: Iterable[Failure]) -> None:
        """Events that queries failed, one error each; what a fault stream has is none."""
        for failure in failures:
            if failure.routed:
                continue
            final = "" if failure.stream in self._streams else "only events of streams can be sent again"
            if failure.condition in ("OUTPUT_VALUE", "CALLBACK_FAILED"):
                final = "the event was processed"
            elif failure.condition == "ROW_OF_OTHER_TYPES":
                final = "it never was an event of the stream"
            stream, ts = failure.stream, failure.timestamp

            def again(rows: tuple[Row, ...], stream: str = stream, ts: int = ts) -> None:
                self._deliver(stream, [Event(CURRENT, ts, row) for row in rows])

            reason = f"[{failure.condition}] {failure.message}"
            made = Kept("", ts, "query", stream, reason, (failure.row,), final, again=None if final else again)
            self._keep(made)

    def keep_message(self, stream: str, events: Chunk, reason: str, publish: Callable[[Chunk], None]) -> None:
        """A message that could not be published: its events, and what publishes such a message."""
        times = [event.ts for event in events]

        def again(rows: tuple[Row, ...]) -> None:
            publish([Event(CURRENT, times[min(i, len(times) - 1)], row) for i, row in enumerate(rows)])

        self._keep(Kept("", times[0], "sink", stream, reason, tuple(e.row for e in events), again=again))

    def _keep(self, kept: Kept) -> None:
        self._count += 1
        self._rows[str(self._count)] = replace(kept, id=str(self._count))
