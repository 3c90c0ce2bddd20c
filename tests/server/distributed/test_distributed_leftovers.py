"""What an app leaves goes when it is undeployed: at one node, and at both of a pair."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from eventsync.pair_recording import Recorder, recorder_in

from nadi.eventsync.contract import Copy
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.logscopy import LogsCopy
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.io.appnotes import AppNotes
from nadi.io.jetstream import get
from nadi.io.journal import open_journal
from nadi.io.journalmessages import stream_name, subject
from nadi.io.natsclient import api, shared
from nadi.io.natsserver import NatsServer
from nadi.io.remotefiles import inside
from nadi.pipeline.statelog.stores import open_store
from nadi.replica.address import with_replica
from nadi.replica.contract import ObjectPut, Record
from nadi.server.distributed.leftovers import Leftovers


def services(folder: Path, server: NatsServer, copied_by: Recorder | None) -> Leftovers:
    urls = f"sqlite:///{folder}/logs.db", f"file://{folder}/state", server.url
    cuts, state, journal = (with_replica(url, copied_by.socket) if copied_by else url for url in urls)
    return Leftovers(cuts, state, journal)


def left(folder: Path, server: NatsServer, app: str) -> tuple[int, list[str], bool]:
    """Notes, objects, and whether there is a journal."""
    with closing(sqlite3.connect(folder / "logs.db")) as connection:
        notes = connection.execute("select count(*) from nadi_notes where app = ?", (app,)).fetchone()[0]
    objects = [path.name for path in (folder / "state" / app).rglob("*") if path.is_file()]
    journal = shared(server.url).call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(app)}"))
    return notes, objects, bool(journal)


def lives(found: Leftovers, app: str) -> None:
    notes = AppNotes(found.cuts, app)
    notes.once("a", lambda: 1)
    open_journal(found.journal, app).append(0, [(1, b"x", {})])
    open_store(inside(found.state, app, "log")).put("d-1", [b"abc"])


@pytest.mark.parametrize("copied", [False, True], ids=["alone", "in a pair"])
def test_what_an_app_leaves_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool):
    recorder = recorder_in(monkeypatch)
    one, two = tmp_path / "one", tmp_path / "two"
    with NatsServer(one / "journal") as mine, NatsServer(two / "journal") as theirs:
        found = services(one, mine, recorder if copied else None)
        for app in ("A", "B"):
            lives(found, app)
        found.remove(["A", "C"])  # there never was a C
        assert left(one, mine, "A") == (0, [], False)
        assert left(one, mine, "B") == (1, ["d-1"], True)
        copies: tuple[Copy, ...] = (JournalCopy(theirs.url), LogsCopy(two / "logs.db"), ObjectsCopy(two / "state"))
        asyncio.run(_applied(recorder.done(), copies))
        if copied:
            assert left(two, theirs, "A") == (0, [], False)
            assert left(two, theirs, "B") == (1, ["d-1"], True)
            message = shared(theirs.url).call(lambda nc: get(nc, stream_name("B"), {"last_by_subj": subject("B", 0)}))
            assert message is not None
        else:
            assert recorder.records == []


async def _applied(records: list[Record], copies: tuple[Copy, ...]) -> None:
    objects = copies[2]
    assert isinstance(objects, ObjectsCopy)
    for record in records:
        if isinstance(record, ObjectPut):  # its bytes come beside the records
            made = objects.receive(record.path, record.length)
            made.write(b"abc")
            made.done()
        await next(copy for copy in copies if isinstance(record, copy.kinds)).apply(record)
