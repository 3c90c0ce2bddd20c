"""The status page in a real browser, for users of an identity provider: they log in on a page of it, come back, and log out there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from restworker import RestWorker, rest_worker
from security_build import auth_of
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from servers.browser import browser, complaints
from servers.identityserver import IdentityServer, identity_server
from servers.ports import free_port

WITHIN = 100  # seconds: the machine may be busy
SHOWN = (
    "const found = document.getElementById(arguments[0]); return found !== null && found.closest('[hidden]') === null"
)


@dataclass
class World:
    idp: IdentityServer
    worker: RestWorker
    page: Chrome

    def is_shown(self, id_: str) -> bool:
        return bool(self.page.execute_script(SHOWN, id_))

    def text(self, id_: str) -> str:
        return str(self.page.execute_script("return document.getElementById(arguments[0])?.textContent ?? ''", id_))

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait; between two pages there is none that could be asked."""
        WebDriverWait(self.page, WITHIN, ignored_exceptions=(WebDriverException,)).until(lambda _page: holds())

    def waits(self, id_: str) -> None:
        self.until(lambda: self.is_shown(id_))

    def open(self) -> None:
        self.page.get(f"{self.worker.api.base_url}")

    def log_in(self) -> None:
        self.open()
        self.waits("elsewhere")
        self.page.find_element(By.CSS_SELECTOR, "#login button").click()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, port = tmp_path_factory.mktemp("page"), free_port()
    with ExitStack() as running:
        idp = running.enter_context(identity_server())
        # another site than the page: what a browser keeps for the one it does not send from the other without a reason
        idp.url = idp.url.replace("127.0.0.1", "localhost")
        base = f"http://127.0.0.1:{port}"
        logout = {"externalLogoutUrl": f"{idp.url}/logout", "baseUrl": base}
        auth = {"auth.configs": auth_of(idp, **logout)}
        ports = {"wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": port}]}}
        worker = running.enter_context(rest_worker(folder, **auth, **ports))
        worker.deploy("Orders")
        yield World(idp, worker, running.enter_context(browser(Path(folder / "profile"))))


@pytest.fixture(autouse=True)
def heard(world: World) -> None:
    """The console begins empty: that of other tests has been read."""
    complaints(world.page)


def test_a_user_of_a_provider_logs_in_there_comes_back_and_logs_out_there(world: World):
    world.open()
    world.waits("elsewhere")
    assert not world.is_shown("own")  # a password is nothing that this page should see
    assert not world.is_shown("apps")
    world.log_in()
    world.waits("apps")
    assert world.page.current_url == f"{world.worker.api.base_url}/"
    rows = "return [...document.querySelectorAll('tr[data-app] td:first-child')].map((cell) => cell.innerText)"
    assert world.page.execute_script(rows) == ["Orders"]
    assert world.page.execute_script("return document.cookie") == ""  # scripts of other pages find nothing
    token = world.page.execute_script("return token")
    world.page.find_element(By.ID, "leave").click()
    world.until(lambda: world.page.current_url.startswith(f"{world.idp.url}/logout?id_token_hint="))
    world.open()
    world.waits("elsewhere")
    asked = "return fetch('status/apps', {headers: {Authorization: `Bearer ${arguments[0]}`}}).then((a) => a.status)"
    assert world.page.execute_script(asked, token) == 401
    expected = ("/status/apps", "/favicon", "/logout")
    assert [said for said in complaints(world.page) if not any(part in said for part in expected)] == []


def test_a_user_without_the_permission_hears_so(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(world.idp, "browser_user", "nil")
    world.log_in()
    world.until(lambda: "permission" in world.text("refused"))
    assert not world.is_shown("apps")


def test_a_cookie_that_the_page_has_not_from_its_worker_logs_nobody_in(world: World):
    for left in ("x", "%7B%22PID%22:%22a%22%7D", "%"):
        world.open()
        world.waits("elsewhere")
        world.page.execute_script("document.cookie = `USER_DTO=${arguments[0]}; Path=/`", left)
        world.open()
        world.waits("elsewhere")
        assert not world.is_shown("apps")
        assert world.page.execute_script("return document.cookie") == ""


def test_a_provider_that_is_away_is_said_on_the_page(world: World, monkeypatch: pytest.MonkeyPatch):
    def away(_app: str) -> None:
        from nadi.errors import error

        raise error("PROVIDER_UNAVAILABLE", url="x", reason="it is down")

    monkeypatch.setattr(type(world.worker.worker._door.identity.sso), "start", lambda _self, app: away(app))
    world.log_in()
    world.until(lambda: "cannot be asked" in world.text("refused"))
