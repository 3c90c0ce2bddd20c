"""The page of a cluster, in a real browser: a manager, workers that run nothing, an app whose channels are on NATS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from restcluster import ADA, EVE, VIC, RestCluster, rest_cluster
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from server_build import waits
from servers.browser import browser, complaints
from servers.ports import free_port

from nadi.io.natsserver import NatsServer

METERS = """@app:name('Meters')
@source(type='http', receiver.url='http://127.0.0.1:8899/in', @map(type='json'))
define stream Readings (dev string, v long);
define stream Good (dev string, v long);
@sink(type='log') define stream Totals (dev string, total long);
@dist(execGroup='filter') from Readings[v >= 0] select dev, v insert into Good;
@dist(execGroup='sums', parallel='2')
partition with (dev of Good) begin from Good select dev, sum(v) as total insert into Totals; end;
"""
PORT = free_port()
HOSTILE = f"""@App:name('Hostile')
@source(type='http', receiver.url='http://127.0.0.1:{PORT}/<img src=x>', @map(type='json'))
define stream In (a int);
from In select a insert into Out;
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCluster]:
    with (
        NatsServer(tmp_path_factory.mktemp("nats")) as nats,
        rest_cluster(tmp_path_factory.mktemp("page"), nats=nats.url) as made,
    ):
        for name in ("w1", "w2"):
            made.join(name, version="1.2.3")
        yield made
        made.undeploy()


@pytest.fixture
def page(cluster: RestCluster, tmp_path: Path) -> Iterator[Chrome]:
    with browser(tmp_path) as made:
        made.get(cluster.url)
        yield made


def until(page: Chrome, holds: Callable[[], object]) -> None:
    WebDriverWait(page, 100, ignored_exceptions=(WebDriverException,)).until(lambda _page: holds())


def log_in(page: Chrome, who: tuple[str, str]) -> None:
    until(page, lambda: page.find_element(By.ID, "login").is_displayed())
    for name, value in zip(("username", "password"), who, strict=True):
        field = page.find_element(By.NAME, name)
        field.clear()
        field.send_keys(value)
    page.find_element(By.CSS_SELECTOR, "#login button").click()


def text(page: Chrome, selector: str) -> str:
    return str(page.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))


def states(page: Chrome) -> dict[str, str]:
    """What the drawing of the app says of each instance."""
    boxes = page.find_elements(By.CSS_SELECTOR, "[data-app='Meters'] svg [data-instance]")
    return {str(box.get_dom_attribute("data-instance")): str(box.get_dom_attribute("class")) for box in boxes}


def all_are(page: Chrome, state: str) -> bool:
    found = states(page)
    names = {"Meters-filter-1", "Meters-sums-1", "Meters-sums-2"}
    return found == dict.fromkeys(names, f"instance {state}")


def test_a_stranger_sees_a_form_and_nothing_of_the_cluster(page: Chrome):
    until(page, lambda: page.find_element(By.ID, "login").is_displayed())
    log_in(page, ("ada", "wrong"))
    until(page, lambda: "wrong" in text(page, "#refused"))
    assert not page.find_element(By.ID, "cluster").is_displayed()


def test_a_user_without_a_permission_hears_so(page: Chrome):
    log_in(page, EVE)
    until(page, lambda: "permission" in text(page, "#refused"))
    assert not page.find_element(By.ID, "cluster").is_displayed()


def test_a_person_sees_who_is_there_what_runs_where_and_what_becomes_of_it(cluster: RestCluster, page: Chrome):
    log_in(page, VIC)
    until(page, lambda: page.find_element(By.ID, "noapps").is_displayed())
    assert text(page, "#ready") == "manager-1 leads; asked: manager-1"
    assert text(page, "[data-manager='manager-1']").split("\t")[1] == "leads"
    until(page, lambda: text(page, "#workercount") == "2 of 2")
    until(page, lambda: text(page, "[data-worker='w1']").split("\t")[5:7] == ["25%", "50%"])
    assert text(page, "[data-worker='w1']").split("\t")[3] == "1.2.3"

    cluster.deploy(METERS)
    until(page, lambda: all_are(page, "running"))
    until(page, lambda: text(page, "#instancecount") == "3 of 3 running")
    assert text(page, "[data-app='Meters'] .status") == "active"
    labels = [box.text for box in page.find_elements(By.CSS_SELECTOR, "[data-app='Meters'] svg .label")]
    assert labels == ["Meters_Good_dev (2)"]
    until(page, lambda: text(page, "[data-app='Meters'] .channels tbody").startswith("Meters_Good_dev"))
    until(page, lambda: "app created" in text(page, "#events"))

    row = "tr[data-instance='Meters-sums-1']"
    worker = text(page, row).split("\t")[2]
    (other,) = {"w1", "w2"} - {worker}
    cluster.ask("POST", "/cluster/instances/Meters-sums-1/move")
    until(page, lambda: text(page, row).split("\t")[2] == other)
    assert (
        int(text(page, row).split("\t")[3]) >= 2
    )  # a worker that a busy machine let wait for too long starts it once more
    until(page, lambda: "instance moves" in text(page, "#events"))

    for name in cluster.workers:
        cluster.workers[name].node.fails = "there is <b>no room</b>"
    cluster.ask("POST", "/siddhi-apps/Meters/restart")
    until(page, lambda: all_are(page, "failed"))
    assert "there is <b>no room</b>" in text(page, row)  # as text
    until(page, lambda: "there is" in text(page, "[data-app='Meters'] > .reason"))
    for name in cluster.workers:
        cluster.workers[name].node.fails = ""
    cluster.ask("POST", "/siddhi-apps/Meters/restart")
    until(page, lambda: all_are(page, "running"))

    cluster.leave("w2")
    until(page, lambda: text(page, "[data-worker='w2']").split("\t")[1] == "gone")
    until(page, lambda: all_are(page, "running") and text(page, "#workercount") == "1 of 2")
    cluster.join("w2")
    cluster.undeploy()
    until(page, lambda: page.find_element(By.ID, "noapps").is_displayed() and not states(page))
    # the page asks once without a token: a manager whose `authEnable` is false wants none
    assert [said for said in complaints(page) if "/status/cluster" not in said] == []


def test_names_and_texts_of_apps_are_shown_as_text(cluster: RestCluster, page: Chrome):
    log_in(page, ADA)
    cluster.deploy(HOSTILE)
    until(page, lambda: page.find_elements(By.CSS_SELECTOR, "[data-app='Hostile'] svg [data-instance]"))
    assert not page.find_elements(By.TAG_NAME, "img")
    cluster.undeploy()


def test_after_logging_out_the_token_is_worth_nothing(cluster: RestCluster, page: Chrome):
    log_in(page, ADA)
    until(page, lambda: page.find_element(By.ID, "leave").is_displayed())
    token = page.execute_script("return token")
    page.find_element(By.ID, "leave").click()
    until(page, lambda: page.find_element(By.ID, "login").is_displayed())
    asked = "return fetch('status/cluster', {headers: {Authorization: `Bearer ${arguments[0]}`}}).then((a) => a.status)"
    until(page, lambda: page.execute_script(asked, token) == 401)


def test_news_are_waited_for(tmp_path: Path):
    with rest_cluster(tmp_path, clustered=False) as made:
        mark = made.ask("GET", "/status/cluster").json()["mark"]
        assert made.ask("GET", f"/status/cluster?after={mark}x").json()["mark"] == mark
        made.join("w1")
        news = made.ask("GET", f"/status/cluster?after={mark}").json()
        assert news["mark"] != mark
        assert [(one["id"], one["state"]) for one in news["workers"]] == [("w1", "there")]
        made.leave("w1")


def test_a_manager_that_stops_lets_those_go_who_wait_for_news(tmp_path: Path):
    with ThreadPoolExecutor() as aside:
        with rest_cluster(tmp_path, clustered=False) as made:
            mark = made.ask("GET", "/status/cluster").json()["mark"]
            waiting = aside.submit(httpx.get, f"{made.url}/status/cluster?after={mark}", auth=ADA, timeout=60)
            waits(lambda: made.manager._watch._waiting)
        assert waiting.result().status_code == 204
