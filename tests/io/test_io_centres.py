"""Sources with two data centres, against two real brokers: each message is taken once, whichever centre it comes through, and when."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from centre_brokers import EAST, WEST, Centres, Message, NatsCentres, away, numbered, source
from eventually import eventually
from log_contract import contents, payloads
from sample import connector

from nadi.errors import NOWHERE, NadiError
from nadi.io.contract import Place
from nadi.io.journal import Journal
from nadi.io.journalseen import JournalSeen, Rules
from nadi.io.natsclient import NatsClient, submit
from nadi.io.natsserver import NatsServer
from nadi.io.registry import make_ingress, make_source_mapper, open_log, source_kind
from nadi.io.sources.centres import CentresIngress


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path, nats.url)


def started(centres: Centres, place: Place, **options: str) -> CentresIngress:
    made = make_ingress(source(centres, **options), place)
    assert isinstance(made, CentresIngress)
    made.start()
    return made


def kept(place: Place) -> list[bytes]:
    return [p for p in payloads(open_log(connector("http", {}), place)) if isinstance(p, bytes)]


def bodies(messages: list[Message]) -> list[bytes]:
    return [body for body, _ in messages]


def begins(place: Place) -> list[int | None]:
    """From where on each centre is to be read, as the journal has it."""
    client = NatsClient(place.journal)
    kept_there = JournalSeen(Journal(client, place.identity), client, 0, Rules("test"))
    found = [submit(kept_there.position(centre, 0)).result() for centre in (WEST, EAST)]
    client.close()
    return found


def failures(centres: Centres, place: Place) -> list[str]:
    """Why messages are none, or that some are missing."""
    log = open_log(source(centres), place)
    mapper = make_source_mapper(source(centres))
    return [f.reason for piece in log.read(0, log.beginning(0), log.end(0)) for f in mapper.decode(piece).failures]


def test_what_is_published_to_both_centres_is_taken_once_in_the_order_of_its_publisher(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place)
    dice = random.Random(7)
    whole = numbered("shop", "a", *range(60))
    at = [0, 0]
    while min(at) < len(whole):
        centre = dice.choice([c for c in (WEST, EAST) if at[c] < len(whole)])
        end = min(len(whole), at[centre] + dice.randint(1, 9))
        centres.publish(centre, whole[at[centre] : end])
        at[centre] = end
    eventually(lambda: len(kept(place)) >= 60)
    late = numbered("shop", "a", 60)
    centres.both(late)
    eventually(lambda: kept(place)[-1:] == bodies(late))
    ingress.stop()
    assert kept(place) == bodies(whole + late)


def test_a_centre_that_is_lost_holds_up_nothing_and_what_it_has_alone_comes_when_it_is_back(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place)
    centres.both(numbered("shop", "a", *range(5)))
    eventually(lambda: len(kept(place)) == 5)
    ingress.stop()
    centres.publish(
        EAST, numbered("shop", "a", *range(5, 8))
    )  # nobody has read it, and the other centre does not have it
    centres.kill(EAST)
    ingress = started(centres, place)
    centres.publish(WEST, numbered("shop", "a", *range(8, 12)))
    eventually(lambda: len(kept(place)) == 9)
    eventually(lambda: any("at " + centres.address(EAST) in one for one in away()), 60)
    centres.start(EAST)
    centres.both(numbered("shop", "a", *range(12, 15)))
    eventually(lambda: len(kept(place)) == 15, 60)
    eventually(lambda: away() == [], 60)
    ingress.stop()
    assert sorted(kept(place)) == sorted(bodies(numbered("shop", "a", *range(15))))


def test_an_app_that_begins_with_the_end_takes_what_comes_while_it_does_not_run_though_nothing_came_before(
    centres: Centres, place: Place
) -> None:
    centres.both(numbered("shop", "a", 0))
    ingress = started(centres, place, start_position="end")
    eventually(lambda: None not in begins(place))
    ingress.stop()
    centres.both(numbered("shop", "a", 1, 2))
    ingress = started(centres, place, start_position="end")
    eventually(lambda: len(kept(place)) == 2)
    ingress.stop()
    assert kept(place) == bodies(numbered("shop", "a", 1, 2))


def test_what_a_centre_brings_late_is_dropped_unless_the_other_one_did_not_have_it(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place)
    centres.both(numbered("shop", "a", 0))
    eventually(lambda: len(kept(place)) == 1)
    centres.publish(EAST, numbered("shop", "a", 1, 2))
    eventually(lambda: len(kept(place)) == 3)
    centres.hold(EAST)
    centres.publish(WEST, numbered("shop", "a", 1, 3, 4))  # the second one got lost on its way there
    eventually(lambda: len(kept(place)) == 5)
    centres.release(EAST)
    centres.publish(EAST, numbered("shop", "a", 3, 4, 5))
    eventually(lambda: len(kept(place)) == 6, 60)
    ingress.stop()
    assert kept(place) == bodies(numbered("shop", "a", 0, 1, 2, 3, 4, 5))


def test_a_publisher_that_is_restarted_at_its_first_number_is_not_taken_for_the_one_before(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place)
    lives = [numbered("shop", life, 1, 2, 3) for life in ("a", "b", "c")]
    for life in lives:
        centres.publish(WEST, life)
    for life in lives:
        centres.publish(EAST, life)
    others = [(f"{n}".join(("old:", '~{"event":{"name":"o","size":0}}')).encode(), {}) for n in (0, 1, 2, 3, 0, 1, 2)]
    centres.publish(EAST, others)
    eventually(lambda: len(kept(place)) == 16)
    centres.publish(WEST, others)
    last = numbered("shop", "c", 4)
    centres.both(last)
    eventually(lambda: kept(place)[-1:] == bodies(last))
    ingress.stop()
    found = Counter(kept(place))
    assert all(found[body] == 1 for life in lives for body in bodies(life))
    assert found[b'{"event":{"name":"o","size":0}}'] == 7  # without what stands before it
    assert len(kept(place)) == 17


def test_a_number_that_no_centre_has_is_told_once_and_a_message_without_one_is_none(
    centres: Centres, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    ingress = started(centres, place)
    for centre in (WEST, EAST):
        centres.publish(centre, [*numbered("shop", "a", 1, 2, 5), (b"{}", {})])
    eventually(lambda: len(failures(centres, place)) == 3)
    centres.both(numbered("shop", "a", 6))
    eventually(lambda: len(kept(place)) == 7)
    ingress.stop()
    missing, *others = sorted(failures(centres, place))
    assert missing == "numbers 3 to 4 are missing of what 'shop/0' has published (incarnation 'a')"
    assert [text[:45] for text in others] == ["the message does not say who has published it"] * 2
    assert [r.message for r in caplog.records if "missing" in r.message] == [
        f"{centres.kind.lower()} source of S: {missing}"
    ]
    again = started(centres, place)
    centres.both(numbered("shop", "a", 7))
    eventually(lambda: len(kept(place)) == 8)
    again.stop()


def test_a_number_that_only_a_lost_centre_may_have_is_told_after_a_while_and_still_taken(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place, gap_after="500")
    centres.both(numbered("shop", "a", 1))
    eventually(lambda: len(kept(place)) == 1)
    centres.hold(EAST)
    centres.publish(WEST, numbered("shop", "a", 3))
    eventually(lambda: len(failures(centres, place)) == 1)
    centres.release(EAST)
    centres.publish(EAST, numbered("shop", "a", 2, 3))
    eventually(lambda: kept(place)[-1:] == bodies(numbered("shop", "a", 2)), 60)
    ingress.stop()
    assert failures(centres, place) == ["number 2 is missing of what 'shop/0' has published (incarnation 'a')"]


def test_a_number_that_is_missing_when_a_source_begins_again_is_told_though_nothing_more_comes(
    centres: Centres, place: Place
) -> None:
    ingress = started(centres, place)
    centres.both(numbered("shop", "a", 1))
    eventually(lambda: len(kept(place)) == 1)
    centres.hold(EAST)
    centres.publish(WEST, numbered("shop", "a", 3))
    eventually(lambda: len(kept(place)) == 2)
    ingress.stop()
    again = started(centres, place, gap_after="500")
    eventually(lambda: len(failures(centres, place)) == 1)
    again.stop()
    centres.release(EAST)
    assert failures(centres, place) == ["number 2 is missing of what 'shop/0' has published (incarnation 'a')"]


def test_a_centre_that_no_longer_has_what_was_not_read_is_read_from_what_it_has(centres: Centres, place: Place) -> None:
    ingress = started(centres, place)
    centres.both(numbered("shop", "a", 1))
    eventually(lambda: len(kept(place)) == 1)
    ingress.stop()
    centres.both(numbered("shop", "a", 2, 3))
    forget(centres, WEST)
    centres.both(numbered("shop", "a", 4))
    again = started(centres, place)
    eventually(lambda: len(kept(place)) == 4)
    again.stop()
    assert sorted(kept(place)) == sorted(bodies(numbered("shop", "a", 1, 2, 3, 4)))


def forget(centres: Centres, centre: int) -> None:
    """The centre removes what it has."""
    if isinstance(centres, NatsCentres):
        from nadi.io.natsclient import api

        centres._client(centre).call(lambda nc: api(nc, f"STREAM.PURGE.{centres.name}", {}))
        return
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": centres.address(centre), "log_level": 0})
    (gone,) = admin.delete_records([TopicPartition(centres.name, 0, -1)]).values()
    gone.result()


NODE = """
import json, sys
from pathlib import Path
from sample import connector
from nadi.io.contract import Place
from nadi.io.registry import make_ingress
from nadi.io import journalseen

journalseen.CHANGES = 50  # segments, too, are written all the time
kind, options, url, app = json.loads(sys.argv[1])
make_ingress(connector(kind, options), Place(app, Path("."), url)).start()
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_node_that_is_killed_again_and_again_takes_every_message_once(centres: Centres, place: Place) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    given = json.dumps([centres.kind.lower(), centres.options, place.journal, place.app])
    dice = random.Random(11)
    queues = {centre: [*numbered("shop", "a", *range(300)), *numbered("shop", "b", *range(300))] for centre in (0, 1)}
    rest = dict(queues)
    while any(rest.values()):
        node = subprocess.Popen(
            [sys.executable, "-c", NODE, given],
            env=environment,
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            cwd=place.state,
        )
        assert node.stdout is not None
        node.stdout.readline()
        before = len(kept(place))
        for _ in range(dice.randint(1, 6)):
            centre = dice.choice((WEST, EAST))
            count = dice.randint(1, 60)
            centres.publish(centre, rest[centre][:count])
            rest[centre] = rest[centre][count:]
        if dice.random() < 0.7 and any(len(queues[c]) - len(rest[c]) > before for c in (WEST, EAST)):
            eventually(lambda: len(kept(place)) > before, 60)  # noqa: B023
        node.send_signal(signal.SIGKILL)
        node.communicate()
    ingress = started(centres, place)
    last = numbered("shop", "b", 300)
    centres.both(last)
    eventually(lambda: len(kept(place)) >= 601, 60)
    ingress.stop()
    assert Counter(kept(place)) == Counter(bodies(queues[0] + last))
    positions = [position for position, _, _ in contents(open_log(source(centres), place))]
    assert positions == list(range(601))


@pytest.mark.parametrize("servers", ["one:1", "one:1,one:1", "one:1,", ",".join(f"{n}:1" for n in range(9))])
@pytest.mark.parametrize("kind", ["kafkamultidc", "natsmultidc"])
def test_centres_are_two_or_more_and_different(kind: str, servers: str) -> None:
    place = {"topic": "t"} if kind.startswith("kafka") else {"destination": "t"}
    with pytest.raises(NadiError, match="two centres or more"):
        source_kind(kind).check(connector(kind, {**place, "bootstrap.servers": servers}), NOWHERE)


@pytest.mark.parametrize(
    "wrong", [{"topic": "a,b"}, {"topic": "t", "partition.no": "x"}, {"topic": "t", "start.position": "nowhere"}]
)
def test_options_that_say_nothing_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(NadiError, match=next(reversed(wrong))):
        source_kind("kafkamultidc").check(connector("kafkamultidc", {"bootstrap.servers": "a:1,b:1", **wrong}), NOWHERE)
