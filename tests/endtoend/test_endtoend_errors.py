"""`nadi errors` against a node that runs, is killed in the middle of sending again, and starts again."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from choosy import Choosy
from nodes import COMMAND, TRACE, environment, events, lines, nadi, running

from nadi.pipeline.node import is_locked

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

APP = """@app:name('Orders')
@source(type = 'file', file.uri = '{folder}/in.jsonl', @map(type = 'json'))
define stream Orders (n long, tags object);

@sink(type = 'http', publisher.url = '{url}', on.error = 'STORE', @map(type = 'json'))
define stream Shipped (n long);

@sink(type = 'file', file.uri = '{folder}/tagged.jsonl', @map(type = 'json'))
define stream Tagged (n long, tags int);

from Orders select n insert into Shipped;
from Orders[not(tags is null)] select n, sizeOfSet(tags) as tags insert into Tagged;
"""
COUNT = 400
CONFIG = """
error.store: {{enabled: true, config: {{datasource: ERRORS}}}}
wso2.datasources:
  dataSources: [{{name: ERRORS, definition: {{type: RDBMS, configuration: {{jdbcUrl: 'jdbc:sqlite:{path}'}}}}}}]
"""


class Orders:
    """The app in a folder, and its commands."""

    def __init__(self, folder: Path, url: str, config: str = "") -> None:
        self.folder = folder
        self.state = folder / "state"
        self.path = folder / "orders.siddhi"
        self.path.write_text(APP.format(folder=folder, url=url))
        given: list[Any] = [{"event": {"n": n, "tags": None}} for n in range(COUNT)]
        given.insert(10, {"event": {"n": 10_000, "tags": "no set"}})
        texts = [*map(json.dumps, given), "no json"]
        (folder / "in.jsonl").write_text("".join(text + "\n" for text in texts))
        self.options: dict[str, Any] = {"state": self.state, "conf": {"hosts": 1, "buckets": 1, "batch.events": 10}}
        if config:
            self.options["config"] = folder / "deployment.yaml"
            self.options["config"].write_text(config)

    def words(self, command: str, *words: object) -> list[str]:
        config = ["--config", self.options["config"]] if "config" in self.options else []
        return ["errors", command, "Orders", "--state-dir", *map(str, (self.state, *config, *words))]

    def ask(self, command: str, *words: object) -> str:
        done = nadi(*self.words(command, *words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listed(self, *words: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.ask("list", "--json", *words))
        return found


@pytest.mark.parametrize("where", ["folder", "database"])
def test_what_is_sent_again_comes_once_though_the_node_is_killed_in_the_middle(tmp_path: Path, where: str):
    config = CONFIG.format(path=tmp_path / "errors.db") if where == "database" else ""
    with Choosy() as target:
        target.strict = True
        orders = Orders(tmp_path, target.url, config)
        with running(orders.path, **orders.options) as node:
            node.until(lambda: node.taken("Orders") == COUNT + 1)
            refused = COUNT // 5 + 1
            node.until(lambda: len(orders.listed()) == refused + 2)
            kinds = [row["kind"] for row in orders.listed()]
            assert [kinds.count(kind) for kind in ("sink", "query", "source")] == [refused, 1, 1]
            assert (where == "folder") == bool(lines(orders.state / "Orders" / "errors.jsonl"))
            target.strict = False
            before = len(target.taken)
            words = orders.words("replay", "--origin", "sink", "--within", "2")
            asking = subprocess.Popen([*COMMAND, *words], env=environment(), stderr=subprocess.PIPE, text=True)
            node.until(lambda: len(target.taken) > before + refused // 4)
            node.kill_tree()
            said = asking.communicate(timeout=120)[1]
            assert TRACE not in said

        with running(orders.path, **orders.options) as node:
            node.until(lambda: is_locked(orders.state))
            again = orders.ask("replay", "--all", "--origin", "sink", "--within", "200")
            assert again == f"0 rows sent again\n{refused} rows left out: sent again before\n"
            node.until(lambda: len(target.taken) >= COUNT + 1)
            (event,) = orders.listed("--origin", "query")
            (message,) = orders.listed("--origin", "source")
            twice = nadi(*orders.words("replay", orders.listed("--origin", "sink")[0]["id"]))
            assert (twice.returncode, "ERROR_REPLAYED" in twice.stderr) == (1, True), twice.stderr
            mended = json.dumps({"event": {"n": 20_001, "tags": None}})
            within = ("--within", "200")
            assert orders.ask("replay", message["id"], "--payload", mended, *within) == "1 row sent again\n"
            node.until(lambda: 20_001 in target.taken.values())
            assert orders.ask("replay", event["id"], "--payload", "[20002, null]", *within) == "1 row sent again\n"
            node.until(lambda: 20_002 in target.taken.values())
            assert all(row["replayed"] for row in orders.listed())
            assert orders.ask("purge", "--origin", "sink") == f"{refused} rows purged\n"
            assert len(orders.listed()) == 2
            node.signal(signal.SIGINT)
            assert node.wait() == 0, node.said()
            assert TRACE not in node.said()
        assert sorted(target.taken.values()) == [*range(COUNT), 10_000, 20_001, 20_002]
        assert events(tmp_path / "tagged.jsonl") == []
