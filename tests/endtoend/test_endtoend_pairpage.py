"""The status pages of both nodes of a real pair, in a real browser, while a node is lost and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pairnodes import PairNode, pair
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from servers.browser import browser, complaints

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WITHOUT_TOKEN = "/status/apps"  # a page asks once without one: a node whose `authEnable` is false wants none


class Page:
    """The page of a node, for somebody who has logged in."""

    def __init__(self, node: PairNode, page: Chrome) -> None:
        self.page, self.node = page, node
        page.get(node.url)

    def log_in(self) -> bool:
        """Whether the form was there to be filled in."""
        if not self.page.find_element(By.ID, "login").is_displayed():
            return False
        for name, value in (("username", "admin"), ("password", self.node.password)):
            self.page.find_element(By.NAME, name).send_keys(value)
        self.page.find_element(By.CSS_SELECTOR, "#login button").click()
        return True

    def says(self, id_: str, wanted: str) -> bool:
        try:
            self.page.execute_script("refresh()")
            text = self.page.execute_script("return document.getElementById(arguments[0]).innerText", id_)
        except WebDriverException:
            return False  # between two pages
        return wanted in str(text)


def test_pages_show_roles_sync_and_alarms_while_a_node_dies_and_comes_back(tmp_path: Path):
    with browser(tmp_path / "one") as one, browser(tmp_path / "two") as two, pair(tmp_path) as made:
        first = made.active()
        second = made.other(first)
        made.in_sync()
        pages = [Page(first, one), Page(second, two)]
        for page in pages:
            made.until(page.log_in)
        active, passive = pages
        made.until(lambda: active.says("role", "active") and active.says("sync", "Both have the same"))
        made.until(lambda: passive.says("role", "passive") and passive.says("sync", "Both have the same"))
        assert active.says("partner", second.id)
        assert not active.says("alarms", " ")
        assert [said for page in (one, two) for said in complaints(page) if WITHOUT_TOKEN not in said] == []

        first.kill()
        made.until(lambda: passive.says("role", "active"))
        made.until(lambda: passive.says("alarms", "alone") and passive.says("sync", "They do not have the same"))

        first.start()
        made.until(lambda: passive.says("sync", "Both have the same") and not passive.says("alarms", " "))
        again = Page(first, one)
        made.until(again.log_in)
        made.until(lambda: again.says("role", "passive") and again.says("sync", "Both have the same"))
