"""`/simulation`: every path, with every code that it may answer."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from simulation_build import STOCK, Client, FakeTarget, FakeTargets, StillClock, chance, config, schema, simulator

from nadi.server.rest import simulation
from nadi.server.security.permissions import SIM, Needed, needed_of
from nadi.server.simulation import targets as targets_module
from nadi.server.simulation.csvfiles import LARGEST
from nadi.server.simulation.databases import Questions

EVENT = {"streamName": "In", "siddhiAppName": "Stocks", "timestamp": "1500", "data": ["IBM", "75.5", "100"]}


@pytest.fixture
def app() -> FakeTarget:
    return FakeTarget(In=STOCK, Flags=schema(on="bool", n="int"))


# ---- POST /single ----------------------------------------------------------------------------------------------------


def test_post_single_is_200_and_values_are_converted_from_their_text_form(client: Client, app: FakeTarget):
    answer = client.ask("POST", "/single", EVENT)
    assert (answer.status_code, answer.json()["status"]) == (200, "OK")
    assert client.code("POST", "/single", {**EVENT, "timestamp": 0, "data": ["WSO2", 1, None]}) == 200
    assert app.sent == [("In", 1500, ("IBM", 75.5, 100)), ("In", 0, ("WSO2", 1.0, None))]
    assert client.code("POST", "/single", {**EVENT, "streamName": "Flags", "data": ["TRUE", "-3"]}) == 200
    assert app.sent[-1] == ("Flags", 1500, (True, -3))


@pytest.mark.parametrize("given", [{}, {"timestamp": None}, {"timestamp": ""}])
def test_post_single_without_a_timestamp_has_the_time_of_now(client: Client, app: FakeTarget, given: dict[str, Any]):
    before = int(time.time() * 1000)
    event = {k: v for k, v in EVENT.items() if k != "timestamp"}
    assert client.code("POST", "/single", {**event, **given}) == 200
    assert before <= app.sent[0][1] <= int(time.time() * 1000)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"siddhiAppName": "Other"}, "no active Siddhi App 'Other'"),
        ({"streamName": "Other"}, "no stream 'Other'"),
        ({"data": ["IBM", "75.5"]}, "3 attributes, 2 values"),
        ({"data": ["IBM", "75.5", "100", "1"]}, "3 attributes, 4 values"),
        ({"data": ["IBM", "cheap", "100"]}, "'price' is a double, and 'cheap'"),
        ({"data": ["IBM", "75.5", "1.5"]}, "'volume' is a long, and '1.5'"),
        ({"data": ["IBM", "75.5", "9223372036854775808"]}, "'volume' is a long"),
        ({"data": ["IBM", "75.5", True]}, "'volume' is a long"),
        ({"data": [["IBM"], "75.5", "1"]}, "'symbol' is a string"),
        ({"streamName": "Flags", "data": ["maybe", "1"]}, "'on' is a bool, and 'maybe'"),
        ({"streamName": "Flags", "data": ["true", "2147483648"]}, "'n' is a int"),
        ({"timestamp": -1}, "at least 0"),
        ({"timestamp": "soon"}, "'timestamp'"),
        ({"data": None}, "'data' is a list"),
        ({"streamName": ""}, "'streamName' is missing"),
        ({"siddhiAppName": None}, "'siddhiAppName' is missing"),
    ],
)
def test_post_single_is_500_for_whatever_is_wrong_and_nothing_is_sent(
    client: Client, app: FakeTarget, change: dict[str, Any], reason: str
):
    answer = client.ask("POST", "/single", {**EVENT, **change})
    assert (answer.status_code, answer.json()["status"]) == (500, "INTERNAL_SERVER_ERROR")
    assert reason in answer.json()["message"]
    assert app.sent == []


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000])
def test_post_single_is_500_for_a_body_that_is_no_object(client: Client, body: bytes):
    assert client.code("POST", "/single", body) == 500


def test_a_stream_whose_state_cannot_be_found_is_500(client: Client, app: FakeTarget):
    app.problems["In"] = "may differ"
    assert "may differ" in client.ask("POST", "/single", EVENT).json()["message"]


def test_post_single_is_500_while_the_app_takes_nothing_and_much_waits(
    client: Client, app: FakeTarget, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(targets_module, "WAITING", 2)
    app.holds = True
    codes = [client.code("POST", "/single", EVENT) for _ in range(4)]
    assert codes == [200, 200, 200, 500]
    app.take()
    assert client.code("POST", "/single", EVENT) == 200


# ---- /feed -----------------------------------------------------------------------------------------------------------


def test_post_feed_is_201_and_kept_as_a_file_that_is_read_again(client: Client, tmp_path: Path, targets: FakeTargets):
    assert client.code("POST", "/feed", config()) == 201
    kept = json.loads((tmp_path / "simulation-configs" / "feed.json").read_text())
    assert kept == config()
    other = Client(simulator(tmp_path, targets))
    assert other.code("GET", "/feed/feed") == 200
    other.simulator.close()


def test_post_feed_is_409_where_an_active_simulation_has_the_name(client: Client):
    assert client.code("POST", "/feed", config()) == 201
    assert client.code("POST", "/feed", config()) == 409


def test_post_feed_is_201_and_the_simulation_inactive_where_the_app_is_not_there_yet(client: Client):
    wanted = config("later", chance("Later"))
    assert client.code("POST", "/feed", wanted) == 201
    found = client.message("/feed")
    assert found["activeSimulations"] == []
    (inactive,) = found["inActiveSimulations"]
    assert "no active Siddhi App 'Later'" in inactive.pop("exceptionReason")
    assert inactive == wanted
    assert client.code("POST", "/feed", wanted) == 201  # an inactive one may be replaced


@pytest.mark.parametrize(
    "wanted",
    [
        {"properties": {}, "sources": [chance()]},
        config("../feed"),
        config(".feed"),
        config("a/b"),
        config(sources=1) | {"sources": []},
        config() | {"sources": [chance()] * 101},
        config(timeInterval=-1),
        config(timeInterval="soon"),
        config(noOfEvents=-2),
        config(startTimestamp=5, endTimestamp=4),
        config("feed", {**chance(), "simulationType": "OTHER"}),
        config("feed", {**chance(), "attributeConfiguration": []}),
        config("feed", {**chance(), "attributeConfiguration": [{}] * 1_001}),
        config("feed", {**chance(), "siddhiAppName": ""}),
        config(
            "feed",
            {"simulationType": "CSV_SIMULATION", "siddhiAppName": "A", "streamName": "S", "fileName": "../x.csv"},
        ),
        config(
            "feed",
            {
                "simulationType": "CSV_SIMULATION",
                "siddhiAppName": "A",
                "streamName": "S",
                "fileName": "x.csv",
                "timestampAttribute": "0",
            },
        ),
    ],
)
def test_post_feed_is_500_for_what_is_no_simulation(client: Client, wanted: dict[str, Any]):
    assert client.code("POST", "/feed", wanted) == 500
    assert client.message("/feed") == {"activeSimulations": [], "inActiveSimulations": []}


def test_get_feed_is_200_with_active_and_inactive_simulations(client: Client):
    client.ask("POST", "/feed", config("b"))
    client.ask("POST", "/feed", config("a"))
    client.ask("POST", "/feed", config("c", chance("Later")))
    found = client.message("/feed")
    assert [each["properties"]["simulationName"] for each in found["activeSimulations"]] == ["a", "b"]
    assert [each["properties"]["simulationName"] for each in found["inActiveSimulations"]] == ["c"]


def test_get_feed_of_a_name_is_200_or_404(client: Client):
    client.ask("POST", "/feed", config())
    assert client.message("/feed/feed") == {"Simulation configuration": config()}
    assert client.code("GET", "/feed/other") == 404


def test_put_feed_is_200_404_or_500_and_may_rename(client: Client, tmp_path: Path):
    client.ask("POST", "/feed", config())
    client.ask("POST", "/feed", config("taken"))
    assert client.code("PUT", "/feed/feed", config(timeInterval=5)) == 200
    assert client.message("/feed/feed")["Simulation configuration"]["properties"]["timeInterval"] == 5
    assert client.code("PUT", "/feed/other", config("other")) == 404
    assert client.code("PUT", "/feed/feed", config(timeInterval=-5)) == 500
    assert client.code("PUT", "/feed/feed", config("renamed")) == 200
    assert client.code("GET", "/feed/feed") == 404
    assert sorted(path.name for path in (tmp_path / "simulation-configs").iterdir()) == ["renamed.json", "taken.json"]
    assert client.code("PUT", "/feed/renamed", config("taken")) == 500


def test_delete_feed_is_200_or_404_and_stops_it(client: Client, clock: StillClock, tmp_path: Path):
    client.ask("POST", "/feed", config())
    assert client.code("POST", "/feed/feed?action=run") == 200
    assert client.code("DELETE", "/feed/feed") == 200
    assert client.code("DELETE", "/feed/feed") == 404
    assert list((tmp_path / "simulation-configs").iterdir()) == []


# ---- actions ---------------------------------------------------------------------------------------------------------


def status(client: Client) -> str:
    answer = client.ask("GET", "/feed/feed/status")
    assert answer.status_code == 200
    said: str = answer.json()["message"]
    return said


def test_post_feed_action_walks_through_the_states(client: Client, app: FakeTarget, clock: StillClock):
    client.ask("POST", "/feed", config(timeInterval=1_000))
    assert status(client) == "STOP"
    for action, code, then in [
        ("pause", 403, "STOP"),
        ("resume", 403, "STOP"),
        ("stop", 409, "STOP"),
        ("run", 200, "RUN"),
        ("run", 409, "RUN"),
        ("resume", 409, "RUN"),
        ("pause", 200, "PAUSE"),
        ("pause", 409, "PAUSE"),
        ("run", 403, "PAUSE"),
        ("resume", 200, "RUN"),
        ("PAUSE", 200, "PAUSE"),
        ("stop", 200, "STOP"),
        ("run", 200, "RUN"),
        ("stop", 200, "STOP"),
    ]:
        assert (client.code("POST", f"/feed/feed?action={action}"), status(client)) == (code, then), action


@pytest.mark.parametrize("query", ["?action=begin", "?action=", ""])
def test_post_feed_action_is_400_for_another_action(client: Client, query: str):
    client.ask("POST", "/feed", config())
    assert client.code("POST", f"/feed/feed{query}") == 400


@pytest.mark.parametrize("action", ["run", "pause", "resume", "stop"])
def test_post_feed_action_is_404_where_there_is_no_such_simulation(client: Client, action: str):
    assert client.code("POST", f"/feed/other?action={action}") == 404


def test_post_feed_action_run_is_403_with_the_reason_while_a_simulation_is_inactive(client: Client):
    client.ask("POST", "/feed", config("feed", chance("Later")))
    answer = client.ask("POST", "/feed/feed?action=run")
    assert answer.status_code == 403
    assert "no active Siddhi App 'Later'" in answer.json()["message"]
    assert client.code("POST", "/feed/feed?action=stop") == 409


def test_post_feed_action_run_is_409_for_an_eleventh_and_names_those_that_run(tmp_path: Path, targets: FakeTargets):
    client = Client(simulator(tmp_path, targets, StillClock))
    for n in range(11):
        client.ask("POST", "/feed", config(f"feed{n}"))
    for n in range(10):
        assert client.code("POST", f"/feed/feed{n}?action=run") == 200
    answer = client.ask("POST", "/feed/feed10?action=run")
    assert answer.status_code == 409
    assert "feed9" in answer.json()["message"]
    assert client.code("POST", "/feed/feed3?action=stop") == 200
    assert client.code("POST", "/feed/feed10?action=run") == 200
    client.simulator.close()


def test_get_feed_status_is_200_or_404_and_error_with_the_reason_where_a_feed_fails(
    client: Client, targets: FakeTargets, clock: StillClock
):
    assert client.code("GET", "/feed/feed/status") == 404
    client.ask("POST", "/feed", config(timeInterval=1_000))
    client.ask("POST", "/feed/feed?action=run")
    clock.settle()
    del targets.apps["Stocks"]
    clock.advance(1.0)
    feed = client.simulator.simulations._known["feed"].feed
    assert feed is not None
    feed._thread.join(60)
    assert status(client) == "ERROR"
    assert "no active Siddhi App" in client.message("/feed/feed/details")["problem"]


# ---- files -----------------------------------------------------------------------------------------------------------


def test_post_files_is_201_and_409_where_there_is_one(client: Client, tmp_path: Path):
    assert client.upload("POST", "/files", "prices 1.csv", b"one") == 201
    assert (tmp_path / "csv-files" / "prices 1.csv").read_bytes() == b"one"
    assert client.upload("POST", "/files", "prices 1.csv", b"two") == 409
    assert client.ask("GET", "/files").json() == ["prices 1.csv"]


@pytest.mark.parametrize("name", ["prices.txt", "../prices.csv", "a/b.csv", ".csv", ".x.csv", "", "é.csv", "a\\b.csv"])
def test_post_files_is_400_for_a_name_that_is_none(client: Client, tmp_path: Path, name: str):
    assert client.upload("POST", "/files", name) == 400
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_post_files_is_400_without_a_file(client: Client):
    assert client.code("POST", "/files", files={"other": ("a.csv", b"")}) == 400
    assert client.code("POST", "/files", data={"file": "a.csv"}) == 400
    assert client.code("POST", "/files", b"no form") == 400
    form = {"content-type": "multipart/form-data; boundary=b"}
    assert client.code("POST", "/files", content=b"--b\r\nbroken", headers=form) == 400


def test_post_and_put_files_are_403_over_the_size(client: Client):
    assert client.upload("POST", "/files", "a.csv", b"x" * (LARGEST + 1)) == 403
    assert client.upload("POST", "/files", "a.csv", b"x" * LARGEST) == 201
    assert client.upload("PUT", "/files/a.csv", "a.csv", b"x" * (LARGEST + 1)) == 403


def test_put_files_is_200_404_or_400(client: Client, tmp_path: Path):
    assert client.upload("PUT", "/files/a.csv", "a.csv") == 404
    client.upload("POST", "/files", "a.csv", b"one")
    assert client.upload("PUT", "/files/a.csv", "a.csv", b"two") == 200
    assert (tmp_path / "csv-files" / "a.csv").read_bytes() == b"two"
    assert client.code("PUT", "/files/a.csv", files={"other": ("a.csv", b"")}) == 400


def test_get_files_lists_names_and_delete_files_is_200_or_404(client: Client):
    assert client.ask("GET", "/files").json() == []
    client.upload("POST", "/files", "a.csv")
    assert client.code("DELETE", "/files/a.csv") == 200
    assert client.code("DELETE", "/files/a.csv") == 404


def test_links_in_the_folder_of_files_are_neither_listed_nor_read_nor_removed(client: Client, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("IBM,1,1\n")
    (tmp_path / "csv-files" / "link.csv").symlink_to(secret)
    assert client.ask("GET", "/files").json() == []
    assert client.upload("PUT", "/files/link.csv", "link.csv", b"x") == 404
    assert client.code("DELETE", "/files/link.csv") == 404
    source = {"simulationType": "CSV_SIMULATION", "siddhiAppName": "Stocks", "streamName": "In", "fileName": "link.csv"}
    client.ask("POST", "/feed", config("feed", source))
    (inactive,) = client.message("/feed")["inActiveSimulations"]
    assert "no file 'link.csv'" in inactive["exceptionReason"]
    assert secret.read_text() == "IBM,1,1\n"


# ---- databases -------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> dict[str, str]:
    with sqlite3.connect(tmp_path / "prices.db") as connection:
        connection.execute('create table "odd ""name" (at integer, symbol text, price real, volume integer)')
        connection.execute('create view seen as select at from "odd ""name"')
    connection.close()
    return {"driver": "", "dataSourceLocation": "jdbc:sqlite:prices.db", "username": "", "password": ""}


def test_connect_to_database_is_200_or_500(client: Client, database: dict[str, str]):
    assert client.code("POST", "/connectToDatabase", database) == 200
    for wrong in ("jdbc:sqlite:none.db", "jdbc:sqlite:/etc/passwd", "jdbc:sqlite:../x.db", "jdbc:oracle:thin:x", ""):
        assert client.code("POST", "/connectToDatabase", {**database, "dataSourceLocation": wrong}) == 500
    assert client.code("POST", "/connectToDatabase", b"no json") == 500


def test_retrieve_table_names_is_200_with_a_list_or_400(client: Client, database: dict[str, str]):
    answer = client.ask("POST", "/connectToDatabase/retrieveTableNames", database)
    assert (answer.status_code, answer.json()) == (200, ['odd "name', "seen"])
    wrong = {**database, "dataSourceLocation": "jdbc:sqlite:none.db"}
    assert client.code("POST", "/connectToDatabase/retrieveTableNames", wrong) == 400


def test_retrieve_column_names_is_200_with_a_list_or_400(client: Client, database: dict[str, str]):
    path = "/connectToDatabase/{}/retrieveColumnNames"
    answer = client.ask("POST", path.format('odd "name'), database)
    assert (answer.status_code, answer.json()) == (200, ["at", "symbol", "price", "volume"])
    assert client.code("POST", path.format("sqlite_master"), database) == 400
    assert client.code("POST", path.format("seen; drop table x"), database) == 400


def test_a_database_that_does_not_answer_holds_up_nobody(tmp_path: Path, targets: FakeTargets):
    made = simulator(tmp_path, targets)
    object.__setattr__(made, "questions", Questions(within=0.1, at_a_time=2))
    client = Client(made)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"jdbc:mysql://127.0.0.1:{silent.getsockname()[1]}/x"
        asked = {"driver": "", "dataSourceLocation": url, "username": "u", "password": "p"}
        said = [client.ask("POST", "/connectToDatabase", asked).json()["message"] for _ in range(3)]
        assert "did not answer" in said[0]
        assert "wait for an answer already" in said[2]
        assert client.code("POST", "/single", EVENT) == 200
    made.close()


def test_passwords_are_not_shown_and_stay_where_a_simulation_is_changed(
    client: Client, database: dict[str, str], tmp_path: Path
):
    source = {
        **database,
        "password": "secret",
        "simulationType": "DATABASE_SIMULATION",
        "siddhiAppName": "Stocks",
        "streamName": "In",
        "tableName": 'odd "name',
    }
    client.ask("POST", "/feed", config("feed", source))
    assert "secret" not in client.ask("GET", "/feed").text + client.ask("GET", "/feed/feed").text
    shown = client.message("/feed/feed")["Simulation configuration"]
    assert client.code("PUT", "/feed/feed", shown) == 200
    kept = tmp_path / "simulation-configs" / "feed.json"
    assert json.loads(kept.read_text())["sources"][0]["password"] == "secret"
    assert kept.stat().st_mode & 0o777 == 0o600
    elsewhere = {**shown, "sources": [{**shown["sources"][0], "dataSourceLocation": "jdbc:mysql://evil/x"}]}
    assert client.code("PUT", "/feed/feed", elsewhere) == 500
    assert client.code("POST", "/feed", {**shown, "properties": {"simulationName": "other"}}) == 500


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_every_route_says_which_permission_of_the_simulator_it_takes(client: Client):
    view, manage = [Needed((SIM.view, SIM.manage))], [Needed((SIM.manage,))]
    found = {
        f"{method} {route.path.removeprefix('/simulation')}": needed_of(route.dependencies)
        for route in simulation.routes(client.simulator).routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert found == {
        "POST /single": [Needed(lets="users")],
        "POST /feed": manage,
        "GET /feed": view,
        "GET /feed/{name}": view,
        "PUT /feed/{name}": manage,
        "DELETE /feed/{name}": manage,
        "POST /feed/{name}": manage,
        "GET /feed/{name}/status": view,
        "GET /feed/{name}/details": view,
        "POST /files": manage,
        "PUT /files/{file}": manage,
        "GET /files": view,
        "DELETE /files/{file}": manage,
        "POST /connectToDatabase": manage,
        "POST /connectToDatabase/retrieveTableNames": manage,
        "POST /connectToDatabase/{table}/retrieveColumnNames": manage,
    }
