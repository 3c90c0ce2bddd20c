"""The error store of an app of a worker over REST: looked at, corrected and sent again, purged; while the app runs, and after the worker has started anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ordersworker import working
from servers import asking

pytestmark = pytest.mark.spark

APP = """@App:name('Tags')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n int, tags object);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (n int);
from In[tags is null] select n insert into Out;
from In[not(tags is null)] select sizeOfSet(tags) as n insert into Out;
"""
ERRORS = "/siddhi-apps/Tags/errors"


def test_what_an_app_could_not_take_is_corrected_and_sent_again_over_rest(tmp_path: Path):
    with working(tmp_path) as worker:
        port = worker.ports["orders"]
        assert worker.ask("POST", "/siddhi-apps", content=APP.format(port=port, out=worker.out)).status_code == 201
        worker.node.until(lambda: worker.active("Tags"))
        assert worker.ask("GET", ERRORS).json() == []
        event = {"event": {"n": 1, "tags": "new"}}
        assert asking.post(f"http://127.0.0.1:{port}/in", json=event).status_code == 202
        worker.node.until(lambda: worker.ask("GET", ERRORS).json())
        (row,) = worker.ask("GET", ERRORS).json()
        assert (row["kind"], row["stream"], row["replayed"], row["whole"]) == ("query", "In", None, True)
        body = {"ids": [row["id"]], "payload": "[7, null]"}
        sent = worker.ask("POST", f"{ERRORS}/replay", json=body)
        assert (sent.status_code, sent.json()) == (200, {"sent": 1, "before": [], "impossible": {}})
        worker.node.until(lambda: worker.out.exists() and worker.out.read_text())
        assert json.loads(worker.out.read_text()) == {"event": {"n": 7}}
        again = worker.ask("POST", f"{ERRORS}/replay", json=body)
        assert (again.status_code, "ERROR_REPLAYED" in again.json()["message"]) == (409, True)
        assert worker.ask("POST", f"{ERRORS}/replay", json={"all": True}).json()["before"] == [row["id"]]
        worker.node.kill_tree()
        worker.node.process.wait()
        worker.node = worker.started()
        worker.node.until(lambda: worker.active("Tags"))
        found = worker.ask("GET", f"{ERRORS}/{row['id']}").json()
        assert json.loads(found["payload"]) == [1, "new"]
        assert found["replayed"] > 0
        assert worker.ask("DELETE", f"{ERRORS}?id={row['id']}").json() == {"purged": 1}
        assert worker.ask("GET", ERRORS).json() == []
