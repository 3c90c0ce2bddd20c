"""The pages of nodes, as they are sent to a browser."""

from __future__ import annotations

from importlib.resources import files

import pytest
from server_build import served

from nadi.server.rest.application import make_routes
from nadi.server.rest.page import GUARDED, LOGIN_FORM, file_routes

FORM = (files("nadi.server") / "pages" / "login.html").read_text()


@pytest.mark.parametrize("name", ["status.html", "cluster.html"])
def test_every_page_has_the_one_log_in_form(name: str):
    with served(make_routes("test", [file_routes(name, ("login.js",))])) as client:
        page = client.get("/")
        assert page.text.count(FORM) == 1
        assert page.text.count("<form") == 1
        assert LOGIN_FORM.decode() not in page.text
        assert {key: page.headers[key] for key in GUARDED} == GUARDED
        assert client.get("/page/login.html").status_code == 404  # it is a part of pages, and none by itself
