"""Sinks with two data centres, against two real brokers: the same rows with the same numbers in both, as long as both are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from centre_brokers import EAST, WEST, Centres, away, source, stored, written
from eventually import eventually
from log_contract import payloads
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Place, Sink
from nadi.io.natsserver import NatsServer
from nadi.io.registry import make_ingress, open_log, open_sink


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path / "state")


def opened(centres: Centres, place: Place, **options: str) -> Sink:
    more = {name.replace("_", "."): value for name, value in options.items()}
    return open_sink(connector(centres.kind.lower(), {**centres.options, **more}), place)


def identities(centres: Centres, centre: int) -> list[tuple[str, str]]:
    names = ("Nadi-Producer", "Nadi-Number")
    log = centres.log(centre, names)
    try:
        return [
            (properties[names[0]], properties[names[1]])
            for piece in log.read(0, log.beginning(0), log.end(0))
            for properties in piece.properties
        ]
    finally:
        log.close()


def test_both_centres_get_the_same_rows_with_the_same_publisher_and_numbers(centres: Centres, place: Place) -> None:
    sink = opened(centres, place)
    written(sink, 1, ["a", "b"], 0)
    written(sink, 2, ["c"], 2)
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b", "c"]] * 2
    west, east = (identities(centres, c) for c in (WEST, EAST))
    assert west == east
    ((publisher, _), *_) = west
    assert publisher.startswith(f"{place.app}/S/0/0@")
    assert [number for _, number in west] == ["0", "1", "2"]
    sink.close()


def test_a_cut_that_is_written_again_is_in_each_centre_once(centres: Centres, place: Place) -> None:
    sink = opened(centres, place)
    written(sink, 1, ["a", "b"], 0)
    sink.write(delivery(2, ["c", "d"], 2))  # the node dies before the commit
    again = opened(centres, place)
    written(again, 2, ["c", "d"], 2)
    written(again, 3, ["e"], 4)
    assert [stored(centres, c) for c in (WEST, EAST)] == [["a", "b", "c", "d", "e"]] * 2
    again.close()


def test_a_state_folder_that_begins_anew_is_another_incarnation_of_the_publisher(
    centres: Centres, place: Place, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        sink = opened(centres, Place(place.app, tmp_path / folder), sequence_id="alerts")
        written(sink, 1, ["a"], 0)
        sink.close()
    (one, first), (two, second) = identities(centres, WEST)
    assert one != two
    assert (first, second) == ("0", "0")
    assert {name.partition("@")[0] for name in (one, two)} == {"alerts/0"}


def test_a_centre_that_is_away_holds_nothing_up_and_is_written_to_again_when_it_is_back(
    centres: Centres, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    sink = opened(centres, place, away_after="1500")
    written(sink, 1, ["a"], 0)
    centres.kill(EAST)
    written(sink, 2, ["b"], 1)
    written(sink, 3, ["c"], 2)
    assert stored(centres, WEST) == ["a", "b", "c"]
    assert len(away()) == 1
    centres.start(EAST)
    cut = 3

    def is_back() -> bool:
        nonlocal cut
        cut += 1
        written(sink, cut, [str(cut)], cut - 1)
        return away() == []

    eventually(is_back, 90)
    is_back()  # the one before may have been written beside the cuts
    whole = ["a", "b", "c", *map(str, range(4, cut + 1))]
    assert stored(centres, WEST) == whole
    east = stored(centres, EAST)
    assert east[0] == "a"
    assert east[-1] == str(cut)
    assert east == [name for name in whole if name in set(east)]  # in order, and none twice
    assert any("is away" in r.message for r in caplog.records)
    assert any("is there again" in r.message for r in caplog.records)
    sink.close()


def test_where_no_centre_is_there_the_cut_is_written_again(centres: Centres, place: Place) -> None:
    sink = opened(centres, place)
    written(sink, 1, ["a"], 0)
    sink.close()
    sink = opened(centres, place, away_after="500")
    for centre in (WEST, EAST):
        centres.kill(centre)
    with pytest.raises(ConnectionUnavailableException, match="no centre"):
        sink.write(delivery(2, ["b"], 1))
    for centre in (WEST, EAST):
        centres.start(centre)

    def goes() -> bool:
        try:
            written(sink, 2, ["b"], 1)
        except ConnectionUnavailableException:
            return False
        return True

    eventually(goes, 90)
    written(sink, 3, ["c"], 2)
    found = [stored(centres, c) for c in (WEST, EAST)]
    assert max(found, key=len) == ["a", "b", "c"]
    assert all(each == [n for n in ("a", "b", "c") if n in set(each)] for each in found)
    sink.close()


def test_what_the_sink_publishes_the_source_takes_once(centres: Centres, place: Place, nats: NatsServer) -> None:
    reader = Place(place.app, place.state, nats.url)
    ingress = make_ingress(source(centres), reader)
    assert ingress is not None
    ingress.start()
    sink = opened(centres, place, away_after="1500")
    body = '{{"event":{{"name":"a","size":{}}}}}'.format
    written(sink, 1, [body(n) for n in range(5)], 0)
    centres.kill(WEST)
    written(sink, 2, [body(n) for n in range(5, 8)], 5)
    centres.start(WEST)
    for cut in range(3, 12):
        written(sink, cut, [body(cut + 5)], cut + 5)
    log = open_log(source(centres), reader)
    eventually(lambda: len(payloads(log)) == 17, 90)
    ingress.stop()
    sink.close()
    assert payloads(log) == [body(n).encode() for n in range(17)]


def test_a_message_that_no_centre_takes_stops_the_app_or_is_left_out_as_the_sink_says(
    centres: Centres, place: Place
) -> None:
    large = "x" * 20_000_000
    sink = opened(centres, place)
    with pytest.raises(NadiError, match="larg") as failure:
        sink.write(delivery(1, ["a", large], 0))
    assert failure.value.condition == "REFUSED"
    sink.close()
    forgiving = opened(centres, Place(f"{place.app}2", place.state / "other"), on_error="STORE")
    receipt = forgiving.write(delivery(1, ["a", large, "b"], 0))
    assert [refusal.index for refusal in receipt.refused] == [1]
    forgiving.commit(1, [receipt])
    assert [stored(centres, c)[-2:] for c in (WEST, EAST)] == [["a", "b"]] * 2
    forgiving.close()
