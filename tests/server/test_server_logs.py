"""What a worker logs of its apps and of requests."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from server_build import served
from structlog.testing import capture_logs

from nadi.metrics import AppProgress, Circuit, Said
from nadi.server.applog import AppLog
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.permissions import EVERYBODY


def test_the_lines_of_log_sinks_are_logged_with_their_app_and_the_batch_that_wrote_them():
    with capture_logs() as found:
        AppLog().note(AppProgress("A", "running", 7, said=(Said("an alert", 3), Said("another", 5), Said("compiled"))))
    assert found[0] == {"app": "A", "group": "A", "batch": 3, "event": "an alert", "log_level": "info"}
    assert [(r["event"], r["batch"]) for r in found[1:]] == [("another", 5), ("compiled", 7), ("app running", 7)]


def test_what_changes_with_an_app_is_logged_once():
    log = AppLog()
    away = (Circuit("sink http of Out", "open", reason="refused"),)
    with capture_logs() as found:
        for _ in range(3):
            log.note(AppProgress("A", "running", away={"In": "no broker"}, circuits=away, warnings=("short",)))
        log.note(AppProgress("A", "waiting", last_error="it broke"))
        log.note(AppProgress("A", "running"))
    assert [(r["log_level"], r["event"], r.get("what") or r.get("reason")) for r in found] == [
        ("warning", "short", None),
        ("warning", "cannot be reached", "In"),
        ("warning", "cannot be reached", "sink http of Out"),
        ("info", "app running", None),
        ("info", "can be reached again", "In"),
        ("info", "can be reached again", "sink http of Out"),
        ("warning", "app waiting", "it broke"),
        ("info", "app running", None),
    ]


@pytest.mark.parametrize("given", ["abc-1", "no good", ""])
def test_a_request_has_an_id_and_is_logged_for_debugging_without_its_query(given: str):
    router = APIRouter(dependencies=[EVERYBODY])

    @router.post("/change")
    async def change() -> dict[str, str]:
        return {}

    application = guarded(make_routes("test", [router]), None, Attempts(), ())
    with capture_logs() as found, served(application) as client:
        answer = client.post("/change?token=hush", headers={"X-Request-Id": given})
        client.get("/nothing")
    id_ = answer.headers["x-request-id"]
    assert (id_ == given) == (given == "abc-1")
    told = [r for r in found if r["event"] == "request"]
    assert [(r["log_level"], r["method"], r["path"], r["status"]) for r in told] == [
        ("debug", "POST", "/change", 200),
        ("debug", "GET", "/nothing", 404),
    ]
    assert "hush" not in str(found)
