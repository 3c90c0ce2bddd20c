"""Turns of writers in an object store: whatever the order of their requests, one at a time writes, and what one wrote who was taken for dead does not count.

Writers are threads that wait before each request until the dice let one of them go on. A seed gives the same schedule each time: names of turns come from the
dice, too, and nobody is patient for so short a time that a writer would say by the machine's clock that it lives.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyarrow import fs

from nadi.errors import NadiError
from nadi.persistence import remoteturns
from nadi.persistence.remote import RemoteRevisions, _Places
from nadi.persistence.remoteturns import Turn, Turns, _Watch
from nadi.persistence.revisions import newest_good, read_revision, write_revision
from tests.persistence.test_persistence_stores import APP, STATE, meta, parts, segment

PATIENCE = 60_000.0  # in the time of the dice
LONGER = 400_000
"""How many times longer than wanted a pause is now and then: two of them are more than anybody's patience."""
SCHEDULES = 300


class Dice:
    """Lets one of the threads go on that wait, again and again, until all have ended. Time passes while somebody pauses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: dict[str, threading.Event] = {}
        self._running = 0
        self.now = 0.0

    def run(self, writers: dict[str, Callable[[], None]], steps: int = 20_000) -> None:
        threads = [
            threading.Thread(target=self._writer, args=(name, act), daemon=True, name=name)
            for name, act in writers.items()
        ]
        self._running = len(threads)
        for thread in threads:
            thread.start()
        for _ in range(steps):
            with self._changed:
                assert self._changed.wait_for(lambda: not self._running, 30)
                if not self._waiting:
                    return
                chosen = self._waiting.pop(self._random.choice(sorted(self._waiting)))
                self._running = 1
            chosen.set()
        raise AssertionError("the writers do not come to an end")

    def _writer(self, _name: str, act: Callable[[], None]) -> None:
        self.wait()
        try:
            act()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Until the dice fall on this thread."""
        mine = threading.Event()
        with self._changed:
            self._waiting[threading.current_thread().name] = mine
            self._running -= 1
            self._changed.notify_all()
        assert mine.wait(60)

    def name(self) -> str:
        """Of a turn: who takes one first has the least name, but for those of the same moment."""
        return f"{int(self.now):013d}-{self._random.randrange(16**8):08x}"

    def pause(self, seconds: float) -> None:
        self.now += seconds * self._random.choice((1, 1, 1, LONGER))
        self.wait()


@dataclass
class Shelf:
    """Implements `Places`: a list shows what was put before it."""

    dice: Dice
    held: dict[str, bytes] = field(default_factory=dict)

    def put(self, name: str, content: bytes) -> None:
        self.dice.wait()
        self.held[name] = content

    def names(self) -> list[str]:
        self.dice.wait()
        return sorted(self.held)

    def content(self, name: str) -> bytes | None:
        self.dice.wait()
        return self.held.get(name)

    def delete(self, name: str) -> None:
        self.dice.wait()
        self.held.pop(name, None)


def log_of(seed: int) -> list[tuple[str, list[str]]]:
    """Three writers write two notes each, beside which they keep what they saw; -> those that counted, in the order in which they were written.

    A turn reads all notes, writes one, and takes it back where its turn does not stand any more.
    """
    dice = Dice(seed)
    shelf, notes = Shelf(dice), list[tuple[str, list[str]]]()
    turns = Turns(shelf, PATIENCE, lambda: dice.now, dice.pause, dice.name)

    def write(name: str) -> None:
        for n in range(2):
            with turns.taken() as turn:
                dice.wait()
                seen = [note for note, _ in notes]
                dice.wait()
                notes.append((f"{name}{n}", seen))
                if not turn.stands():
                    notes.remove((f"{name}{n}", seen))

    dice.run({name: lambda name=name: write(name) for name in "abc"})  # type: ignore[misc]
    assert shelf.held == {}, "turns leave nothing behind"
    return notes


def conflict(seed: int) -> bool:
    """Whether a note that counts was written by somebody who had not seen one before it."""
    notes = log_of(seed)
    return any(
        [note for note, _ in notes[:n]] != [s for s in seen if s in [x for x, _ in notes]]
        for n, (_, seen) in enumerate(notes)
    )


def test_a_writer_sees_all_that_counts_before_it_whatever_the_order_of_requests():
    assert [seed for seed in range(SCHEDULES) if conflict(seed)] == []


def _enters_at_once(self: Turns, turn: Turn, watch: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("what", "name", "planted"),
    [
        (Turns, "_is_alone", _enters_at_once),
        (Turn, "stands", lambda self: True),
    ],
    ids=["a turn is taken without a look at others", "nobody asks whether the turn still stands"],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, what: type, name: str, planted: object):
    monkeypatch.setattr(what, name, planted)
    assert any(conflict(seed) for seed in range(SCHEDULES))


# ---- the store


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"{tmp_path}/revisions"


def opened(folder: str) -> RemoteRevisions:
    return RemoteRevisions(fs.LocalFileSystem(), folder)


def places_in(folder: str) -> _Places:
    return _Places(opened(folder), f"{folder}/turns")


def test_a_writer_whose_turn_was_taken_writes_nothing_that_counts_and_costs_nobody_a_blob(folder: str):
    store = opened(folder)
    good = write_revision(store, meta(n=1), STATE, 1)

    def paused():
        yield segment("q/window", 0, "late")
        (turn,) = store.objects.names(f"{store.folder(APP)}/turns")
        store.objects.delete(f"{store.folder(APP)}/turns/{turn}")  # others did not hear of it for long
        write_revision(opened(folder), meta(n=2), STATE, 5)

    with pytest.raises(NadiError, match="another one took its turn") as caught:
        write_revision(store, meta(n=3), [paused()], 9, keep=1)
    assert caught.value.condition == "PERSISTENCE_STORE_FAILED"
    found, problems = newest_good(store, APP)
    assert found is not None
    assert (found.revision.meta.cut["n"], problems) == (2, [])
    assert (parts(store), parts(store, good)) == (STATE, STATE)


def test_a_writer_whose_turn_was_taken_deletes_nothing(folder: str):
    store = opened(folder)
    for n in (1, 2):
        write_revision(store, meta(n=n), [[segment("q/window", 0, "a", seed=n)]], n)
    names = store.names(APP)
    with pytest.raises(NadiError, match="another one took its turn"), store.writing(APP) as turn:  # noqa: PT012 (all of it is one turn)
        (standing,) = store.objects.names(f"{store.folder(APP)}/turns")
        store.objects.delete(f"{store.folder(APP)}/turns/{standing}")
        turn.delete(names[:1])
    with pytest.raises(NadiError, match="another one took its turn"), store.writing(APP) as turn:  # noqa: PT012
        (standing,) = store.objects.names(f"{store.folder(APP)}/turns")
        store.objects.delete(f"{store.folder(APP)}/turns/{standing}")
        turn.sweep(frozenset())
    for name in names:
        read_revision(store, APP, name).verify()


@pytest.mark.parametrize("lives", [True, False])
def test_a_writer_is_dead_when_its_number_stands_still_for_longer_than_others_are_patient(folder: str, lives: bool):
    places, now = places_in(folder), [0.0]
    watch = _Watch(places, PATIENCE, lambda: now[0])
    for name in ("1-first", "2-second"):
        places.put(name, b"")
    for n in range(10):
        places.put("2-second.beat", str(n).encode())
        if lives:
            places.put("1-first.beat", str(n).encode())
        found = watch.standing()
        now[0] += PATIENCE / 5
    assert found == (["1-first", "2-second"] if lives else ["2-second"])
    assert ("1-first" in places.names()) == lives


def test_a_beat_that_was_left_alone_is_removed(folder: str):
    store = opened(folder)
    path = f"{store.folder(APP)}/turns/1-dead{remoteturns._BEAT}"
    store.objects.put(path, [b"3"])
    write_revision(store, meta(), STATE, 1)
    assert store.objects.names(f"{store.folder(APP)}/turns") == []
