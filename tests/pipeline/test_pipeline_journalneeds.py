"""What the revisions of an app hold of its journal: events after the oldest one, and everything while the store does not tell."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import pytest

from nadi.config import Persistence
from nadi.io.journalholds import removable
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import Meta, delete_revision, write_revision
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.revision.journalneeds import JournalNeeds
from nadi.pipeline.revision.revisions import Keeping
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A')
@source(type='file', dir.uri='in', @map(type='json')) define stream F (n int);
@source(type='http', receiver.url='http://127.0.0.1:1/h', @map(type='json')) define stream H (n int);
from H select n insert into Out;
"""
HTTP, MANY = 1, 1_000_000


class Rig:
    """An app with its cut log, the store of its revisions, and who holds its journal."""

    def __init__(self, folder: Path) -> None:
        self.url = f"nats://{uuid4().hex}"
        self.spec = AppSpec("A", TEXT, str(folder / "state" / "A"), journal=self.url)
        self.place = folder / "revisions"
        self.store = FileStore(self.place)
        self.keeping = Keeping(Persistence(enabled=True, location=str(self.place)), folder)
        self.needs = JournalNeeds(self.spec, self.keeping, threading.Event())
        cuts = CutLog(self.spec.place.state / "cuts", take_over(self.spec.place.state / "cuts"))
        for n in range(10):
            cuts.append(self.cut(n))

    def cut(self, n: int) -> Cut:
        return Cut(n, 1, n, 0, {(0, 0): 7 * n, (HTTP, 0): 100 * n})

    def revision(self, n: int, cut: Cut | None = None) -> str:
        offset = (cut or self.cut(n)).to_offset()
        return write_revision(self.store, Meta("A", TEXT, offset, n, {}, {"state": "2"}), [[]], n)

    def learn(self) -> bool:
        return self.needs.learn()

    @property
    def gone(self) -> int:
        """Up to where the journal may be trimmed of a million events."""
        return removable(self.url, "A", HTTP, MANY)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_the_oldest_revision_holds_what_came_after_the_cut_before_it(rig: Rig) -> None:
    assert rig.learn()
    assert rig.gone == MANY, "where there is no revision, age alone counts"
    first = rig.revision(4)
    rig.revision(8)
    assert rig.learn()
    assert rig.gone == 300
    delete_revision(rig.store, "A", first)
    assert rig.learn()
    assert rig.gone == 700


def test_a_revision_whose_cut_is_not_in_the_log_any_more_holds_what_came_after_it(rig: Rig) -> None:
    rig.revision(90, rig.cut(90))
    assert rig.learn()
    assert rig.gone == 9000


def test_a_store_that_does_not_tell_changes_nothing(rig: Rig) -> None:
    rig.revision(4)
    assert rig.learn()
    rig.revision(8)
    (rig.place / "A").chmod(0o777)  # others may write to it: it is not read
    assert (rig.learn(), rig.gone) == (False, 300)


def test_a_revision_that_cannot_be_read_holds_nothing(rig: Rig) -> None:
    rig.revision(8)
    (rig.place / "A" / "9__A").write_bytes(b"no manifest")
    assert rig.learn()
    assert rig.gone == 700


def test_an_app_whose_revisions_are_not_known_yet_holds_everything(rig: Rig) -> None:
    over = threading.Event()
    over.set()  # so that nobody asks the store
    JournalNeeds(rig.spec, rig.keeping, over).begin()
    assert rig.gone == 0


def test_an_app_without_revisions_holds_nothing(rig: Rig) -> None:
    over = threading.Event()
    over.set()
    JournalNeeds(rig.spec, Keeping(Persistence(), rig.place), over).begin()
    assert rig.gone == MANY
