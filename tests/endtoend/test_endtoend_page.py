"""The status page in a real browser: a person logs in, sees the apps, and sees them change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes import until
from ordersworker import Worker, working
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from servers.browser import browser, complaints

pytestmark = pytest.mark.spark
HOSTILE = "@App:name('Hostile') define stream In (a int); from <img src=x onerror=alert(1)> select a insert into Out;"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("worker")) as made:
        yield made


@pytest.fixture
def page(worker: Worker, tmp_path: Path) -> Iterator[Chrome]:
    with browser(tmp_path) as made:
        made.get(worker.url("/"))
        yield made


def login(page: Chrome, password: str) -> None:
    until(lambda: page.find_element(By.ID, "login").is_displayed())
    for name, value in (("username", "admin"), ("password", password)):
        field = page.find_element(By.NAME, name)
        field.clear()
        field.send_keys(value)
    page.find_element(By.CSS_SELECTOR, "#login button").click()


def texts(page: Chrome, app: str) -> list[str]:
    """The cells of an app's row; empty where it has none."""
    return page.execute_script(
        "return [...document.querySelectorAll(`tr[data-app='${arguments[0]}'] td`)].map((cell) => cell.innerText)", app
    )


def test_a_stranger_sees_a_form_and_no_app(page: Chrome):
    until(lambda: page.find_element(By.ID, "login").is_displayed())
    assert not page.find_element(By.ID, "apps").is_displayed()
    login(page, "wrong")
    until(lambda: "wrong" in page.find_element(By.ID, "refused").text)
    assert not page.find_element(By.ID, "apps").is_displayed()


def test_a_person_logs_in_sees_apps_at_work_and_why_one_is_not(worker: Worker, page: Chrome):
    login(page, worker.password)
    until(lambda: page.find_element(By.ID, "apps").is_displayed())
    until(lambda: page.find_element(By.ID, "empty").is_displayed())

    assert worker.ask("POST", "/siddhi-apps", content=worker.text()).status_code == 201
    (worker.home / "deployment/siddhi-files/Hostile.siddhi").write_text(HOSTILE)
    worker.node.until(lambda: worker.active("Orders"))
    for volume in (7, 5):
        worker.feed("IBM", volume)
    worker.node.until(lambda: worker.totals() == [7, 12])
    until(lambda: texts(page, "Orders")[1:4] == ["active", "2", "2"])
    until(lambda: page.find_elements(By.CSS_SELECTOR, "tr[data-app='Orders'] svg polyline"))
    until(lambda: texts(page, "Hostile") and texts(page, "Hostile")[1].startswith("inactive"))
    assert "<img" in texts(page, "Hostile")[1]  # as text, not as a picture
    assert not page.find_elements(By.TAG_NAME, "img")
    assert page.find_element(By.ID, "node").text == "node-1"
    # the page asks once without a token: a worker whose `authEnable` is false wants none
    assert [said for said in complaints(page) if "/status/apps" not in said] == []


def test_after_logging_out_the_token_is_worth_nothing(worker: Worker, page: Chrome):
    login(page, worker.password)
    until(lambda: page.find_element(By.ID, "leave").is_displayed())
    before = page.execute_script("return token")
    page.find_element(By.ID, "leave").click()
    until(lambda: page.find_element(By.ID, "login").is_displayed())
    asked = "return fetch('status/apps', {headers: {Authorization: `Bearer ${arguments[0]}`}}).then((a) => a.status)"
    until(lambda: page.execute_script(asked, before) == 401)
