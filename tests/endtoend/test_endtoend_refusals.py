"""A receiver that refuses some rows: they come back as events of the fault stream, exactly once, whatever is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from choosy import Choosy
from nodes import TRACE, Node, events, run, running

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

APP = """@app:name('Orders')
@source(type = 'file', file.uri = '{folder}/in.jsonl', @map(type = 'json'))
@OnError(action = 'STREAM')
define stream Orders (shop string, n long);

@sink(type = 'http', publisher.url = '{url}', on.error = 'STREAM', @map(type = 'json'))
@OnError(action = 'STREAM')
define stream Shipped (shop string, n long);

@sink(type = 'file', file.uri = '{folder}/refused.jsonl', @map(type = 'json'))
define stream Refused (shop string, n long, times long, reason object);

@sink(type = 'file', file.uri = '{folder}/unread.jsonl', @map(type = 'json'))
define stream Unread (shop string, reason object);

partition with (shop of Orders)
begin
  from Orders select shop, n insert into Shipped;
end;

from !Shipped select shop, n, _error as reason insert into Back;

partition with (shop of Back)
begin
  from Back select shop, n, count() as times, reason insert into Refused;
end;

from !Orders select shop, _error as reason insert into Unread;
"""
COUNT = 400
KILLS = 3


def shop(n: int) -> str:
    return f"shop {n % 7}"


def prepared(folder: Path, url: str) -> Path:
    lines = [json.dumps({"event": {"shop": shop(n), "n": n}}) for n in range(COUNT)]
    lines.insert(COUNT // 2, "no json")
    (folder / "in.jsonl").write_text("".join(line + "\n" for line in lines))
    app = folder / "orders.siddhi"
    app.write_text(APP.format(folder=folder, url=url))
    return app


def refused(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """(n, how many of the shop were refused) of each shop, in their order."""
    found: dict[str, list[tuple[int, int]]] = {}
    for event in events(folder / "refused.jsonl"):
        assert event["reason"].startswith("REFUSED: sink http of Shipped refused: 422"), event
        found.setdefault(event["shop"], []).append((event["n"], event["times"]))
    return found


def expected() -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for n in range(0, COUNT, 5):
        mine = found.setdefault(shop(n), [])
        mine.append((n, len(mine) + 1))
    return found


def checked(folder: Path, target: Choosy) -> None:
    assert refused(folder) == expected()
    assert sorted(target.taken.values()) == [n for n in range(COUNT) if n % 5]
    ((event),) = events(folder / "unread.jsonl")
    assert event["shop"] is None
    assert event["reason"].endswith("message: no json")
    assert not (folder / "state" / "Orders" / "errors.jsonl").exists()


def test_refused_rows_come_back_once_though_the_driver_is_killed_again_and_again(tmp_path: Path):
    with Choosy() as target:
        app = prepared(tmp_path, target.url)
        options: dict[str, Any] = {"state": tmp_path / "state", "until_end": True, "conf": {"batch.events": 40}}
        for kill in range(KILLS):
            with running(app, **options) as node:
                wanted = COUNT // (KILLS + 1) * (kill + 1)
                node.until(lambda wanted=wanted: len(target.taken) >= wanted * 4 // 5)
                if kill % 2:
                    node.kill_tree()
                else:
                    killed_driver(node)
        said = run(app, state=tmp_path / "state", conf={"batch.events": 40})
        assert TRACE not in said
        checked(tmp_path, target)


def killed_driver(node: Node) -> None:
    node.kill_driver()
    node.gone()


def test_without_a_kill_nothing_is_asked_for_twice(tmp_path: Path):
    with Choosy() as target:
        run(prepared(tmp_path, target.url), state=tmp_path / "state", conf={"batch.events": 40})
        checked(tmp_path, target)
        assert set(target.asked.values()) == {1}
