"""On-demand queries at a manager: what comes back is what the whole app, in one process, would answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from restcluster import EVE, FakeNode, RestCluster, rest_cluster
from server_build import waits

from nadi.cli.main import cli
from nadi.io.natsserver import NatsServer
from nadi.lang import parse_on_demand
from nadi.pipeline.ondemand import Found
from nadi.plan import bind_on_demand
from nadi.server.deployer import ACTIVE, AppStatus
from nadi.server.rest import siddhiapps
from nadi.testing.app import AppUnderTest

SHOP = """@App:name('Shop')
@source(type='http', receiver.url='http://127.0.0.1:8899/in', @map(type='json'))
define stream Orders (customer string, amount double);
define stream Other (customer string);
@primaryKey('customer') define table Owners (customer string, owner string);
define table Marks (customer string);
define table Sales (customer string, amount double);
define window Last (customer string, amount double) length(100);
define table Lonely (a int);
define aggregation Daily from Orders select customer, sum(amount) as total group by customer aggregate every hours...days;

@dist(execGroup='owners') from Orders select customer, 'nobody' as owner insert into Owners;
@dist(execGroup='owners') from Orders[(Marks.customer == Orders.customer) in Marks] select customer insert into Other;
@dist(execGroup='last') from Orders insert into Last;
@dist(execGroup='sales') from Orders[amount < 0.0] insert into Sales;
@dist(execGroup='wide', parallel='2') from Orders[amount > 100.0] select customer insert into Large;
"""
ORDERS = [("ada", 5.0), ("bob", 2.5), ("ada", 1.0), ("eve", 8.0), ("bob", 2.5)]
INSERTS = (
    *(f"select '{who}' as customer, {amount} as amount insert into Sales" for who, amount in ORDERS),
    "update Owners set Owners.owner = 'cem' on Owners.customer == 'ada'",
    "update Owners set Owners.owner = 'cem' on Owners.customer == 'bob'",
    "select 'ada' as customer insert into Marks",
)


@dataclass
class InstanceApps:
    """The instances of a worker, each as an app in this process: what REST asks of them."""

    node: FakeNode
    apps: dict[str, AppUnderTest] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def of(self, name: str) -> AppUnderTest:
        if name not in self.apps:
            self.apps[name] = AppUnderTest(str(self.node.running[name].text))
        return self.apps[name]

    def status(self, name: str) -> AppStatus | None:
        return AppStatus(name, "", ACTIVE) if name in self.node.running else None

    def is_active(self, name: str) -> bool:
        return name in self.node.running

    def ask(self, name: str, query: str) -> Found | None:
        self.asked.append((name, query))
        runtime = self.of(name).runtime
        question = bind_on_demand(parse_on_demand(query), runtime.app, runtime.registry, text=query)
        rows = [event.row for event in runtime.query(query) or ()]
        if question.kind != "find":
            return None
        stores: dict[str, Any] = {**runtime.app.tables, **runtime.app.windows, **runtime.app.aggregations}
        schema = question.selection.schema if question.selection.values else stores[question.store].schema
        return Found(schema.names, rows, tuple(kind.value for kind in schema.types))


@dataclass
class Shop:
    """The app on a cluster, and the same in one process."""

    cluster: RestCluster
    workers: list[InstanceApps]
    whole: AppUnderTest

    def ask(self, query: str, **given: Any) -> Any:
        return self.cluster.ask("POST", "/siddhi-apps/Shop/query", json={"query": query, **given})

    def records(self, query: str) -> list[list[Any]]:
        answer = self.ask(query)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["records"])

    def both(self, query: str) -> None:
        """A change, here and there."""
        assert self.records(query) == []
        self.whole.query(query)

    def asked(self) -> list[str]:
        """The instances that were asked since the last call."""
        found = [name for worker in self.workers for name, _query in worker.asked]
        for worker in self.workers:
            worker.asked.clear()
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """That of all tests but one."""
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@contextmanager
def opened(folder: Path) -> Iterator[Shop]:
    with NatsServer(folder / "nats") as nats, rest_cluster(folder, nats=nats.url) as cluster:
        workers: list[InstanceApps] = []

        def more(node: FakeNode) -> APIRouter:
            workers.append(InstanceApps(node))
            return siddhiapps.routes(workers[-1])  # type: ignore[arg-type]

        for name in ("w1", "w2"):
            cluster.join(name, more)
        cluster.deploy(SHOP)
        made = Shop(cluster, workers, AppUnderTest(SHOP))
        made.whole.send("Orders", [list(row) for row in ORDERS])
        for worker in workers:
            for name in worker.node.running:
                app = worker.of(name)
                if "Orders" in app.runtime.app.streams and "passthrough" not in name:
                    app.send("Orders", [list(row) for row in ORDERS])
        for query in INSERTS:
            made.both(query)
        yield made
        cluster.undeploy()


@pytest.mark.parametrize(
    "query",
    [
        "from Owners select customer, owner order by customer",
        "from Owners on Owners.owner == 'cem' select count() as n",
        "from Owners select owner, count() as n group by owner having n > 1",
        "from Sales select sum(amount) as total, count() as n, avg(amount) as mean, max(amount) as most",
        "from Sales select customer, sum(amount) as total group by customer order by total desc",
        "from Sales select customer, sum(amount) as total group by customer having total > 5.0",
        "from Sales select customer, amount order by amount, customer limit 2 offset 1",
        "from Sales select distinctCount(customer) as people",
        "from Sales on amount > 2.0 select customer, amount order by amount desc, customer limit 3",
        "from Last select sum(amount) as total, count() as n",
        "from Last as L on L.customer == 'bob' select L.customer as customer, sum(L.amount) as total group by L.customer",
        "from Daily within 0L, 10000000000L per 'days' select customer, total order by customer",
    ],
)
def test_an_answer_is_that_of_the_whole_app(shop: Shop, query: str):
    assert shop.records(query) == [list(row) for row in shop.whole.query(query)]
    assert shop.records(query), "there is something to compare"


def test_one_instance_answers_the_one_that_has_what_is_asked_for(shop: Shop):
    shop.asked()
    shop.records("from Owners select *")
    assert shop.asked() == ["Shop-owners-1"]
    shop.records("from Last select *")
    assert shop.asked() == ["Shop-last-1"]
    shop.records("from Daily within '2000-**-** **:**:**' per 'days' select *")
    assert [name.startswith("Shop_aggregation") for name in shop.asked()] == [True]


def test_a_change_of_a_table_in_memory_goes_to_the_instance_that_has_it(shop: Shop):
    shop.asked()
    shop.records("select 'gil' as customer, 'fay' as owner insert into Owners")
    assert shop.records("from Owners on customer == 'gil' select owner") == [["fay"]]
    shop.records("delete Owners on Owners.customer == 'gil'")
    assert shop.records("from Owners on customer == 'gil' select owner") == []
    assert set(shop.asked()) == {"Shop-owners-1"}


def test_details_name_the_columns_and_their_types(shop: Shop):
    answer = shop.ask("from Sales select customer, count() as n group by customer", details=True).json()
    assert answer["details"] == [{"name": "customer", "dataType": "STRING"}, {"name": "n", "dataType": "LONG"}]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("from Owners select", "SYNTAX"),
        ("from Nothing select a", "INVALID_ON_DEMAND_QUERY"),
        ("from Owners select amount", "INVALID_ON_DEMAND_QUERY"),
        ("from Lonely select a", "CLUSTER_QUERY_REFUSED"),  # no query reads or writes it: no instance has it
    ],
)
def test_what_cannot_be_answered_rightly_is_refused_with_the_reason(shop: Shop, query: str, reason: str):
    shop.asked()
    answer = shop.ask(query)
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Cannot query: ")
    assert reason in answer.json()["message"]
    assert shop.asked() == []


def test_the_path_of_the_contract_answers_too_and_to_every_user(shop: Shop):
    body = {"appName": "Shop", "query": "from Owners select count() as n"}
    for who in (("ada", "right"), EVE):
        answer = shop.cluster.ask("POST", "/stores/query", json=body, auth=who)
        assert answer.json() == {"records": [[3]]}
    assert shop.cluster.ask("POST", "/stores/query", json={**body, "appName": "No"}).status_code == 404


def test_the_command_asks_a_manager(shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NADI_USER", "ada")
    monkeypatch.setenv("NADI_PASSWORD", "right")

    def said(query: str, *words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli(["query", "Shop", query, "--url", shop.cluster.url, *words], standalone_mode=True)
        assert ended.value.code == 0
        return "\n".join(
            line for line in capsys.readouterr().out.splitlines() if " [debug" not in line and " [info" not in line
        )

    rows = "from Sales select customer, sum(amount) as total group by customer order by customer limit 1"
    assert said(rows, "--json") == '[{"customer": "ada", "total": 6.0}]'
    assert said(rows) == "customer\ttotal\nada\t6.0"
    assert said("select 'zoe' as customer insert into Marks") == "done"
    assert said("delete Marks on Marks.customer == 'zoe'") == "done"


def test_an_instance_that_does_not_run_is_said_and_others_of_the_app_answer(tmp_path: Path):
    with opened(tmp_path) as shop:  # what the instance has in memory goes with it
        workers = shop.cluster.workers.values()
        (holder,) = (worker for worker in workers if "Shop-last-1" in worker.node.running)
        for worker in workers:
            worker.node.fails = "there is no room"
        holder.crash("Shop-last-1", "it fell over")
        waits(lambda: shop.cluster.ask("GET", "/siddhi-apps/Shop/details").json()["status"] == "inactive")
        answer = shop.ask("from Last select *")
        assert answer.status_code == 500
        assert "INSTANCE_NOT_ANSWERING" in answer.json()["message"]
        assert shop.records("from Owners select count() as n") == [[3]]
