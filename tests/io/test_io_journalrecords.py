"""The control log and the fault log of an app that another node may go on with: in the journal, where it finds them."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from log_contract import check_log, payloads

from nadi.errors import NadiError
from nadi.io import faultlog
from nadi.io.controllog import Again, ControlMapper, Record, Simulated
from nadi.io.faultlog import Fault
from nadi.io.journal import open_journal
from nadi.io.journalrecords import ControlJournal, FaultJournal
from nadi.io.natsserver import NatsServer


@pytest.fixture
def app() -> str:
    return f"App {uuid4().hex[:8]}"


def records(control: ControlJournal) -> list[Record]:
    return [msgspec.json.decode(bytes(p), type=Record) for p in payloads(control.open())]


def test_a_change_that_was_acknowledged_is_there_for_a_node_that_has_nothing_else(nats: NatsServer, app: str) -> None:
    dead = ControlJournal(nats.url, app)
    assert dead.append("c1", "delete Stock") == 0
    assert dead.append_simulated([Simulated("S", [1], [["a"]]), Simulated("S", [2], [["b"]])]) == 2
    heir = ControlJournal(nats.url, app)
    assert heir.append("c2", "update Stock") == 3
    assert [r.id for r in records(heir)] == ["c1", "simulated", "simulated", "c2"]
    log = heir.open()
    check_log(log)
    (messages,) = log.read(0, 3, 4)
    assert ControlMapper().decode(messages).batch.to_pylist() == [{"id": "c2", "query": "update Stock"}]
    log.acknowledge(0, 4)
    assert (log.retention(), log.oldest(0)) == (None, 0)


def test_what_is_sent_again_is_marked_for_all_nodes(nats: NatsServer, app: str) -> None:
    dead, heir = ControlJournal(nats.url, app), ControlJournal(nats.url, app)
    one, two = Again("1-0-0", "query", "S"), Again("2-0-0", "query", "S")
    assert heir.sent_again() == {}
    assert dead.append_again([one]).last == 0
    with pytest.raises(NadiError) as failure:
        heir.append_again([one, two])
    assert failure.value.condition == "ERROR_REPLAYED"
    found = heir.append_again([one, two], skip=True, now=9)
    assert (found.last, found.before) == (1, ("1-0-0",))
    assert heir.append_again([one], skip=True).last is None
    assert heir.append_again([one], repeat=True).last == 2
    assert heir.sent_again()["2-0-0"] == 9


def test_of_two_that_send_the_same_again_at_the_same_time_one_does(nats: NatsServer, app: str) -> None:
    wanted = [Again(f"{n}-0-0", "query", "S") for n in range(12)]

    def send(control: ControlJournal) -> None:
        for again in wanted:
            control.append_again([again], skip=True)

    threads = [threading.Thread(target=send, args=(ControlJournal(nats.url, app),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter(record.id for record in records(ControlJournal(nats.url, app)))
    assert found == Counter(f"again-{again.error}" for again in wanted)


def test_who_waits_hears_of_a_change_that_another_process_has_noted(nats: NatsServer, app: str) -> None:
    log, rung = ControlJournal(nats.url, app).open(), threading.Event()
    log.wake(rung.set)
    assert log.end(0) == 0
    other = open_journal(
        nats.url.replace("127.0.0.1", "localhost"), app
    )  # as if it were another one: with another connection
    other.append("control", [(1, b"{}", {})])
    while log.end(0) == 0:  # it may be told for no reason as well: of the connection, say
        assert rung.wait(60)
        rung.clear()
    log.close()


def fault(cut: int, number: int) -> Fault:
    return Fault(cut, "Out", 0, cut, 0, 0, number, "no", [(cut, [number])])


def numbers(log: FaultJournal) -> list[int]:
    return [msgspec.json.decode(bytes(p), type=Fault).number for p in payloads(log.open())]


def test_a_cut_of_faults_is_there_once_whoever_commits_it_how_often(
    nats: NatsServer, app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.io.journalrecords.AT_ONCE", 2)
    nodes = [FaultJournal(tmp_path / name, nats.url, app) for name in ("dead", "heir")]
    for name in ("dead", "heir"):  # both have the cut that the first one has begun
        faultlog.stage(tmp_path / name, 3, 1, [fault(3, n) for n in (2, 3, 4)])
        faultlog.stage(tmp_path / name, 3, 0, [fault(3, n) for n in (0, 1)])
    nodes[0].commit(3, [1, 0])
    nodes[1].commit(3, [1, 0])
    faultlog.stage(tmp_path / "heir", 5, 0, [fault(5, 5)])
    nodes[1].commit(5, [0])
    nodes[1].commit(6, [])
    assert numbers(nodes[1]) == [0, 1, 2, 3, 4, 5]
    faultlog.stage(tmp_path / "dead", 3, 0, [fault(3, n) for n in (0, 1)])
    nodes[0].commit(3, [0])  # a sleeper that wakes up
    assert numbers(nodes[0]) == [0, 1, 2, 3, 4, 5]
    assert not list((tmp_path / "heir" / "faults" / "stage").iterdir())


def test_half_a_cut_of_faults_is_completed(
    nats: NatsServer, app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.io.journalrecords.AT_ONCE", 2)
    faultlog.stage(tmp_path, 3, 0, [fault(3, n) for n in range(5)])
    log, appended = FaultJournal(tmp_path, nats.url, app), []
    whole = log._append

    def dying(place: tuple[int, int], part: list[bytes]) -> bool:
        if len(appended) == 2:
            raise KeyboardInterrupt
        appended.append(place)
        return whole(place, part)

    monkeypatch.setattr(log, "_append", dying)
    with pytest.raises(KeyboardInterrupt):
        log.commit(3, [0])
    assert numbers(log) == [0, 1, 2, 3]
    FaultJournal(tmp_path, nats.url, app).commit(3, [0])
    assert numbers(log) == [0, 1, 2, 3, 4]
