"""Take-overs and switches of a pair, under a steady load: how long until the other node is active, and until the first new result is out.

An event counts as new where it was sent when the node before had ended. Each event has a number of its own, also one that is sent again: so what was
acknowledged must come out once, and what was not at most once.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.checks import WrongOutputError
from bench.pairnodes import BenchNode, BenchPair
from bench.publicnode import TooSlowError

PAUSE = 0.01  # seconds between two events, and after one that was refused
PAD = 1_000  # bytes of an event that fills the state
AT_A_TIME = 100
WITHIN = 180.0
LOOK = 0.005
INTERVAL = 60.0  # seconds between two revisions
TEXT = """@App:name('PairTakeOver')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (id long, pad string);
@sink(type='file', file.uri='{output}', @map(type='json'))
define stream Out (id long, n long);
from In#window.length({length}) select id, count() as n insert into Out;
"""
_ID = re.compile(rb'"id":(\d+)')
_LAPS = re.compile(r"\b(held_ms|prepared_ms|apps_ms|queries_ms)\W+(\d+)")
_LEASE = re.compile(r"the lease is taken under the token \d+: (\d+) ms after the last beat")

Say = Callable[[str], object]


class Rows:
    """The ids that come out, as they come, in a thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._over = threading.Event()
        self.when: dict[int, float] = {}
        self.twice: list[int] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        at, rest = 0, b""
        while not self._over.wait(LOOK):
            if not self._file.exists() or self._file.stat().st_size <= at:
                continue
            with self._file.open("rb") as file:
                file.seek(at)
                data = file.read()
            now, at = time.monotonic(), at + len(data)
            whole, _, rest = (rest + data).rpartition(b"\n")
            for found in map(int, _ID.findall(whole)):
                if found in self.when:
                    self.twice.append(found)
                self.when[found] = now

    def first_after(self, number: int) -> float | None:
        """When the first event came out that has a higher number; None: none has."""
        return min((at for id_, at in list(self.when.items()) if id_ > number), default=None)


class Sender:
    """Sends events one after the other; whatever is refused is left, and the next one has another number."""

    def __init__(self, url: str, first: int) -> None:
        self._url = url
        self.next = first
        self.taken: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self._over.is_set():
                number, self.next = self.next, self.next + 1
                with contextlib.suppress(httpx.TransportError):
                    if client.post(self._url, json={"event": {"id": number, "pad": ""}}).is_success:
                        self.taken.append(number)
                self._over.wait(PAUSE)


def fill(url: str, events: int) -> int:
    """Send so many large events; -> how many ids they have taken. Errors: TooSlowError."""
    limit, sent, pad = time.monotonic() + WITHIN + events / 200, 0, "x" * PAD
    with httpx.Client(timeout=60) as client:
        while sent < events:
            body = [{"event": {"id": sent + n, "pad": pad}} for n in range(min(AT_A_TIME, events - sent))]
            with contextlib.suppress(httpx.TransportError):
                if client.post(url, json=body).is_success:
                    sent += len(body)
                    continue
            if time.monotonic() > limit:
                raise TooSlowError(f"{events:,} events were not taken in time")
            time.sleep(0.1)
    return sent


class TakeOvers:
    """Kills and switches of one pair whose app has a state of `state_mb`."""

    def __init__(self, pair: BenchPair, folder: Path, port: int, state_mb: int, say: Say) -> None:
        self._pair, self._say = pair, say
        self._output, self._url = folder / "out.jsonl", f"http://127.0.0.1:{port}/in"
        events = max(10, state_mb * 1_000_000 // PAD)
        pair.active().deploy(TEXT.format(port=port, output=self._output, length=events))
        self._rows = Rows(self._output)
        self._sender = Sender(self._url, fill(self._url, events))

    def close(self) -> None:
        self._sender.close()
        self._rows.close()

    def kill(self, number: int, of: int) -> dict[str, Any]:
        """One kill, its place in the revision interval according to its number; the killed node comes back."""
        active = self._settled(number, of)
        other = self._pair.other(active)
        before, began = len(other.node.lines), time.monotonic()
        active.kill()
        told = self._timed(other, began, before)
        self._say(f"kill {number + 1} of {of}: {_sentence(told)}")
        active.start()
        return told

    def switch(self, number: int, of: int) -> dict[str, Any]:
        """One planned switch. Errors: WrongOutputError, where it is refused."""
        active = self._settled(number, of)
        other = self._pair.other(active)
        before, began = len(other.node.lines), time.monotonic()
        answer = active.ask("POST", "/ha/switch")
        if answer is None or not answer.is_success:
            raise WrongOutputError(f"the switch was refused: {'' if answer is None else answer.text}")
        told = self._timed(other, began, before)
        self._say(f"switch {number + 1} of {of}: {_sentence(told)}")
        return told

    def _settled(self, number: int, of: int) -> BenchNode:
        """Wait until both are in sync and results come, then as long as this round is to be later than others."""
        self._pair.ready()
        time.sleep(INTERVAL * (number + 0.5) / of)
        active = self._pair.ready()
        known = self._sender.next
        self._pair.until(lambda: self._rows.first_after(known), "row before a kill")
        return active

    def _timed(self, other: BenchNode, began: float, before: int) -> dict[str, Any]:
        """The node before has ended: what is sent from now on only the other one can take. Times count from `began`."""
        known = self._sender.next
        self._pair.until(lambda: other.is_active or None, "active node")
        active = time.monotonic() - began
        first = self._pair.until(lambda: self._rows.first_after(known), "row after a kill")
        lines = "\n".join(other.node.lines[before:])
        lease = _LEASE.search(lines)
        laps = {name: int(ms) for name, ms in _LAPS.findall(lines)}
        return {
            "first_row_s": round(first - began, 2),
            "active_s": round(active, 2),
            "phases_ms": {**({"silent_ms": int(lease[1])} if lease else {}), **laps},
        }

    def check(self) -> int:
        """Every acknowledged event has come out, and none twice; -> how many there are. Errors: WrongOutputError, TooSlowError."""
        self._sender.close()
        wanted = np.array(self._sender.taken)  # of a body that fills the state only the last event gives a row
        when = self._rows.when
        self._pair.until(lambda: len(when) >= len(wanted) or None, "last row")
        time.sleep(1)
        missing = np.setdiff1d(wanted, np.fromiter(when, np.int64))
        if len(missing) or self._rows.twice:
            raise WrongOutputError(
                f"{len(missing):,} acknowledged events are lost, {len(self._rows.twice):,} came twice"
            )
        return len(wanted)


def _sentence(told: dict[str, Any]) -> str:
    phases = ", ".join(f"{name.removesuffix('_ms')} {ms:,} ms" for name, ms in told["phases_ms"].items())
    return f"active after {told['active_s']:.1f} s, first new row after {told['first_row_s']:.1f} s ({phases})"
