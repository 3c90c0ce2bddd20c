"""A pair of real nodes with PostgreSQL: one is killed, the other one goes on, and whatever was acknowledged is answered once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nodes import lines
from pairnodes import Pair, PairNode, feed, pair
from servers import databases
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """@App:name('Orders')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (id string, n long);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (id string, n long, total long);
@sink(type='file', file.uri='{pairs}', @map(type='json'))
define stream Pairs (first string, second string);
define table Last (id string, n long);
@info(name='sums') from In select id, n, sum(n) as total insert into Out;
@info(name='pairs') from every a=In[n % 2 == 0] -> b=In[n == a.n + 1] select a.id as first, b.id as second insert into Pairs;
@info(name='last') from In select id, n update or insert into Last on Last.id == id;
"""


@dataclass
class World:
    """A pair with an app that adds up what it gets."""

    pair: Pair
    port: int
    folder: Path
    sent: int = 0
    acknowledged: int = 0

    def text(self) -> str:
        return APP.format(port=self.port, out=self.folder / "out.jsonl", pairs=self.folder / "pairs.jsonl")

    def feed(self, count: int) -> None:
        """Send so many events more, each until it is acknowledged."""
        rows = [{"id": str(n), "n": n} for n in range(self.sent, self.sent + count)]
        self.sent += count
        taken = feed(self.port, rows)
        assert len(taken) == count
        self.acknowledged += count

    def out(self, name: str = "out.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line)["event"] for line in lines(self.folder / name)]

    def answered(self) -> None:
        """Wait until all that was acknowledged is answered; each event is so once, in order, and nothing of the state was lost."""
        self.pair.until(
            lambda: len(self.out()) >= self.acknowledged and len(self.out("pairs.jsonl")) >= self.acknowledged // 2
        )
        totals = [row["total"] for row in self.out()]
        assert [row["n"] for row in self.out()] == list(range(self.acknowledged))
        assert totals == [n * (n + 1) // 2 for n in range(self.acknowledged)]
        seconds = Counter(row["second"] for row in self.out("pairs.jsonl"))
        assert seconds == Counter(str(n) for n in range(1, self.acknowledged, 2))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (port,) = free_ports(1)
    try:
        with databases.postgres() as server, pair(tmp_path, server.jdbc, server.user, server.password) as made:
            yield World(made, port, tmp_path)
    except databases.NotPossible as reason:
        pytest.skip(str(reason))


def runs(node: PairNode) -> bool:
    return node.status("Orders") == "active"


def test_the_partner_goes_on_where_a_node_died_and_the_dead_one_returns_also_with_an_empty_disk(world: World):
    pair = world.pair
    first = pair.active()
    second = pair.other(first)
    pair.in_sync()
    assert second.ask("POST", "/siddhi-apps", content=world.text()).status_code == 201  # the passive one passes it on
    pair.until(lambda: second.status("Orders") == "passive")  # what the partner has it looks at a moment later
    pair.until(lambda: runs(first))
    assert first.ask("POST", "/siddhi-apps", content=world.text()).status_code == 201  # as a script for both nodes does
    world.feed(50)
    world.answered()

    first.kill()
    pair.until(lambda: second.answers("active"))
    assert runs(second)
    world.feed(50)
    world.answered()
    seen = second.seen()
    assert (seen["inSync"], seen["alarms"][0]["condition"]) == (False, "PAIR_ALONE")

    first.start()
    pair.in_sync()
    pair.until(lambda: first.status("Orders") == "passive")
    assert (first.answers("active"), first.answers("passive")) == (False, True)
    statistics = first.ask("GET", "/statistics").json()
    assert (statistics["haStatus"], statistics["clusterID"], statistics["isInSync"]) == ("Passive", "orders", True)
    world.feed(10)

    pair.until(lambda: pair.active().seen()["unready"] == "")
    assert first.ask("POST", "/ha/switch").status_code == 200  # passed on, too
    pair.until(lambda: first.answers("active") and second.answers("passive"))
    pair.in_sync()
    world.feed(40)
    world.answered()

    first.kill()
    first.forget()
    pair.until(lambda: second.answers("active"))
    world.feed(50)
    first.start()
    pair.in_sync()
    assert "differ" not in pair.said()  # what is on its way to a node that comes back is no reason for an alarm
    pair.until(lambda: first.status("Orders") == "passive")
    second.kill()
    pair.until(lambda: first.answers("active"))
    assert runs(first)
    world.feed(50)
    world.answered()
    rows = first.ask("POST", "/siddhi-apps/Orders/query", json={"query": "from Last select count() as n"}).json()
    assert rows["records"] == [[world.acknowledged]]


def test_senders_that_go_on_while_a_node_dies_lose_nothing_that_was_acknowledged(world: World):
    pair = world.pair
    first = pair.active()
    second = pair.other(first)
    pair.in_sync()
    assert first.ask("POST", "/siddhi-apps", content=world.text()).status_code == 201
    pair.until(lambda: runs(first))
    world.feed(5)
    taken: list[dict[str, Any]] = []
    over = threading.Event()

    def send() -> None:
        n = world.sent
        while not over.is_set():
            taken.extend(feed(world.port, [{"id": str(n), "n": n}]))
            n += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        pair.until(lambda: len(taken) > 100)
        first.kill()
        pair.until(lambda: second.answers("active"))
        known = len(taken)
        pair.until(lambda: len(taken) > known + 100)
    finally:
        over.set()
        sender.join()
    wanted = Counter([*(str(n) for n in range(world.sent)), *(row["id"] for row in taken)])
    pair.until(lambda: not wanted - Counter(row["id"] for row in world.out()))
    found = Counter(row["id"] for row in world.out())
    assert set(found.values()) == {1}  # one that was not acknowledged may be there, once
    total = 0
    for row in world.out():
        total += row["n"]
        assert row["total"] == total


def test_a_file_that_somebody_puts_into_the_folder_of_the_passive_node_is_told_and_no_reason_to_run_it(world: World):
    pair = world.pair
    first = pair.active()
    second = pair.other(first)
    pair.in_sync()
    assert first.ask("POST", "/siddhi-apps", content=world.text()).status_code == 201
    pair.until(lambda: second.status("Orders") == "passive")
    foreign = second.home / "deployment/siddhi-files/Foreign.siddhi"
    foreign.write_text("@App:name('Foreign') define stream S (a int);")
    conditions = lambda node: [alarm["condition"] for alarm in node.seen()["alarms"]]  # noqa: E731
    pair.until(lambda: "PAIR_APPS_DIFFER" in conditions(second))
    pair.until(lambda: not first.seen()["inSync"] and "PAIR_ALONE" in conditions(first))
    foreign.unlink()
    pair.in_sync()
    assert conditions(second) == []

    third = first.home / "deployment/siddhi-files/Third.siddhi"  # one of the active node goes to both
    third.write_text("@App:name('Third') define stream S (a int); from S select a insert into T;")
    pair.until(lambda: second.status("Third") == "passive" and first.status("Third") == "active")
    assert second.ask("DELETE", "/siddhi-apps/Third").status_code == 200
    pair.until(lambda: second.ask("GET", "/siddhi-apps/Third").status_code == 404)
    assert not third.exists()
    assert first.seen()["inSync"]


REVISIONS = """
state.persistence: {enabled: true, intervalInMin: 0, persistenceStore: FileSystemPersistenceStore}
"""


def test_a_revision_in_files_outlives_the_disk_of_the_node_that_made_it(tmp_path: Path):
    (port,) = free_ports(1)
    with pair(tmp_path, extra=REVISIONS) as made:
        world = World(made, port, tmp_path)
        first = made.active()
        second = made.other(first)
        made.in_sync()
        assert first.ask("POST", "/siddhi-apps", content=world.text()).status_code == 201
        made.until(lambda: runs(first))
        world.feed(20)
        world.answered()
        answer = second.ask("POST", "/siddhi-apps/Orders/backup")  # passed on
        assert answer.status_code == 201
        revision = answer.json()["revision"]
        listed = lambda node: [found["revision"] for found in node.ask("GET", "/siddhi-apps/Orders/revisions").json()]  # noqa: E731
        made.until(lambda: listed(first) == [revision])

        first.kill()
        first.forget()
        made.until(lambda: second.answers("active"))
        made.until(lambda: runs(second))
        assert listed(second) == [revision]
        world.feed(10)
        world.answered()
        restored = second.ask("POST", f"/siddhi-apps/Orders/restore?revision={revision}")
        assert (restored.status_code, revision in restored.text) == (200, True)
        made.until(lambda: runs(second))
        first.start()
        made.in_sync()
        files = [revision_files(node) for node in (first, second)]
        assert files[0] == files[1] != []


def revision_files(node: PairNode) -> list[str]:
    """All files of revisions that a node has."""
    found = (node.home / "pair/state/~revisions").rglob("*")
    return sorted(path.name for path in found if path.is_file() and path.name != ".lock")
