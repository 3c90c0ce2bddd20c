"""Which texts both nodes of a pair have: what is written goes to the partner first, what comes from it is written, and what somebody did by hand is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nadi.errors import NadiError, error
from nadi.replica.contract import AppFile as Copied
from nadi.server.appfiles import AppFile, AppFiles
from nadi.server.pair.apptexts import AppTexts, CopiedTexts, NotedCopy
from nadi.server.pair.sharedfiles import SharedFiles

ONE, TWO = "@App:name('A') define stream S (a int);", "@App:name('A') define stream S (b int);"


class Partner:
    """Takes what it is asked for, unless it is `away`; `seen` is what the folder had when it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Copied] = []
        self.settled: list[str] = []
        self.away = False
        self.there: list[bool] = []

    def prepare(self, record: Copied) -> int:
        if self.away:
            raise error("NOT_ACTIVE", reason="a test")
        self.there.append((self.folder / f"{record.name}.siddhi").exists())
        self.asked.append(record)
        return len(self.asked)

    def confirm(self, ticket: int) -> None:
        self.settled.append(f"confirmed {ticket}")

    def abandon(self, ticket: int) -> None:
        self.settled.append(f"abandoned {ticket}")


class Node:
    """A folder of apps, and what is known of it."""

    def __init__(self, folder: Path) -> None:
        self.apps = folder / "apps"
        self.apps.mkdir(parents=True)
        self.partner = Partner(self.apps)
        self.texts = AppTexts(folder / "apps.json")
        self.files = AppFiles(self.apps, 1_000)
        self.shared = SharedFiles(self.apps, 1_000, self.partner, self.texts)
        self.changes = 0
        self.copy = NotedCopy(CopiedTexts(self.files, self.texts, self._changed))

    def _changed(self) -> None:
        self.changes += 1

    def by_hand(self, name: str, text: str) -> None:
        (self.apps / f"{name}.siddhi").write_text(text)
        self.texts.look(self.files.scan)


@pytest.fixture
def active(tmp_path: Path) -> Node:
    return Node(tmp_path / "active")


@pytest.fixture
def passive(tmp_path: Path) -> Node:
    return Node(tmp_path / "passive")


def test_the_partner_has_a_text_before_the_file_is_there_and_hears_when_it_is(active: Node):
    active.shared.write("A", ONE)
    assert (active.partner.asked, active.partner.there) == ([Copied("A", ONE)], [False])
    assert active.partner.settled == ["confirmed 1"]
    active.shared.scan()
    assert active.texts.by_hand == []
    assert active.shared.remove("A")
    assert active.partner.asked[1:] == [Copied("A", None)]
    assert active.partner.there == [False, True]
    assert dict(active.texts.shared) == {}


def test_a_file_that_cannot_be_written_is_abandoned(active: Node):
    with pytest.raises(NadiError, match="APP_NAME_INVALID"):
        active.shared.write("../A", ONE)
    assert active.partner.settled == ["abandoned 1"]
    assert dict(active.texts.shared) == {}


def test_what_somebody_changes_in_the_folder_of_the_active_node_waits_until_the_partner_has_it(active: Node):
    active.shared.write("A", ONE)
    assert active.shared.scan()["A"].text == ONE
    active.partner.away = True
    active.by_hand("A", TWO)
    active.by_hand("B", ONE.replace("'A'", "'B'"))
    assert {name: file.text for name, file in active.shared.scan().items()} == {"A": ONE}
    active.partner.away = False
    assert sorted(active.shared.scan()) == ["A", "B"]
    assert active.shared.scan()["A"].text == TWO
    assert len(active.partner.asked) == 3  # each once, however often somebody looks
    (active.apps / "A.siddhi").unlink()
    assert sorted(active.shared.scan()) == ["B"]
    assert active.partner.asked[-1] == Copied("A", None)


def test_what_both_have_is_known_after_a_restart(active: Node, tmp_path: Path):
    active.shared.write("A", ONE)
    again = AppTexts(tmp_path / "active/apps.json")
    again.look(active.files.scan)
    assert again.by_hand == []


def caught_up(active: Node, passive: Node) -> None:
    """As a session does it."""

    async def session() -> None:
        standing = await passive.copy.standing()
        await passive.copy.restore(active.copy.missing(standing), list)

    asyncio.run(session())


def test_a_node_that_comes_gets_what_the_active_one_has_and_loses_what_that_has_undeployed(active: Node, passive: Node):
    active.shared.write("A", ONE)
    active.shared.write("B", ONE)
    caught_up(active, passive)
    assert {name: file.text for name, file in passive.files.scan().items()} == {"A": ONE, "B": ONE}
    active.shared.remove("B")
    active.shared.write("A", TWO)
    caught_up(active, passive)
    assert {name: file.text for name, file in passive.files.scan().items()} == {"A": TWO}
    assert passive.texts.by_hand == []


def test_whoever_looks_while_a_text_comes_finds_nothing_that_was_done_by_hand(
    active: Node, passive: Node, monkeypatch: pytest.MonkeyPatch
):
    """Also where he has read the folder before the text came, and notes it after that."""
    active.shared.write("A", ONE)
    read, comes, found = threading.Event(), threading.Event(), list[list[str]]()

    def slowly() -> dict[str, AppFile]:
        scanned = passive.files.scan()
        read.set()
        comes.wait(0.2)  # the text comes, if it can
        return scanned

    def look() -> None:
        passive.texts.look(slowly)
        found.append(passive.texts.by_hand)

    looker = threading.Thread(target=look)
    looker.start()
    read.wait()
    caught_up(active, passive)
    comes.set()
    looker.join()
    assert (found, passive.texts.by_hand) == ([[]], [])

    written, asking = passive.files.write, threading.Thread(target=lambda: found.append(passive.texts.by_hand))

    def write(name: str, text: str) -> None:
        written(name, text)
        asking.start()
        asking.join(0.2)  # who asks waits until the file is noted

    monkeypatch.setattr(passive.files, "write", write)
    active.shared.write("A", TWO)
    caught_up(active, passive)
    asking.join()
    assert found == [[], []]


def test_a_file_that_both_were_given_by_hand_is_known_to_both(active: Node, passive: Node):
    passive.by_hand("A", ONE)
    active.shared.write("A", ONE)
    assert passive.texts.by_hand == ["A"]
    caught_up(active, passive)
    assert passive.texts.by_hand == []


def test_a_file_that_only_the_passive_node_was_given_stays_and_is_told(active: Node, passive: Node):
    active.shared.write("A", ONE)
    caught_up(active, passive)
    passive.by_hand("A", TWO)
    passive.by_hand("B", ONE)
    for _ in range(2):
        caught_up(active, passive)
        assert passive.texts.by_hand == ["A", "B"]
        assert passive.files.scan()["A"].text == TWO
    for name in ("A", "B"):
        (passive.apps / f"{name}.siddhi").unlink()
    caught_up(active, passive)
    assert {name: file.text for name, file in passive.files.scan().items()} == {"A": ONE}
    assert passive.texts.by_hand == []


def test_changes_come_one_by_one(passive: Node):
    asyncio.run(passive.copy.apply(Copied("A", ONE)))
    assert (passive.files.scan()["A"].text, passive.texts.by_hand, passive.changes) == (ONE, [], 1)
    asyncio.run(passive.copy.apply(Copied("A", None)))
    assert (passive.files.scan(), passive.texts.by_hand) == ({}, [])


def test_a_look_that_is_overtaken_by_a_new_text_does_not_give_the_partner_the_old_one_again(
    active: Node, monkeypatch: pytest.MonkeyPatch
):
    active.shared.write("A", ONE)
    look, writers = AppTexts.look, []

    def look_and_wait(texts: AppTexts, scan: Callable[[], dict[str, AppFile]]) -> tuple[dict[str, AppFile], bool]:
        found = look(texts, scan)
        if not writers:
            writers.append(threading.Thread(target=active.shared.write, args=("A", TWO)))
            writers[0].start()
            writers[0].join(0.2)  # it would be done by then, if it did not wait for the look
        return found

    monkeypatch.setattr(AppTexts, "look", look_and_wait)
    active.shared.scan()
    writers[0].join()
    assert active.partner.asked == [Copied("A", ONE), Copied("A", TWO)]
    assert active.texts.shared == {"A": AppFile("A", TWO).mark}
