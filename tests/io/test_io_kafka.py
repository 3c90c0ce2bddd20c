from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from eventually import eventually
from log_contract import check_log, contents, payloads
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import kafkalibrary
from nadi.io.contract import Log, Place, Sink, TimedLog
from nadi.io.registry import open_log, open_sink
from nadi.io.retention import Kept, Retention
from nadi.io.retry import unavailable

pytestmark = pytest.mark.slow


@pytest.fixture(params=["objects", "loops"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How messages are read and written: the results are the same."""
    if request.param == "objects":
        monkeypatch.setattr(kafkalibrary, "library", lambda: None)
    elif kafkalibrary.library() is None:
        pytest.skip("loops are not compiled, or librdkafka is not where it is looked for")
    monkeypatch.setattr(kafkalibrary, "WORTH", 0)
    return str(request.param)


@cache
def admin(servers: str) -> AdminClient:
    """A client that lives as long as the answers it owes."""
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def topic(servers: str, partitions: int = 1) -> str:
    name = f"t{uuid4().hex[:8]}"
    (made,) = admin(servers).create_topics([NewTopic(name, partitions)]).values()
    made.result()
    return name


def fill(servers: str, name: str, texts: Sequence[str], partition: int = 0, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for text in texts:
        producer.produce(name, text, partition=partition, **more)
    assert producer.flush(10) == 0


def source(servers: str, topics: str, **options: str) -> Log:
    given = {"topic.list": topics, "bootstrap.servers": servers, **{k.replace("_", "."): v for k, v in options.items()}}
    return open_log(connector("kafka", given), Place("App", Path("/nowhere")))


def sink(servers: str, name: str, state: Path, **options: str) -> Sink:
    return open_sink(connector("kafka", {"topic": name, "bootstrap.servers": servers, **options}), Place("App", state))


def stored(servers: str, name: str, partition: int = 0) -> list[str]:
    log = source(servers, name)
    try:
        return [p.decode() for p in payloads(log, partition) if isinstance(p, bytes)]
    finally:
        log.close()


# ---- source --------------------------------------------------------------------------------------------------------


def test_messages_are_read_with_their_offsets_as_positions(kafka: str) -> None:
    name = topic(kafka)
    fill(kafka, name, ["a", "b", "c"], timestamp=1234)
    log = source(kafka, name)
    assert contents(log) == [(0, 1234, b"a"), (1, 1234, b"b"), (2, 1234, b"c")]
    assert [p for p, _, _ in contents(source(kafka, name, topic_offsets_map=f"{name}=2"))] == [2]
    assert payloads(source(kafka, name, start_position="end")) == []
    assert len(payloads(source(kafka, name, start_position="time:1234"))) == 3
    assert payloads(source(kafka, name, start_position="time:1235")) == []
    log.close()


@pytest.mark.parametrize("after", [1, 2])
def test_a_message_that_comes_while_somebody_asks_for_a_start_time_is_not_passed_over(
    kafka: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(kafka)
    log, asks, asked = source(kafka, name, start_position="time:1234"), AdminClient.list_offsets, []

    def overtaken(client: AdminClient, *given: Any, **more: Any) -> Any:
        found = asks(client, *given, **more)
        for future in found.values():
            future.result(60)
        asked.append(given)
        if len(asked) == after:
            fill(kafka, name, ["a"], timestamp=1234)
        return found

    monkeypatch.setattr(AdminClient, "list_offsets", overtaken)
    assert log.beginning(0) == 0
    assert len(asked) == 2
    log.close()


def test_a_topic_tells_its_oldest_message_and_how_long_it_keeps_them(kafka: str) -> None:
    name, endless, compacted = (f"t{uuid4().hex[:8]}" for _ in range(3))
    configs = ({"retention.ms": "7200000"}, {"retention.ms": "-1"}, {"cleanup.policy": "compact"})
    topics = [NewTopic(t, 1, config=c) for t, c in zip((name, endless, compacted), configs, strict=True)]
    for made in admin(kafka).create_topics(topics).values():
        made.result()
    fill(kafka, name, ["a", "b", "c"])
    log = source(kafka, f"{endless},{name},{compacted}")
    assert isinstance(log, Kept)
    assert log.retention() == Retention(f"topic {name}", f"retention.ms of {name}", 7_200_000)
    assert log.oldest(1) == 0
    (gone,) = admin(kafka).delete_records([TopicPartition(name, 0, 2)]).values()
    gone.result()
    assert [log.oldest(p) for p in range(3)] == [0, 2, 0]
    log.close()
    forever = source(kafka, f"{endless},{compacted}")
    assert isinstance(forever, Kept)
    assert forever.retention() is None
    forever.close()


def test_a_topic_keeps_the_rules_of_a_log(kafka: str) -> None:
    name = topic(kafka, 3)
    for partition, count in enumerate((40, 0, 7)):
        fill(kafka, name, [f"{partition}/{n}" for n in range(count)], partition)
    log = source(kafka, name)
    assert log.partitions() == 3
    check_log(log)
    log.close()


def test_a_topic_tells_when_messages_came_without_reading_them(kafka: str) -> None:
    name = topic(kafka, 2)
    for time in (10, 10, 20, 40):
        fill(kafka, name, ["x"], 0, timestamp=time)
    log = source(kafka, name)
    assert isinstance(log, TimedLog)
    assert [log.time_at(0, position, 4) for position in (0, 2, 1, 3, 4)] == [10, 20, 10, 40, None]
    assert [log.later_than(0, time) for time in (0, 10, 19, 20, 40)] == [0, 2, 2, 3, None]
    assert log.time_at(1, 0, 0) is None
    assert log.later_than(1, 0) is None
    log.close()


def test_partitions_keep_their_numbers_when_a_topic_gets_more(kafka: str) -> None:
    small, large = topic(kafka, 1), topic(kafka, 2)
    fill(kafka, small, ["small 0"], 0)
    for n in range(2):
        fill(kafka, large, [f"large {n}"], n)

    def all_payloads() -> list[list[object]]:
        log = source(kafka, f"{small}, {large}")
        found = [payloads(log, n) for n in range(log.partitions())]
        log.close()
        return found

    assert all_payloads() == [[b"small 0"], [b"large 0"], [], [b"large 1"]]
    (grown,) = admin(kafka).create_partitions([NewPartitions(small, 2)]).values()
    grown.result()
    fill(kafka, small, ["small 1"], 1)
    assert all_payloads() == [[b"small 0"], [b"large 0"], [b"small 1"], [b"large 1"]]


def test_only_the_partitions_that_are_named_are_read(kafka: str) -> None:
    name = topic(kafka, 3)
    for n in range(3):
        fill(kafka, name, [str(n)], n)
    log = source(kafka, name, partition_no_list="2,0")
    assert [payloads(log, n) for n in range(log.partitions())] == [[b"2"], [b"0"]]
    log.close()


def test_an_open_transaction_is_not_read_and_an_aborted_one_never(kafka: str) -> None:
    name = topic(kafka)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, "lost")
    producer.flush()
    log = source(kafka, name)
    assert log.end(0) == 0
    producer.abort_transaction(10)
    producer.begin_transaction()
    producer.produce(name, "kept")
    producer.commit_transaction(10)
    eventually(lambda: log.end(0) == 4)
    assert payloads(log) == [b"kept"]
    check_log(log)
    log.close()


def test_many_messages_are_read_in_ranges_as_they_lie(kafka: str) -> None:
    name = topic(kafka)
    fill(kafka, name, [str(n) for n in range(50_000)])
    log = source(kafka, name)
    draw, at, found = random.Random(2), 0, []
    while at < 50_000:
        end = min(50_000, at + draw.randint(1, 9_000))
        found += [int(p) for _, _, p in contents(log, 0, at, end) if isinstance(p, bytes)]
        at = end
    assert found == list(range(50_000))
    log.close()


def test_a_start_that_was_deleted_is_an_error(kafka: str) -> None:
    name = topic(kafka)
    fill(kafka, name, ["a", "b", "c"])
    (done,) = admin(kafka).delete_records([TopicPartition(name, 0, 2)]).values()
    done.result()
    log = source(kafka, name)
    with pytest.raises(NadiError, match="starts at 2") as failure:
        list(log.read(0, 0, 3))
    assert failure.value.condition == "LOG_TRUNCATED"
    assert payloads(log) == [b"c"]
    log.close()


def test_what_is_acknowledged_is_committed_to_the_group(kafka: str) -> None:
    name, group = topic(kafka), uuid4().hex
    fill(kafka, name, ["a", "b"])
    log = source(kafka, name, group_id=group)
    log.acknowledge(0, 2)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    eventually(lambda: consumer.committed([TopicPartition(name, 0)])[0].offset == 2)
    consumer.close()
    log.close()


def test_keys_headers_and_places_are_properties_where_the_mapping_reads_them(kafka: str) -> None:
    name = topic(kafka)
    fill(kafka, name, ["x"], key="k", headers={"color": b"red"})
    options = {"topic.list": name, "bootstrap.servers": kafka}
    mapped = connector("kafka", options, attributes={"name": "trp:color", "size": "trp:offset"})
    log = open_log(mapped, Place("App", Path("/nowhere")))
    (piece,) = log.read(0, 0, 1)
    assert list(piece.properties) == [{"color": "red", "offset": "0"}]
    log.close()


def test_a_topic_that_does_not_exist_is_waited_for(kafka: str) -> None:
    name = f"t{uuid4().hex[:8]}"
    log = source(kafka, name)
    with pytest.raises(ConnectionUnavailableException, match=name):
        log.partitions()
    assert any("there is no topic" in s.last_error for s in unavailable())
    (made,) = admin(kafka).create_topics([NewTopic(name, 2)]).values()
    made.result()
    eventually(lambda: name in admin(kafka).list_topics(timeout=5).topics)
    assert log.partitions() == 2
    log.close()


# ---- sink ----------------------------------------------------------------------------------------------------------


def test_rows_are_written_with_keys_producer_and_numbers(kafka: str, tmp_path: Path) -> None:
    name = topic(kafka)
    target = sink(kafka, name, tmp_path, key="{{name}}-{{size}}")
    target.commit(3, [target.write(delivery(3, ["ab", "c"], first=7, bucket=2, group=9))])
    target.close()
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "x"})
    consumer.assign([TopicPartition(name, 0, 0)])
    first, second = consumer.consume(2, 10)
    consumer.close()
    assert (first.key(), first.value(), second.key()) == (b"ab-2", b"ab", b"c-1")
    assert dict(second.headers()) == {
        "Nadi-Producer": b"App/S/0/2",
        "Nadi-Group": b"9",
        "Nadi-Number": b"8",
        "Nadi-Count": b"1",
    }


def test_writing_a_cut_again_changes_nothing_whoever_does_it(kafka: str, tmp_path: Path) -> None:
    name = topic(kafka)
    target = sink(kafka, name, tmp_path)
    for cut in (0, 0, 1, 0, 1):
        target.write(delivery(cut, [f"{cut}"], first=cut))
    target.close()
    again = sink(kafka, name, tmp_path)
    for cut in (0, 1, 2):
        again.write(delivery(cut, [f"{cut}"], first=cut))
    again.close()
    assert stored(kafka, name) == ["0", "1", "2"]


def small_topic(servers: str, bound: int = 5_000) -> str:
    """A topic that takes no message of more bytes."""
    name = f"t{uuid4().hex[:8]}"
    (made,) = admin(servers).create_topics([NewTopic(name, 1, config={"max.message.bytes": str(bound)})]).values()
    made.result()
    return name


LARGE = "x" * 6_000


@pytest.mark.parametrize(("action", "condition"), [("", "REFUSED"), ("WAIT", "CONNECTION_UNAVAILABLE")])
def test_a_message_that_the_topic_does_not_take_stops_the_app_or_is_waited_with(
    kafka: str, tmp_path: Path, action: str, condition: str
) -> None:
    name = small_topic(kafka)
    options = {"on.error": action} if action else {}
    target = sink(kafka, name, tmp_path, **options)
    with pytest.raises(NadiError, match="too large") as failure:
        target.write(delivery(0, ["a", LARGE]))
    assert failure.value.condition == condition
    assert stored(kafka, name) == []
    target.write(delivery(0, ["a", "b"]))
    target.close()
    assert stored(kafka, name) == ["a", "b"]
    assert not any("kafka of S" in s.connector for s in unavailable())


def test_a_message_that_the_topic_does_not_take_is_named_in_the_receipt_and_the_others_are_written(
    kafka: str, tmp_path: Path
) -> None:
    name = small_topic(kafka)
    target = sink(kafka, name, tmp_path, **{"on.error": "STREAM"})
    (refused,) = target.write(delivery(0, ["a", LARGE, *["b" * 900] * 20])).refused  # together too large for one batch
    target.close()
    assert (refused.index, "6000 bytes" in refused.reason) == (1, True)
    assert stored(kafka, name) == ["a", *["b" * 900] * 20]
    again = sink(kafka, name, tmp_path, **{"on.error": "STREAM"})  # who wrote it has died before it told
    assert again.write(delivery(0, ["a", LARGE, *["b" * 900] * 20])).refused == (refused,)
    assert again.write(delivery(1, ["c"], first=30)).refused == ()
    again.close()
    assert stored(kafka, name) == ["a", *["b" * 900] * 20, "c"]


def test_a_message_that_just_fits_is_taken(kafka: str, tmp_path: Path) -> None:
    name = small_topic(kafka)
    target = sink(kafka, name, tmp_path, **{"on.error": "STORE"})
    sizes = list(range(4_000, 5_000, 20))
    refused = target.write(delivery(0, ["x" * n for n in sizes])).refused
    target.close()
    taken = [len(text) for text in stored(kafka, name)]
    assert taken == sizes[: len(sizes) - len(refused)]
    assert taken[-1] > 4_600


def test_half_a_transaction_of_a_dead_writer_is_not_seen_and_its_cut_is_written_whole(
    kafka: str, tmp_path: Path
) -> None:
    name = topic(kafka)
    dead = Producer({"bootstrap.servers": kafka, "transactional.id": "nadi-App-S-0-0"})
    dead.init_transactions(20)
    dead.begin_transaction()
    dead.produce(name, "half")
    dead.flush()
    target = sink(kafka, name, tmp_path)
    target.write(delivery(0, ["half", "rest"]))
    target.close()
    eventually(lambda: stored(kafka, name) == ["half", "rest"])


def test_a_writer_that_was_replaced_is_fenced_and_may_come_back(kafka: str, tmp_path: Path) -> None:
    name = topic(kafka)
    old, new = sink(kafka, name, tmp_path), sink(kafka, name, tmp_path)
    old.write(delivery(0, ["0"]))
    new.write(delivery(1, ["1"], first=1))
    with pytest.raises(NadiError) as failure:
        old.write(delivery(1, ["1"], first=1))
    assert failure.value.condition == "FENCED"
    old.write(delivery(1, ["1"], first=1))
    old.write(delivery(2, ["2"], first=2))
    for each in (old, new):
        each.close()
    assert stored(kafka, name) == ["0", "1", "2"]


def test_a_new_state_folder_counts_from_zero_again_and_loses_nothing(kafka: str, tmp_path: Path) -> None:
    name = topic(kafka)
    for run in ("one", "two"):
        target = sink(kafka, name, tmp_path / run)
        target.write(delivery(0, [run]))
        target.close()
    assert stored(kafka, name) == ["one", "two"]


def test_buckets_write_side_by_side_into_the_partitions_that_are_named(kafka: str, tmp_path: Path) -> None:
    name = topic(kafka, 3)
    target = sink(kafka, name, tmp_path, **{"partition.no": "{{size}}"})
    target.write(delivery(0, ["a", "bb"], bucket=0))
    target.write(delivery(0, ["c"], bucket=1))
    target.close()
    assert [stored(kafka, name, n) for n in range(3)] == [[], ["a", "c"], ["bb"]]


def test_finding_11_a_row_with_a_partition_that_there_is_not_is_refused_and_the_next_one_is_written(
    kafka: str, tmp_path: Path
) -> None:
    """Security finding 11: the client would wait for the partition to be made, and every cut with it."""
    name = topic(kafka, 2)
    options = {"partition.no": "{{name}}", "on.error": "STORE"}
    wrong = ["null", "1.5", "-2", "2", "99999999999", "\u0661", "x" * 100]
    for _ in range(2):
        target = sink(kafka, name, tmp_path, **options)
        found = target.write(delivery(0, ["1", *wrong, "0"])).refused
        target.close()
        assert [r.index for r in found if "no partition" in r.reason] == [1, 2, 3, 4, 5, 7]
    assert [stored(kafka, name, n) for n in range(2)] == [["0"], ["1", "\u0661"]]
    target = sink(kafka, name, tmp_path / "stops", **{"partition.no": "{{name}}"})
    with pytest.raises(NadiError) as e:
        target.write(delivery(0, ["2"]))
    target.close()
    assert e.value.condition == "REFUSED"


def test_a_partition_that_is_no_number_is_refused_before_the_app_runs(tmp_path: Path) -> None:
    with pytest.raises(NadiError) as e:
        sink("127.0.0.1:1", "t", tmp_path, **{"partition.no": "first"})
    assert e.value.condition == "OPTION_INVALID"


WRITER = """
import pathlib, sys
sys.path.insert(0, sys.argv[4])
from nadi.io import kafkalibrary
kafkalibrary.WORTH = 0
if sys.argv[6] == "objects":
    kafkalibrary.library = lambda: None
from sample import connector, delivery
from nadi.io.contract import Place
from nadi.io.registry import open_sink
servers, topic, state, per_cut = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), 50
target = open_sink(connector("kafka", {"topic": topic, "bootstrap.servers": servers}), Place("App", state))
done = state / "done"
cut = int(done.read_text()) if done.exists() else 0
while cut < int(sys.argv[5]):
    first = cut * per_cut
    print(cut, flush=True)
    target.write(delivery(cut, [str(n) for n in range(first, first + per_cut)], first=first))
    cut += 1
    (state / "next").write_text(str(cut))
    (state / "next").replace(done)
print("finished", flush=True)
target.close()
"""


def test_every_row_is_there_once_though_the_writer_was_killed_again_and_again(
    kafka: str, tmp_path: Path, way: str
) -> None:
    name, draw, cuts = topic(kafka), random.Random(4), 60
    arguments = [kafka, name, str(tmp_path), str(Path(__file__).parent), str(cuts), way]
    for kill in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for n, line in enumerate(process.stdout):
                if line == "finished\n" or (kill < 4 and n == 4 + kill):
                    break
            if kill < 4:
                offset = source(kafka, name)
                mark = offset.end(0) + draw.randint(0, 120)
                eventually(lambda offset=offset, mark=mark: offset.end(0) >= mark or process.poll() is not None)
                offset.close()
                process.send_signal(signal.SIGKILL)
    assert stored(kafka, name) == [str(n) for n in range(cuts * 50)]


def test_a_broker_that_is_away_is_a_condition_and_work_goes_on_when_it_is_back(
    broker_module: Any, kafka: str, tmp_path: Path
) -> None:
    running = broker_module.start(tmp_path / "broker")
    servers, port = running.address, int(running.address.rpartition(":")[2])
    name = topic(servers)
    options = {"optional.configuration": "socket.timeout.ms:2000,message.timeout.ms:4000,transaction.timeout.ms:4000"}
    log, target = source(servers, name), sink(servers, name, tmp_path / "state", **options)
    target.write(delivery(0, ["0"]))
    running.stop()
    with pytest.raises(ConnectionUnavailableException):
        log.end(0)
    with pytest.raises(ConnectionUnavailableException):
        target.write(delivery(1, ["1"], first=1))
    assert any(servers in state.connector for state in unavailable())
    running = broker_module.start(tmp_path / "broker", port)

    def written() -> bool:
        try:
            target.write(delivery(1, ["1"], first=1))
            return log.end(0) > 0
        except ConnectionUnavailableException:
            return False

    eventually(written, 60)
    eventually(lambda: payloads(log) == [b"0", b"1"])
    assert not any(servers in state.connector for state in unavailable())
    log.close()
    target.close()
    running.stop()


def test_shares_have_each_partition_once_also_one_that_is_added(kafka: str) -> None:
    name = topic(kafka, 3)
    for partition in range(3):
        fill(kafka, name, [f"p{partition}-{i}" for i in range(5)], partition)
    logs = [source(kafka, name, share=f"{i}/2") for i in (1, 2)]
    assert [[len(contents(log, p)) for p in range(3)] for log in logs] == [[5, 0, 5], [0, 5, 0]]
    (done,) = admin(kafka).create_partitions([NewPartitions(name, 4)]).values()
    done.result()
    eventually(lambda: source(kafka, name).partitions() == 4)
    fill(kafka, name, ["new"], 3)
    again = [source(kafka, name, share=f"{i}/2") for i in (1, 2)]
    assert [[len(contents(log, p)) for p in range(4)] for log in again] == [[5, 0, 5, 0], [0, 5, 0, 1]]
    for log in again:
        check_log(log)


def test_a_share_without_a_partition_has_nothing_and_may_be_waited_for(kafka: str) -> None:
    name = topic(kafka)
    fill(kafka, name, ["a"])
    log = source(kafka, name, share="2/2")
    log.wake(lambda: None)  # type: ignore[attr-defined]
    assert (log.beginning(0), log.end(0), contents(log)) == (0, 0, [])
    log.close()
