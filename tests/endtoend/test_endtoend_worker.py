"""A worker as a team has it: apps are deployed over REST, fed over http, queried, updated, and go on after `kill -9`."""

from __future__ import annotations

import json
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from nodes import nadi, until
from ordersworker import Worker, working
from servers import asking
from servers.ports import free_ports

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("worker")) as made:
        yield made
        ends_cleanly_on_ctrl_c(made)


def ends_cleanly_on_ctrl_c(worker: Worker) -> None:
    worker.node.signal(signal.SIGINT)
    assert worker.node.wait() == 0
    worker.node.gone()
    assert "Traceback" not in worker.node.said()


def test_a_worker_takes_an_app_feeds_it_answers_queries_updates_it_and_survives(worker: Worker):
    deployed = worker.ask("POST", "/siddhi-apps", content=worker.text())
    assert deployed.status_code == 201
    assert deployed.headers["location"] == "siddhi-apps//Orders"
    assert deployed.json()["type"] == "success"
    assert worker.ask("POST", "/siddhi-apps", content=worker.text()).status_code == 409
    worker.node.until(lambda: worker.active("Orders"))
    worker.feed("IBM", 7)
    worker.feed("IBM", 5)
    worker.node.until(lambda: worker.totals() == [7, 12])

    found = worker.query("from Last select symbol, volume", details=True)
    assert found.json() == {
        "records": [["IBM", 5]],
        "details": [{"name": "symbol", "dataType": "STRING"}, {"name": "volume", "dataType": "LONG"}],
    }
    assert worker.query("delete Last on Last.symbol == 'IBM'").json() == {"records": []}
    own = worker.ask("POST", "/siddhi-apps/Orders/query", json={"query": "from Last select symbol"})
    assert own.json() == {"records": []}

    # a filter in front of what keeps the sum: the sum goes on
    text = worker.text(**{"into Out;": "into Sums; from Sums select symbol, total insert into Out;"})
    planned = worker.ask("PUT", "/siddhi-apps", params={"dryRun": "true"}, content=text).json()
    assert planned["summary"] == "no state is lost"
    assert {row["element"]: row["fate"] for row in planned["elements"]}["Last/table"] == "kept"
    assert "into Sums" not in worker.ask("GET", "/siddhi-apps/Orders").json()["content"]
    assert worker.ask("PUT", "/siddhi-apps", content=text).status_code == 200
    worker.node.until(lambda: "app updated" in worker.node.said() and worker.active("Orders"))
    assert worker.ask("GET", "/siddhi-apps/Orders").json() == {"content": text}
    worker.feed("IBM", 1)
    worker.node.until(lambda: worker.totals() == [7, 12, 13])

    worker.node.kill_tree()
    worker.node = worker.started()
    worker.feed("IBM", 2)
    worker.node.until(lambda: worker.totals() == [7, 12, 13, 15])
    assert worker.ask("POST", "/siddhi-apps/Orders/restart").status_code == 200
    worker.node.until(lambda: worker.node.said().count("app updated") == 1 and worker.active("Orders"))
    worker.feed("IBM", 3)
    worker.node.until(lambda: worker.totals() == [7, 12, 13, 15, 18])


def test_an_app_that_is_wrong_is_refused_and_nothing_is_saved(worker: Worker):
    for text, part in (
        ("@App:name('Bad') define stream In (a int); from Im select a insert into Out;", "known: In"),
        ("define stream In (a int);", "APP_NAME_MISSING"),
        ("@App:name('../up') define stream In (a int);", "APP_NAME_UNSAFE"),
        ("@App:name('two words') define stream In (a int);", "APP_NAME_INVALID"),
        ("@App:name('Bad') define stream In (a int); @source(type='htp') define stream B (a int);", "http"),
        ("@App:name('Bad') define stream ${HOME} (a int);", "VARIABLE_NOT_SET"),
    ):
        for method in ("POST", "PUT"):
            answer = worker.ask(method, "/siddhi-apps", content=text)
            assert answer.status_code == 400, text
            assert (answer.json()["code"], answer.json()["type"]) == (800101, "validation error")
            assert part in answer.json()["message"]
    assert "Bad" not in worker.ask("GET", "/siddhi-apps").json()


def test_what_is_not_there_is_404(worker: Worker):
    for method, path in (
        ("GET", "/siddhi-apps/No"),
        ("DELETE", "/siddhi-apps/No"),
        ("GET", "/siddhi-apps/No/status"),
        ("GET", "/siddhi-apps/No/details"),
        ("POST", "/siddhi-apps/No/restart"),
    ):
        answer = worker.ask(method, path)
        assert answer.status_code == 404
        assert answer.json()["type"] == "not-found"
    question = {"appName": "No", "query": "from T select a"}
    assert worker.ask("POST", "/stores/query", "query", json=question).json()["code"] == 1
    assert worker.ask("POST", "/stores/query", "query", json=question).status_code == 404
    for wrong in ({"appName": "", "query": "x"}, {"appName": "A", "query": " "}, {}):
        assert worker.ask("POST", "/stores/query", "query", json=wrong).status_code == 400


def test_an_app_comes_and_goes_with_its_file_and_says_why_it_is_inactive(worker: Worker):
    folder = worker.home / "deployment/siddhi-files"
    (folder / "Wrong.siddhi").write_text("@App:name('Other') define stream In (a int);")
    worker.node.until(lambda: "Wrong" in worker.ask("GET", "/siddhi-apps?isActive=false").json())
    assert worker.ask("GET", "/siddhi-apps/Wrong/status").json() == {"status": "inactive"}
    assert "name it Other.siddhi" in worker.ask("GET", "/siddhi-apps/Wrong/details").json()["reason"]
    (folder / "Wrong.siddhi").unlink()
    worker.node.until(lambda: "Wrong" not in worker.ask("GET", "/siddhi-apps").json())


def test_the_commands_for_people_do_the_same(worker: Worker, tmp_path: Path):
    url, https = worker.url(""), f"https://127.0.0.1:{worker.ports['https']}"
    file = tmp_path / "Pass.siddhi"
    file.write_text("@App:name('Pass') define stream In (a int); @info(name='q') from In select a insert into Out;")
    secret = {"NADI_PASSWORD": worker.password}
    certificate = worker.home / "security/certificate.pem"
    done = nadi("app", "deploy", file, "--url", https, "--certificate", certificate, **secret)
    assert (done.returncode, done.stdout) == (0, f"{file}: deployed\n")
    until(lambda: worker.active("Pass"))
    listed = json.loads(nadi("app", "list", "--json", "--url", url, **secret).stdout)
    assert {row["name"]: row["status"] for row in listed}["Pass"] == "active"
    shown = nadi("app", "show", "Pass", "--url", url, **secret)
    assert (shown.returncode, shown.stdout.strip()) == (0, file.read_text())
    assert nadi("app", "delete", "Pass", "--url", url, **secret).returncode == 0
    gone = nadi("app", "show", "Pass", "--url", url, **secret)
    assert gone.returncode == 1
    assert "WORKER_REFUSED" in gone.stderr
    assert "WORKER_NOT_REACHED" in nadi("app", "list", "--url", https, **secret).stderr  # it is nobody's that we trust


def test_what_is_measured_of_an_app_is_switched_while_it_runs(worker: Worker):
    at, out = worker.ports["more"], worker.home / "files" / "measured.jsonl"
    text = (
        f"@App:name('Measured') @source(type='http', receiver.url='http://127.0.0.1:{at}/in', @map(type='json')) "
        "define stream In (k string, n long); define table Last (k string, n long); "
        f"@sink(type='file', file.uri='{out}', @map(type='json')) "
        "define stream Out (k string, n long); "
        "@info(name='sums') from In select k, sum(n) as n group by k insert into Out; "
        "from In select k, n update or insert into Last on Last.k == k;"
    )

    def feed(count: int) -> None:
        for n in range(count):
            body = {"event": {"k": "a", "n": n}}
            assert asking.post(f"http://127.0.0.1:{at}/in", json=body).status_code == 202

    def scraped() -> dict[str, float]:
        lines = worker.ask("GET", "/metrics").text.splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def events(kind: str, element: str, function: str = "") -> float:
        name = f'nadi_events_total{{app="Measured",element="{element}",function="{function}",type="{kind}"}}'
        return scraped().get(name, 0.0)

    def listed() -> dict[str, Any]:
        return {row["appName"]: row for row in worker.ask("GET", "/siddhi-apps/statistics").json()}["Measured"]

    assert worker.ask("POST", "/siddhi-apps", content=text).status_code == 201
    worker.node.until(lambda: worker.active("Measured"))
    assert listed()["isStatEnabled"] == "OFF"
    assert listed()["status"] == "active"
    assert listed()["age"] >= 0
    feed(2)
    worker.node.until(lambda: out.exists() and out.read_text().count("\n") == 2)
    assert 'app="Measured"' not in worker.ask("GET", "/metrics").text

    answer = worker.ask("PUT", "/siddhi-apps/Measured/statistics", json={"enabledStatLevel": "BASIC"})
    assert (answer.status_code, answer.json()["type"]) == (200, "success")
    assert listed()["isStatEnabled"] == "BASIC"
    feed(3)
    worker.node.until(lambda: events("Sources", "In", "http") == 3 and events("Sinks", "Out", "file") == 3)
    assert events("Tables", "Last", "updateOrInsert") == 3
    assert events("Streams", "In") == 0

    assert worker.ask("PUT", "/siddhi-apps/statistics", json={"statsEnable": True}).status_code == 200
    assert listed()["isStatEnabled"] == "DETAIL"
    feed(4)
    worker.node.until(lambda: events("Streams", "Out") == 4 and events("Sources", "In", "http") == 7)
    found = scraped()
    query = 'app="Measured",element="sums",function="",type="Queries"'
    delays = 'app="Measured",element="events",function="",type="App"'
    assert found[f"nadi_latency_seconds_count{{{query}}}"] == 4
    assert found[f"nadi_latency_seconds_count{{{delays}}}"] == 7
    assert 0 < found[f"nadi_latency_seconds_sum{{{query}}}"] < 60  # seconds; the machine may be busy
    assert found['nadi_memory_bytes{app="Measured",element="Last",function="",type="Tables"}'] > 0
    assert found["jvm_memory_heap_used"] > 10_000_000
    asked = {"query": "from Last select k, n"}
    assert worker.ask("POST", "/siddhi-apps/Measured/query", json=asked).json() == {"records": [["a", 3]]}
    stores = 'app="Measured",element="query",function="",type="StoreQueries"'
    assert scraped()[f"nadi_latency_seconds_count{{{stores}}}"] == 1

    node = worker.ask("GET", "/statistics").json()
    assert (node["runningStatus"], node["isStatsEnabled"], node["message"]) == ("Reachable", True, "")
    assert 0 < node["workerMetrics"]["memoryUsage"] < 1
    for enable, said in (
        (True, "Metrics are enabled already."),
        (False, "Successfully disabled the metrics."),
        (False, "Metrics are disabled already."),
    ):
        answer = worker.ask("PUT", "/statistics", json={"statsEnable": enable})
        assert (answer.status_code, answer.json()) == (200, {"code": 4, "type": "ok", "message": said})
    node = worker.ask("GET", "/statistics").json()
    assert (node["isStatsEnabled"], node["message"]) == (False, "Metrics are disabled.")
    assert "workerMetrics" not in node
    assert listed()["isStatEnabled"] == "OFF"
    assert 'app="Measured"' not in worker.ask("GET", "/metrics").text
    assert worker.ask("PUT", "/statistics", json={"statsEnable": True}).json()["message"] == (
        "Successfully enabled the metrics."
    )
    assert listed()["isStatEnabled"] == "DETAIL"
    feed(1)
    worker.node.until(lambda: events("Streams", "In") == 5)
    assert worker.ask("DELETE", "/siddhi-apps/Measured").status_code == 200
    assert 'app="Measured"' not in worker.ask("GET", "/metrics").text


def test_an_https_source_shows_the_certificate_of_its_worker(worker: Worker):
    (port,), out = free_ports(1), worker.home / "files" / "secure.jsonl"
    url = f"https://127.0.0.1:{port}/in"
    text = (
        f"@App:name('Secure') @source(type='http', receiver.url='{url}', @map(type='json')) define stream In (a int); "
        f"@sink(type='file', file.uri='{out}', @map(type='json')) define stream Out (a int); "
        "from In[a > 1] select a insert into Out;"
    )
    file = worker.home / "deployment/siddhi-files/Secure.siddhi"
    file.write_text(text)
    until(lambda: worker.active("Secure"))
    trusted = ssl.create_default_context(cafile=str(worker.home / "security/certificate.pem"))
    for number in (1, 2, 3):
        content = json.dumps({"event": {"a": number}})
        assert httpx.post(url, content=content, verify=trusted).status_code == 202
    until(lambda: out.exists() and out.read_text().count("\n") == 2)
    assert [json.loads(line)["event"]["a"] for line in out.read_text().splitlines()] == [2, 3]
    file.unlink()
    worker.node.until(lambda: "Secure" not in worker.ask("GET", "/siddhi-apps").json())


def test_strangers_hear_of_health_only(worker: Worker):
    assert asking.get(worker.url("/health")).json() == {"status": "healthy"}
    assert asking.get(worker.url("/health", "query")).json() == {"status": "healthy"}
    for path in ("/siddhi-apps", "/system-details", "/nodeDetails/runTime", "/openapi.json"):
        assert asking.get(worker.url(path)).status_code == 400
        assert asking.get(worker.url(path), auth=("admin", "admin")).status_code == 401
        assert worker.ask("GET", path).status_code == 200
    assert worker.ask("GET", "/nodeDetails/runTime").text == "worker"
    assert worker.ask("GET", "/system-details").json()["carbonId"] == "node-1"
