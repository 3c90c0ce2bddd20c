"""`nadi ha status`, `switch` and `promote` against a pair of real nodes, also where only a node is left that does not have everything."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodes import COMMAND, environment, lines
from pairnodes import Pair, PairNode, feed, pair
from servers import databases
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """@App:name('Sums')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n long);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (n long, total long);
from In select n, sum(n) as total insert into Out;
"""


def ha(node: PairNode, *words: str) -> tuple[int, str]:
    """A command as somebody types it; -> exit status, what it said."""
    done = subprocess.run(
        [*COMMAND, "ha", *words, "--url", node.url],
        env=environment(NADI_PASSWORD=node.password, COLUMNS="200"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def errors(node: PairNode, *words: str) -> list[dict[str, Any]]:
    """What is in the error store of the app, as a shell on the node shows it."""
    found: list[dict[str, Any]] = json.loads(_errors(node, *words, "Sums", "--json"))
    return found


def sent_again(node: PairNode, id_: str) -> str:
    return _errors(node, "replay", "Sums", id_)


def _errors(node: PairNode, *words: str) -> str:
    return subprocess.run(
        [*COMMAND, "errors", *words, "--state-dir", str(node.home / "state")],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def rows(file: Path) -> list[dict[str, int]]:
    return [json.loads(line)["event"] for line in lines(file)]


def told(pair: Pair, file: Path, n: int) -> None:
    """Wait for the row of an event."""
    pair.until(lambda: any(row["n"] == n for row in rows(file)))


def ready(pair: Pair) -> None:
    pair.until(lambda: pair.active().seen()["inSync"] and not pair.active().seen()["unready"])


def test_a_pair_is_shown_switched_and_promoted_from_a_shell(tmp_path: Path):
    try:
        with databases.postgres() as server, pair(tmp_path, server.jdbc, server.user, server.password) as made:
            first = made.active()
            second = made.other(first)
            (port,) = free_ports(1)
            out = tmp_path / "out.jsonl"
            assert first.ask("POST", "/siddhi-apps", content=APP.format(port=port, out=out)).status_code == 201
            made.until(lambda: first.status("Sums") == "active")
            ready(made)
            assert feed(port, [{"n": 1}, {"n": 2}]) == [{"n": 1}, {"n": 2}]
            told(made, out, 2)

            status, said = ha(first, "status")
            assert status == 0
            assert "node-1, active" in said
            assert "could go on at once" in said

            assert ha(second, "switch") == (0, "The other node goes on\n")
            made.until(lambda: second.answers("active"))
            assert feed(port, [{"n": 3}]) == [{"n": 3}]
            told(made, out, 3)
            status, said = ha(second, "promote")
            assert (status, "lost: nothing" in said) == (0, True)

            # what only the second node has is lost with it
            ready(made)
            first.kill()
            made.until(lambda: not second.seen()["inSync"])
            assert feed(port, [{"n": 4}]) == [{"n": 4}]
            told(made, out, 4)
            status, said = ha(second, "status")
            assert (status, "PAIR_ALONE" in said) == (1, True)
            second.kill()
            first.start()
            made.until(lambda: "PAIR_NO_ONE" in [alarm["condition"] for alarm in first.seen()["alarms"]])
            status, said = ha(first, "switch")
            assert (status != 0, "NOT_ACTIVE" in said or "not active" in said) == (True, True), said
            status, said = ha(first, "promote")
            assert (status, "only node-2 has" in said) == (1, True), said
            assert not first.answers("active")
            status, said = ha(first, "promote", "--accept-loss")
            assert (status, "it goes on" in said) == (0, True), said
            made.until(lambda: first.answers("active"))
            assert feed(port, [{"n": 5}]) == [{"n": 5}]
            told(made, out, 5)
            # it goes on where it was, also in the file: what the other one had given out since is lost
            assert [(row["n"], row["total"]) for row in rows(out)] == [(1, 1), (2, 3), (3, 6), (5, 11)]

            # the other one returns with what nobody has: it follows, and that is told
            second.start()
            ready(made)
            assert first.answers("active")
            kept = (first.home / "pair/returned.jsonl").read_text().splitlines()
            assert any(json.loads(line)["what"].startswith("cuts") for line in kept)
            alone = lambda: [row for row in errors(first, "list") if json.loads(row["payload"]) == {"event": {"n": 4}}]  # noqa: E731
            made.until(alone)
            (lost,) = alone()
            assert (lost["origin"], lost["replayed"]) == ("source http of In", None)
            said = sent_again(first, lost["id"])
            assert said == "1 row sent again\n"
            made.until(lambda: [(row["n"], row["total"]) for row in rows(out)][-1] == (4, 15))
            (lost,) = [row for row in errors(first, "list") if row["id"] == lost["id"]]
            assert lost["replayed"] is not None
            status, said = ha(first, "status")
            assert status == 0, said
    except databases.NotPossible as reason:
        pytest.skip(str(reason))
