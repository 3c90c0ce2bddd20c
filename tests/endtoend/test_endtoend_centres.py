"""A node between two data centres is killed again and again, and brokers are away: every reading counts once, and a replay of the logs gives the same rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from nodes import events, nadi, running, until
from servers import asking
from servers.ports import free_port

from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

APP = """
@app:name('Sites')
@source(type = 'natsMultiDC', destination = 'readings', bootstrap.servers = '${WEST},${EAST}', @map(type = 'json'))
define stream Readings (k string, v long);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Sums (k string, v long, total long);
partition with (k of Readings) begin
    from Readings select k, v, sum(v) as total insert into Sums;
end;
"""
KEYS = 5
LAST = 20  # messages that are kept back until nobody is killed any more


class Centre:
    """A broker of a data centre, and what it has not got yet."""

    def __init__(self, folder: Path, messages: list[Outgoing]) -> None:
        self.server = NatsServer(folder)
        self.server.start()
        self.rest = messages
        client = NatsClient(self.server.url)
        client.call(lambda nc: ensure_stream(nc, stream_config("readings", ["readings"])))
        client.close()

    def take(self, count: int) -> None:
        given, self.rest = self.rest[:count], self.rest[count:]
        client = NatsClient(self.server.url)
        client.call(lambda nc: publish_all(nc, given), 60)
        client.close()


def messages(lives: int, count: int) -> list[Outgoing]:
    """What a publisher sends that begins anew with its first number so often."""
    return [
        Outgoing(
            "readings",
            json.dumps({"event": {"k": f"k{n % KEYS}", "v": life * count + n}}).encode(),
            {"Nadi-Producer": f"p@{life}", "Nadi-Group": "0", "Nadi-Number": str(n), "Nadi-Count": "1"},
        )
        for life in range(lives)
        for n in range(count)
    ]


@pytest.fixture
def centres(tmp_path: Path) -> Iterator[list[Centre]]:
    made = [Centre(tmp_path / name, messages(3, 400)) for name in ("west", "east")]
    yield made
    for centre in made:
        centre.server.stop()


def test_a_node_between_two_centres_loses_and_doubles_nothing(centres: list[Centre], tmp_path: Path) -> None:
    out, app, state = tmp_path / "out.jsonl", tmp_path / "sites.siddhi", tmp_path / "state"
    app.write_text(APP.replace("{out}", str(out)))
    where = {"WEST": centres[0].server.url, "EAST": centres[1].server.url}
    dice, whole = random.Random(5), len(centres[0].rest)
    while any(len(centre.rest) > LAST for centre in centres):
        with running(app, state=state, **where) as node:
            before = len(events(out))
            away = dice.choice((None, *centres))
            if away is not None:
                away.server.stop()
            for centre in centres:
                if centre is not away:
                    centre.take(min(dice.randint(100, 500), len(centre.rest) - LAST))
            seen = max(whole - len(centre.rest) for centre in centres if centre is not away)
            if seen > before:
                node.until(lambda: len(events(out)) > before)  # noqa: B023
            node.kill_tree()
        if away is not None:
            away.server.start()
    with running(app, state=state, **where) as node:
        for centre in centres:
            centre.take(LAST)
        node.until(lambda: len(events(out)) >= whole)
        replayed = tmp_path / "replayed.jsonl"
        variables = [word for name in where for word in ("--env", name)]
        done = nadi("replay", "Sites", "--state-dir", state, "--output", replayed, *variables, **where)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"file sink of Sums ({out}): equal to what was emitted in cuts 1 to " in done.stdout
    found = events(out)
    assert Counter(event["v"] for event in found) == Counter(range(whole))
    totals: dict[str, int] = {}
    for event in found:
        totals[event["k"]] = totals.get(event["k"], 0) + event["v"]
        assert event["total"] == totals[event["k"]]
    assert len(replayed.read_text().splitlines()) == whole


def test_a_message_with_a_key_counts_once_though_the_node_is_killed_before_it_answers(tmp_path: Path) -> None:
    url, out, app = f"http://127.0.0.1:{free_port()}/in", tmp_path / "out.jsonl", tmp_path / "sums.siddhi"
    app.write_text(
        f"@app:name('Keys') @source(type = 'http', receiver.url = '{url}', @map(type = 'json')) define stream In (v long);"
        f"@sink(type = 'file', file.uri = '{out}', @map(type = 'json')) define stream Out (v long, total long);"
        "from In select v, sum(v) as total insert into Out;"
    )

    def sent(n: int) -> int:
        try:
            body = json.dumps({"event": {"v": n}})
            return asking.post(url, content=body, headers={"Idempotency-Key": f"key-{n}"}, timeout=10).status_code
        except httpx.TransportError:
            return 0

    for life in range(3):
        with running(app, state=tmp_path / "state") as node:
            until(lambda: sent(life) == 202)  # noqa: B023
            for n in range(20):
                assert sent(n) == 202
            node.kill_tree()
    with running(app, state=tmp_path / "state") as node:
        until(lambda: sent(0) == 202)
        assert [sent(n) for n in range(21)] == [202] * 21
        node.until(lambda: len(events(out)) >= 21)
    found = events(out)
    assert sorted(event["v"] for event in found) == list(range(21))
    assert found[-1]["total"] == sum(range(21))
