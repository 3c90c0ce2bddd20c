"""Two clusters run one app, and one of them publishes: the turn is given by a command, and the brokers refuse who does not have it any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from centre_brokers import EAST, WEST, Asleep, Centres, source, stored, written
from eventually import eventually
from log_contract import payloads
from sample import connector
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.errors import NOWHERE, NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Place, Sink
from nadi.io.natsserver import NatsServer
from nadi.io.registry import make_ingress, open_log, open_sink, sink_kind

APP = """
@app:name('Alerts')
@source(type = 'http', receiver.url = 'http://localhost:0/in', @map(type = 'json'))
define stream In (name string, size int);
@sink(type = '{kind}', {place} = '{name}', bootstrap.servers = '{servers}', publish = 'active', centre = '${{CENTRE}}',
      sequence.id = 'alerts', @map(type = 'json'))
define stream Out (name string, size int);
from In select name, size insert into Out;
"""


def cluster(centres: Centres, folder: Path, name: str) -> Sink:
    """The sink of one of the two clusters, which have nothing in common."""
    more = {"publish": "active", "centre": name, "sequence.id": "alerts", "away.after": "2000"}
    return open_sink(connector(centres.kind.lower(), {**centres.options, **more}), Place("Alerts", folder / name))


def switched(centres: Centres, folder: Path, to: str, *more: str) -> tuple[int, str]:
    app = folder / "alerts.siddhi"
    (place,) = set(centres.options) - {"bootstrap.servers"}
    app.write_text(APP.format(kind=centres.kind, place=place, name=centres.name, servers=centres.servers))
    done = CliRunner().invoke(cli, ["centre", "switch", str(app), "--to", to, "--env", f"CENTRE={to}", *more])
    return done.exit_code, done.output


def shown(folder: Path) -> str:
    return CliRunner().invoke(cli, ["centre", "show", str(folder / "alerts.siddhi"), "--env", "CENTRE=west"]).output


def asleep(sink: Sink) -> None:
    """From now on it hears nothing, until it is refused."""
    sink._followers = [Asleep(each) for each in sink._followers]  # type: ignore[attr-defined]


def test_only_the_cluster_whose_turn_it_is_publishes_and_a_switch_loses_and_doubles_nothing(
    centres: Centres, tmp_path: Path
) -> None:
    west, east = (cluster(centres, tmp_path, name) for name in ("west", "east"))
    written(west, 1, ["a"], 0)
    assert stored(centres, WEST) == []  # nobody has the turn yet
    status, said = switched(centres, tmp_path, "west")
    assert status == 0, said
    assert said.count("the turn of 'west' (1)") == 2
    for cut, names, first in ((2, ["b", "c"], 1), (3, ["d"], 3)):
        eventually(lambda: _goes_on(west, cut, names, first, centres))  # noqa: B023
    for cut, names, first in ((1, ["a"], 0), (2, ["b"], 1), (3, ["c", "d", "e"], 2), (4, ["f"], 5)):
        written(east, cut, names, first)  # it cuts otherwise, and is further
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b", "c", "d"]] * 2
    status, said = switched(centres, tmp_path, "east")
    assert status == 0, said
    assert shown(tmp_path).count("the turn of 'east' (2)") == 2

    cut = 5
    eventually(lambda: _goes_on(east, cut, ["g"], 6, centres))
    whole = ["a", "b", "c", "d", "e", "f", "g"]
    assert [stored(centres, c) for c in (WEST, EAST)] == [whole] * 2
    written(west, 4, ["e", "f"], 4)  # it has not heard of it, or has: the rows are not published again
    written(west, 5, ["g", "h"], 6)
    assert [stored(centres, c) for c in (WEST, EAST)] == [whole] * 2
    west.close()
    east.close()


def _goes_on(sink: Sink, cut: int, names: Sequence[str], first: int, centres: Centres, centre: int = WEST) -> bool:
    """Write a cut, again and again, until it is published."""
    written(sink, cut, names, first)
    return names[-1] in stored(centres, centre)


def test_a_cluster_that_slept_through_the_switch_is_refused_by_the_brokers(centres: Centres, tmp_path: Path) -> None:
    assert switched(centres, tmp_path, "west")[0] == 0
    west, east = (cluster(centres, tmp_path, name) for name in ("west", "east"))
    written(west, 1, ["a"], 0)
    asleep(west)
    assert switched(centres, tmp_path, "east")[0] == 0
    written(east, 1, ["a", "b"], 0)
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b"]] * 2
    written(west, 2, ["b", "c"], 1)
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b"]] * 2
    written(east, 2, ["c"], 2)
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b", "c"]] * 2
    west.close()
    east.close()


def test_a_switch_while_a_broker_is_away_has_to_be_asked_for_and_readers_take_every_row_once(
    centres: Centres, tmp_path: Path, nats: NatsServer
) -> None:
    assert switched(centres, tmp_path, "west")[0] == 0
    west, east = (cluster(centres, tmp_path, name) for name in ("west", "east"))
    body = '{{"event":{{"name":"a","size":{}}}}}'.format
    written(west, 1, [body(n) for n in range(3)], 0)
    centres.kill(WEST)
    status, said = switched(centres, tmp_path, "east")
    assert status != 0
    status, said = switched(centres, tmp_path, "east", "--accept-loss")
    assert status == 0, said
    assert "away; who had the turn may still publish there" in said
    written(east, 1, [body(n) for n in range(5)], 0)
    assert stored(centres, EAST) == [body(n) for n in range(5)]
    centres.start(WEST)
    place = Place("Reader", tmp_path, nats.url)
    ingress = make_ingress(source(centres), place)
    assert ingress is not None
    ingress.start()
    log = open_log(source(centres), place)
    eventually(lambda: len(payloads(log)) == 5, 60)
    ingress.stop()
    assert sorted(p for p in payloads(log) if isinstance(p, bytes)) == [body(n).encode() for n in range(5)]
    west.close()
    east.close()


def test_who_had_the_turn_is_refused_at_a_server_that_was_away_when_it_was_given_as_soon_as_the_new_one_reaches_it(
    centres: Centres, tmp_path: Path
) -> None:
    assert switched(centres, tmp_path, "west")[0] == 0
    west, east = (cluster(centres, tmp_path, name) for name in ("west", "east"))
    written(west, 1, ["a"], 0)
    written(east, 1, ["a"], 0)
    asleep(west)
    centres.kill(WEST)
    assert switched(centres, tmp_path, "east", "--accept-loss")[0] == 0
    cut = 2
    eventually(lambda: _goes_on(east, cut, ["b"], 1, centres, EAST))
    centres.start(WEST)

    def reached() -> bool:
        nonlocal cut
        cut += 1
        written(east, cut, [str(cut)], cut - 1)
        try:
            return str(cut) in stored(centres, WEST)
        except ConnectionUnavailableException:
            return False  # it has come back only just

    eventually(reached, 90)
    assert shown(tmp_path).count("the turn of 'east' (2)") == 2  # the new one has told that server, too
    for late in range(2, cut + 3):
        written(west, late, [str(late)], late - 1)
    found = [stored(centres, c) for c in (WEST, EAST)]
    assert found[EAST] == ["a", "b", *map(str, range(3, cut + 1))]
    assert found[WEST] == [name for name in found[EAST] if name in set(found[WEST])]  # in order, none twice
    west.close()
    east.close()


@pytest.mark.parametrize("kind", ["kafkamultidc", "natsmultidc"])
def test_who_takes_turns_says_which_centre_it_is(kind: str) -> None:
    place = "topic" if kind.startswith("kafka") else "destination"
    options = {place: "t", "bootstrap.servers": "a:1,b:1", "publish": "active"}
    for given in ({}, {"centre": "west"}, {"sequence.id": "x"}):
        with pytest.raises(NadiError) as failure:
            sink_kind(kind).check(connector(kind, {**options, **given}), NOWHERE)
        assert failure.value.condition == "OPTION_MISSING"


def test_an_app_without_turns_says_so(tmp_path: Path) -> None:
    app = tmp_path / "plain.siddhi"
    app.write_text("@app:name('Plain') define stream In (a int); from In select a insert into Out;")
    done = CliRunner().invoke(cli, ["centre", "show", str(app)])
    assert done.exit_code != 0
