"""On a standalone cluster whose machines have no folder in common, with the state log in an object store 50 ms away (rules.md#p7, rules.md#p9)."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from servers.sparkcluster import EXECUTOR, HOST, SECRET, Cluster, cluster, object_store

from nadi.errors import NadiError
from nadi.pipeline.live import read_live
from nadi.pipeline.ondemand import ask

# after servers.sparkcluster, which knows where they are
from nodes import Node, lines, nadi, running  # isort: skip
from sums import APP, Given, expected, made, per_key  # isort: skip

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka broker."""
    path = Path(__file__).parents[2] / "examples" / "kafka" / "broker.py"
    spec = importlib.util.spec_from_file_location("cluster_broker", path)
    assert spec is not None
    assert spec.loader is not None
    broker = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = broker  # dataclasses look for it there
    spec.loader.exec_module(broker)
    try:
        run = broker.start(tmp_path_factory.mktemp("kafka"))
    except broker.NotPossible as reason:
        pytest.skip(str(reason))
    yield run.address
    run.stop()


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    with object_store(tmp_path) as url:
        yield url


def topics(address: str, *names: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    wanted = [NewTopic(name, num_partitions=2, config=config) for name in names]
    for made_one in admin.create_topics(wanted).values():
        made_one.result(60)


def send(address: str, topic: str, given: list[Given]) -> None:
    """Events of a key go into one partition: its order is theirs."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    for k, request, n in given:
        value = json.dumps({"event": {"k": k, "request": request, "n": n}})
        producer.produce(topic, value, k)
    producer.flush(30)


class Heard:
    """What a topic has for a reader that reads committed messages only."""

    def __init__(self, address: str, topic: str) -> None:
        settings = {"bootstrap.servers": address, "group.id": f"look-{topic}", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> Heard:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def look(self) -> int:
        """How many there are by now."""
        while (message := self._consumer.poll(0.05)) is not None:
            if message.error() is None:
                self.rows.append(json.loads(message.value())["event"])
        return len(self.rows)


def node_on(cluster: Cluster, app: Path, state: Path, store: str, **conf: object) -> Any:
    settings = {
        "state.url": store,
        "batch.interval": 200,
        "hosts": 1,
        "spark.driver.host": "127.0.0.1",
        "spark.authenticate.secret.file": cluster.secret,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.executor.cores": 2,
    }
    return running(app, state=state, conf={**settings, **conf}, master=cluster.master, **SECRET)


def written(folder: Path, address: str, source: str, target: str) -> Path:
    path = folder / "sums.siddhi"
    own = f"type = 'kafka', bootstrap.servers = '{address}'"
    inputs = f"{own}, topic.list = '{source}', group.id = 'sums'"
    path.write_text(APP.format(source=inputs, sink=f"{own}, topic = '{target}', key = '{{{{k}}}}'", every=1))
    return path


def stop(node: Node) -> None:
    node.signal(signal.SIGINT)
    assert node.wait() == 0, node.said()


@pytest.mark.parametrize(
    ("buckets", "lives"),
    [pytest.param(1, 1, id="one stage"), pytest.param(3, 2, id="two stages, two lives")],
)
def test_the_output_is_exact_though_executors_and_hosts_are_killed_that_share_no_folder(
    buckets: int, lives: int, kafka: str, spark_cluster: Cluster, store: str, tmp_path: Path
):
    source, target = f"in-{buckets}", f"out-{buckets}"
    topics(kafka, source, target)
    app, given, sent = written(tmp_path, kafka, source, target), made(lives * 2_500), 0

    def send_more() -> None:
        nonlocal sent
        send(kafka, source, given[sent : sent + 500])
        sent += 500

    with Heard(kafka, target) as heard:
        for _ in range(lives):
            with node_on(spark_cluster, app, tmp_path / "state", store, buckets=buckets) as node:
                send_more()
                node.until(lambda: heard.look() == sent)
                for name in (HOST, EXECUTOR):
                    send_more()
                    node.until(lambda: under_way(node))
                    spark_cluster.kill(name)
                    send_more()
                    node.until(lambda: heard.look() == sent)
                stop(node)
        assert heard.look() == sent == len(given)
    assert per_key(heard.rows) == expected(given)
    assert not (tmp_path / "state" / "Sums" / "log").exists()
    told = [path.read_text(errors="replace") for path in (tmp_path / "state" / "logs").iterdir() if path.is_file()]
    assert not any(SECRET["AWS_SECRET_ACCESS_KEY"] in text for text in (*told, node.said()))


def under_way(node: Node) -> bool:
    """Whether a cut has been made that is not committed."""
    made_last = node.cuts("Sums")[-1]["n"]
    return made_last > node.progress("Sums").get("n", 0)


ODD = """@app:name('Odd')
@source({own}, topic.list = 'odd-in', group.id = 'odd', @map(type = 'json'))
define stream In (k string, text string);
@sink({own}, topic = 'odd-out', key = '{{{{k}}}}', on.error = 'STREAM', @map(type = 'json')) @OnError(action = 'STREAM')
define stream Out (k string, text string, seen long);
@sink({own}, topic = 'odd-refused', @map(type = 'json')) define stream Refused (k string, seen long);
@sink({own}, topic = 'odd-known', @map(type = 'json')) define stream Known (k string);
define table Names (k string);
from In select k, text, count() as seen insert into Out;
from !Out select k, seen insert into Refused;
from In join Names on In.k == Names.k select In.k as k insert into Known;"""


def test_errors_faults_changes_and_a_restore_need_no_folder_in_common(
    kafka: str, spark_cluster: Cluster, store: str, tmp_path: Path
):
    app, state = tmp_path / "odd.siddhi", tmp_path / "state"
    app.write_text(ODD.format(own=f"type = 'kafka', bootstrap.servers = '{kafka}'"))
    topics(kafka, "odd-in", "odd-refused", "odd-known")
    topics(kafka, "odd-out", **{"max.message.bytes": "2000"})
    producer = Producer({"bootstrap.servers": kafka})

    def send_odd(k: str) -> None:
        events = [{"k": k, "text": "short"}, {"k": k, "text": "x" * 3_000}, {"k": k, "text": "short"}]
        for value in (*(json.dumps({"event": event}) for event in events), "spoiled"):
            producer.produce("odd-in", value, k)
        producer.flush(30)

    def errors() -> list[dict[str, Any]]:
        return [json.loads(line) for line in lines(state / "Odd" / "errors.jsonl")]

    with Heard(kafka, "odd-out") as out, Heard(kafka, "odd-refused") as refused, Heard(kafka, "odd-known") as known:

        def there(rounds: int, met: int) -> bool:
            found = (out.look(), refused.look(), known.look(), len(errors()))
            return found == (2 * rounds, rounds, 3 * met, rounds)

        with node_on(spark_cluster, app, state, store) as node:
            send_odd("a")
            node.until(lambda: there(1, 0))
            live = read_live(state / "Odd")
            assert live is not None
            ask(live, "select 'a' as k insert into Names;", within=60)
            with pytest.raises(NadiError, match="QUERY_ON_CLUSTER"):
                ask(live, "from Names select k;")
            spark_cluster.kill(EXECUTOR)
            send_odd("a")
            node.until(lambda: there(2, 1))
            made_one = nadi("revision", "create", "Odd", "--state-dir", state)
            assert made_one.returncode == 0, made_one.stderr
            send_odd("a")
            node.until(lambda: there(3, 2))
            stop(node)
        back = nadi("restore", app, "--state-dir", state, "--conf", f"nadi.state.url={store}")
        assert back.returncode == 0, back.stdout + back.stderr
        with node_on(spark_cluster, app, state, store) as node:
            send_odd("a")  # behind what is taken again, and known
            node.until(lambda: there(4, 3))
            stop(node)
        assert [row["seen"] for row in out.rows] == [1, 3, 4, 6, 7, 9, 10, 12]
        assert [row["seen"] for row in refused.rows] == [2, 5, 8, 11]
    assert [row["payload"] for row in errors()] == ["spoiled"] * 4
