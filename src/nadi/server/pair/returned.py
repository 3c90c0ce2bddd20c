"""What only the node had that returned, after a promotion with loss: the active node gives it to the error stores of its apps, from where it can be sent again.

What no error store can take is a line of a file, `pair/returned.jsonl`, for people: cuts that only that node had, topics and faults (which its apps had made
of events), what belongs to an app that is not there. Events of an app that does not run yet, or whose error store cannot be reached, wait there, too, and go
to the error store later. Both know what they have: what is given again changes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import structlog

from nadi.errors import NadiError, error
from nadi.eventsync.contract import Surplus, SurplusKind
from nadi.io.contract import Connector
from nadi.io.durablefiles import read_whole, write_atomically
from nadi.io.errorstore import Place, Row, payload_fields
from nadi.io.errortable import TableErrorStore
from nadi.io.jetstream import token
from nadi.io.linefile import append_lines
from nadi.pipeline.spec import AppSpec
from nadi.server.pair.returnedrows import row_of

AGAIN = 30.0  # seconds after which what an error store did not take is given to it once more

log = structlog.get_logger("nadi.server")


class Line(msgspec.Struct, omit_defaults=True):
    """As the file has it: the payload is text, or base64 where `encoding` says so."""

    app: str
    stream: str
    what: str
    time: int
    payload: str
    encoding: str = ""
    kind: SurplusKind = SurplusKind.NOTE
    position: int = -1
    properties: dict[str, str] = {}


class Returned:
    """`running` gives the apps that run now. Errors of all methods: OSError, DISK_FULL, STATE_FILE_NOT_READABLE."""

    def __init__(self, path: Path, running: Callable[[], Iterable[AppSpec]]) -> None:
        self._path = path
        self._running = running
        self._lock = threading.Lock()  # of the file; nobody holds it who waits for an error store
        self._settling = threading.Lock()
        self._again: dict[str, float] = {}  # when the lines of an app are given to its error store once more
        self._waiting = {_app_of(one) for one in self._lines() if one.kind is not SurplusKind.NOTE}

    async def __call__(self, found: list[Surplus]) -> None:
        """Durable, when this returns: in the file. No error store is asked for it: its rows go to the partner, and a session in which the partner catches up
        waits for this."""
        await asyncio.to_thread(self.write_down, found)

    def keep(self, found: Sequence[Surplus]) -> None:
        """Durable, and in the error stores of the apps that run. It blocks."""
        self.write_down(found)
        self.settle()

    def write_down(self, found: Sequence[Surplus]) -> None:
        """Durable, in the file: `settle` gives error stores what is theirs. It blocks."""
        lines = [msgspec.json.encode(_line(one)) for one in found]
        with self._lock:
            if lines:
                append_lines(self._path, lambda there: _new(lines, there))
            fresh = {_app_of(one) for one in found if one.kind is not SurplusKind.NOTE}
            self._waiting |= fresh
            for app in fresh:
                self._again.pop(app, None)
        log.error("the node that returned had what this one never got", lines=len(lines), file=str(self._path))

    def is_due(self, app: str) -> bool:
        """Whether something in the file waits for the error store of an app that runs, and it is time to try again. From any thread; it costs nothing."""
        if (
            not self._waiting
            or (name := token(app)) not in self._waiting
            or time.monotonic() < self._again.get(name, 0)
        ):
            return False
        self._again[name] = time.monotonic() + AGAIN
        return True

    def settle(self) -> None:
        """Give the error stores what waits for them. It blocks."""
        with self._settling:
            with self._lock:
                lines = self._lines()
            left = self._stored(lines)
            stored = _encoded(lines) - _encoded(left)
            with self._lock:
                there = [one for one in self._lines() if msgspec.json.encode(_line(one)) not in stored]
                if stored:
                    write_atomically(self._path, b"".join(msgspec.json.encode(_line(one)) + b"\n" for one in there))
                    log.info("what a node had alone that returned is in the error store now", rows=len(stored))
                self._waiting = {_app_of(one) for one in there if one.kind is not SurplusKind.NOTE}

    def _stored(self, found: Sequence[Surplus]) -> list[Surplus]:
        """Have error stores keep what they can; -> what is left, in its order."""
        by_app: dict[str, list[int]] = {}
        for at, one in enumerate(found):
            if one.kind is not SurplusKind.NOTE:
                by_app.setdefault(_app_of(one), []).append(at)
        stored: set[int] = set()
        specs = {token(spec.identity): spec for spec in self._running()} if by_app else {}
        for app, places in by_app.items():
            if app in specs:
                stored |= _entered(specs[app], {at: found[at] for at in places})
        return [one for at, one in enumerate(found) if at not in stored]

    def _lines(self) -> list[Surplus]:
        try:
            content = read_whole(self._path)
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        try:
            return [_surplus(msgspec.json.decode(line, type=Line)) for line in whole.splitlines()]
        except (msgspec.DecodeError, ValueError) as reason:
            raise error("STATE_FILE_NOT_READABLE", path=self._path, reason=reason) from reason


def _entered(spec: AppSpec, found: dict[int, Surplus]) -> set[int]:
    """Which of them the error store of an app has now."""
    try:
        rows = _rows(spec, found)
        if rows:
            store = spec.open_errors()
            assert isinstance(store, TableErrorStore), "an app of a pair travels"
            store.enter(list(rows.values()))
    except NadiError as reason:
        log.warning("the error store does not take what a node had alone", app=spec.app, reason=str(reason))
        return set()
    except Exception:  # of a row that another version has written: it stays in the file, and the node goes on
        log.exception("what a node had alone cannot be made a row", app=spec.app)
        return set()
    return set(rows)


def _rows(spec: AppSpec, found: dict[int, Surplus]) -> dict[int, tuple[Place, Row]]:
    sources: dict[str, Connector] = {str(source.ordinal): source for source in spec.sources(spec.plan())}
    made = {at: row_of(one, spec.app, sources) for at, one in found.items()}
    return {at: row for at, row in made.items() if row is not None}


def _app_of(one: Surplus) -> str:
    """The app, as the names of journals have it."""
    return one.app if one.kind is SurplusKind.EVENT else token(one.app)


def _encoded(found: Sequence[Surplus]) -> set[bytes]:
    return {msgspec.json.encode(_line(one)) for one in found}


def _new(lines: Sequence[bytes], there: bytes) -> list[bytes]:
    known = set(there.splitlines())
    return [line for line in dict.fromkeys(lines) if line not in known]


def _line(one: Surplus) -> Line:
    of = payload_fields(one.payload)
    return Line(
        one.app, one.stream, one.what, one.time, of["payload"], of.get("encoding", ""), one.kind, one.position, one.properties
    )  # fmt: skip


def _surplus(line: Line) -> Surplus:
    payload = base64.b64decode(line.payload) if line.encoding else line.payload.encode()
    return Surplus(line.app, line.stream, line.what, line.time, payload, line.kind, line.position, line.properties)
