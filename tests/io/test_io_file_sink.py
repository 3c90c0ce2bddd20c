from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from io_build import connector, output
from io_sabotage import Crash, Saboteur

from nadi.errors import NadiError
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.io.registry import ask_sink, make_sink_mapper, open_sink
from nadi.io.sinks import appender
from nadi.io.sinks.log import new_lines

COLUMNS = "a int, s string"
CUTS = {1: [0, 2], 3: [1], 4: [], 7: [0, 1, 2]}


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are staged, however small they are."""
    monkeypatch.setattr(appender, "CARRIED", -1)


@pytest.fixture(params=["carried", "staged"])
def carried_or_staged(request: pytest.FixtureRequest) -> None:
    """Small outputs travel with their receipts, large ones are staged: the test holds for both."""
    if request.param == "staged":
        request.getfixturevalue("staged")


both = pytest.mark.usefixtures("carried_or_staged")


def sink(kind: str = "json", map_options: dict[str, str] | None = None, **options: str) -> Connector:
    return connector(
        COLUMNS, kind, map_options, type_="file", options={k.replace("_", "."): v for k, v in options.items()}
    )


_made: dict[tuple[str, int, int], Delivery] = {}


def delivery(chosen: Connector, cut: int, bucket: int) -> Delivery:
    """The output of a bucket: the same at every call, as the kernel's is."""
    key = (f"{chosen.type} {chosen.map}", cut, bucket)
    if key not in _made:
        _made[key] = make_delivery(chosen, cut, bucket)
    return _made[key]


def make_delivery(chosen: Connector, cut: int, bucket: int) -> Delivery:
    batch = output(COLUMNS, [(cut * 100 + bucket * 10 + i, "x" * i) for i in range(3)])
    payloads, firsts = make_sink_mapper(chosen).encode(batch)
    return Delivery(bucket, cut, batch, payloads, firsts)


def through_the_driver(receipt: Receipt) -> Receipt:
    assert all(isinstance(v, str | int | bytes) for v in receipt.content.values())
    return Receipt(receipt.bucket, receipt.cut, dict(receipt.content))


def run_cut(chosen: Connector, place: Place, cut: int, buckets: Sequence[int]) -> None:
    target = open_sink(chosen, place)
    receipts = [through_the_driver(target.write(delivery(chosen, cut, bucket))) for bucket in reversed(buckets)]
    target.commit(cut, receipts)
    target.close()


def expected(chosen: Connector, header: bytes = b"") -> bytes:
    lines = [p for cut, buckets in CUTS.items() for b in buckets for p in delivery(chosen, cut, b).payloads]
    return header + b"".join(line + b"\n" for line in lines)


@both
def test_the_output_of_every_cut_is_appended_in_the_order_of_the_buckets(tmp_path: Path) -> None:
    chosen = sink(file_uri=str(tmp_path / "deep/out.json"))
    for cut, buckets in CUTS.items():
        run_cut(chosen, Place("app", tmp_path / "state"), cut, buckets)
    assert (tmp_path / "deep/out.json").read_bytes() == expected(chosen)
    assert list((tmp_path / "state/sinks/0/stage").iterdir()) == []


@pytest.mark.usefixtures("staged")
def test_what_an_attempt_that_died_has_left_goes_within_some_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "SWEEP", 3)
    chosen, place = sink(file_uri=str(tmp_path / "out.json")), Place("app", tmp_path / "state")
    target, folder = open_sink(chosen, place), tmp_path / "state/sinks/0/stage"
    for cut in range(1, 7):
        target.commit(cut, [target.write(delivery(chosen, cut, 0))])
        if cut == 1:
            (folder / "1-7").write_bytes(b"of a bucket whose receipt was lost")
            (folder / ".1-8-17-abcd").write_bytes(b"of an attempt that died")
        assert (len(list(folder.iterdir())) == 0) == (cut >= 4)


@both
def test_a_cut_that_is_written_and_committed_again_has_no_effect(tmp_path: Path) -> None:
    chosen = sink(file_uri=str(tmp_path / "out.json"))
    place = Place("app", tmp_path / "state")
    for cut, buckets in CUTS.items():
        run_cut(chosen, place, cut, buckets)
        run_cut(chosen, place, cut, buckets)
    run_cut(chosen, place, 1, [0])
    assert (tmp_path / "out.json").read_bytes() == expected(chosen)


def test_a_file_that_is_there_is_kept_or_begun_anew(tmp_path: Path) -> None:
    for append, kept in (("true", b"old\n"), ("false", b"")):
        path = tmp_path / append
        path.write_bytes(b"old\n")
        chosen = sink(file_uri=str(path), append=append)
        for cut, buckets in CUTS.items():
            run_cut(chosen, Place("app", tmp_path / f"state-{append}"), cut, buckets)
        assert path.read_bytes() == expected(chosen, kept)


@both
def test_a_csv_file_begins_with_its_header_once(tmp_path: Path) -> None:
    chosen = sink("csv", {"header": "true"}, file_uri=str(tmp_path / "out.csv"))
    for cut, buckets in CUTS.items():
        run_cut(chosen, Place("app", tmp_path / "state"), cut, buckets)
    assert (tmp_path / "out.csv").read_bytes() == expected(chosen, b"a,s\n")


def test_a_target_that_lost_committed_bytes_is_an_error(tmp_path: Path) -> None:
    chosen = sink(file_uri=str(tmp_path / "out.json"))
    place = Place("app", tmp_path / "state")
    run_cut(chosen, place, 1, [0])
    (tmp_path / "out.json").write_bytes(b"x")
    with pytest.raises(NadiError) as e:
        run_cut(chosen, place, 2, [0])
    assert e.value.condition == "TARGET_CHANGED"
    assert (tmp_path / "out.json").read_bytes() == b"x"


@pytest.mark.usefixtures("staged")
def test_a_stage_that_is_gone_or_torn_is_an_error_and_nothing_is_appended(tmp_path: Path) -> None:
    chosen = sink(file_uri=str(tmp_path / "out.json"))
    target = open_sink(chosen, Place("app", tmp_path / "state"))
    receipts = [target.write(delivery(chosen, 1, b)) for b in (0, 1)]
    stage = tmp_path / "state/sinks/0/stage/1-1"
    for damage in (lambda: stage.write_bytes(b"torn"), stage.unlink):
        damage()
        with pytest.raises(NadiError) as e:
            target.commit(1, receipts)
        assert e.value.condition == "STAGE_MISSING"
    assert not (tmp_path / "out.json").exists()


# ---- crashes -------------------------------------------------------------------------------------------------------


def scenario(chosen: Connector, place: Place) -> list[Callable[[], None]]:
    return [lambda cut=cut, buckets=buckets: run_cut(chosen, place, cut, buckets) for cut, buckets in CUTS.items()]  # type: ignore[misc]


def run_with_one_failure(work: list[Callable[[], None]], at: int, how: str) -> int:
    """Runs all cuts; a cut that fails is repeated from the start by "another process". How many steps there were comes back."""
    with pytest.MonkeyPatch.context() as patch:
        saboteur = Saboteur(patch, at, how)
        for cut in work:
            try:
                cut()
            except Crash:
                cut()
            except NadiError as e:
                if (e.condition, how) != ("DISK_FULL", "full"):
                    raise
                cut()
        return saboteur.count


def content(folder: Path) -> dict[str, bytes]:
    """The files; where the lines of a log are is for who looks on, and may be told twice or, after a crash, not."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name != "cuts"}


@both
@pytest.mark.parametrize("how", ["before", "half", "after", "full"])
@pytest.mark.parametrize("kind", ["file", "csv", "log", "folder"])
def test_no_crash_at_any_step_loses_or_doubles_anything(tmp_path: Path, kind: str, how: str) -> None:
    def setting(name: str) -> tuple[Connector, Place, Path]:
        place = Place("app", tmp_path / name / "state")
        out = tmp_path / name / "out"
        out.mkdir(parents=True)
        if kind == "log":
            return connector(COLUMNS, "passThrough", type_="log"), place, place.state / "sinks/0"
        if kind == "folder":
            (place.state / "sinks/0").mkdir(parents=True)
            (place.state / "sinks/0/run.json").write_text('"r"')
            return sink(dir_uri=str(out)), place, out
        mapped = ("csv", {"header": "true"}) if kind == "csv" else ("json", {})
        return sink(*mapped, file_uri=str(out / "all")), place, out

    chosen, place, out = setting("calm")
    steps = run_with_one_failure(scenario(chosen, place), -1, how)
    calm = content(out)
    assert steps > 20
    assert calm
    for at in range(1, steps + 1):
        chosen, place, out = setting(f"{at}")
        run_with_one_failure(scenario(chosen, place), at, how)
        run_with_one_failure(scenario(chosen, place)[-1:], -1, how)  # the last commit may come again
        assert content(out) == calm, f"step {at}"


def test_a_full_disk_has_a_name_and_the_next_try_goes_on(tmp_path: Path) -> None:
    chosen = sink(file_uri=str(tmp_path / "out.json"))
    place = Place("app", tmp_path / "state")
    with pytest.MonkeyPatch.context() as patch:
        Saboteur(patch, 1, "full")
        with pytest.raises(NadiError) as e:
            run_cut(chosen, place, 1, [0])
    assert (e.value.condition, e.value.siddhi_class) == ("DISK_FULL", "ConnectionUnavailableException")
    run_cut(chosen, place, 1, [0])
    assert (tmp_path / "out.json").read_bytes().count(b"\n") == 3


# ---- folders -------------------------------------------------------------------------------------------------------


def test_parquet_comes_as_a_folder_of_parts(tmp_path: Path) -> None:
    chosen = sink("parquet", dir_uri=str(tmp_path / "out"))
    for cut, buckets in CUTS.items():
        run_cut(chosen, Place("app", tmp_path / "state"), cut, buckets)
    parts = sorted(p for p in (tmp_path / "out").iterdir() if p.is_file())
    assert len(parts) == 6
    found = pa.concat_tables([pq.read_table(p) for p in parts])
    assert found.column_names == ["a", "s"]
    assert found.column("a").to_pylist() == [
        cut * 100 + b * 10 + i for cut, buckets in CUTS.items() for b in buckets for i in range(3)
    ]


def test_a_part_that_was_taken_away_does_not_come_again(tmp_path: Path) -> None:
    chosen = sink(dir_uri=str(tmp_path / "out"))
    place = Place("app", tmp_path / "state")
    run_cut(chosen, place, 1, [0])
    [part] = (p for p in (tmp_path / "out").iterdir() if p.is_file())
    part.unlink()
    run_cut(chosen, place, 1, [0])
    assert [p for p in (tmp_path / "out").iterdir() if p.is_file()] == []


def test_two_runs_with_states_of_their_own_share_a_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run_cut(sink(dir_uri=str(tmp_path / "out")), Place("app", tmp_path / name), 1, [0])
    assert len([p for p in (tmp_path / "out").iterdir() if p.is_file()]) == 2


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("json", {}),
        ("json", {"file.uri": "a", "dir.uri": "b"}),
        ("parquet", {"file.uri": "a"}),
        ("json", {"file.uri": "{{s}}.txt"}),
        ("json", {"file.uri": "ftp://a/b"}),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    with pytest.raises(NadiError):
        open_sink(connector(COLUMNS, kind, type_="file", options=options), Place("app", tmp_path))


# ---- log sink, error store -----------------------------------------------------------------------------------------


def test_events_are_shown_as_siddhi_shows_them(tmp_path: Path) -> None:
    place = Place("app", tmp_path)
    chosen = connector(COLUMNS, "passThrough", type_="log")
    batch = output(COLUMNS, [(1, "x"), (None, None)])
    target = open_sink(chosen, place)
    target.commit(1, [target.write(Delivery(0, 1, batch, [], []))])
    lines, seen = new_lines(tmp_path, {})
    assert lines == [
        ("INFO app : S : Event{timestamp=0, data=[1, x], isExpired=false}", 1),
        ("INFO app : S : Event{timestamp=0, data=[null, null], isExpired=false}", 1),
    ]
    other = connector(COLUMNS, "json", type_="log", options={"prefix": "P", "priority": "warn"}, ordinal=1)
    target = open_sink(other, place)
    payloads, firsts = make_sink_mapper(other).encode(batch)
    target.commit(2, [target.write(Delivery(0, 2, batch, payloads, firsts))])
    lines, seen = new_lines(tmp_path, seen)
    assert lines == [('WARN P : {"event":{"a":1,"s":"x"}}', 2), ('WARN P : {"event":{"a":null,"s":null}}', 2)]
    assert new_lines(tmp_path, seen) == ([], seen)


@pytest.mark.parametrize("kind", ["passThrough", "json", "text", "csv"])
def test_finding_10_an_event_is_one_line_of_the_log(tmp_path: Path, kind: str) -> None:
    """Security finding 10: events inject lines and terminal escapes into logs."""
    chosen = connector(COLUMNS, kind, type_="log")
    batch = output(COLUMNS, [(1, "x\nINFO app : S : all is well\x1b[2J\u009b2J\u2028\x85\u202e")])
    payloads, firsts = make_sink_mapper(chosen).encode(batch) if kind != "passThrough" else ([], [])
    target = open_sink(chosen, Place("app", tmp_path))
    target.commit(1, [target.write(Delivery(0, 1, batch, payloads, firsts))])
    ((line, _cut),), _ = new_lines(tmp_path, {})
    assert line.startswith("INFO app : S : ")
    assert line.isprintable()
    assert "\\u001b[2J\\u009b2J" in line


def test_a_long_log_begins_again_and_its_reader_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nadi.io.sinks.log.LIMIT", 500)
    chosen = connector(COLUMNS, "passThrough", type_="log")
    shown: list[tuple[str, int]] = []
    seen: dict[str, int] = {}
    for cut in range(1, 12):
        run_cut_of_log(chosen, Place("app", tmp_path), cut)
        if (tmp_path / "sinks/0/output.log").stat().st_size:
            lines, seen = new_lines(tmp_path, seen)
            shown += lines
        assert (tmp_path / "sinks/0/output.log").stat().st_size <= 500
    assert any("data=[1000, ]" in text for text, _cut in shown)
    assert [cut for _text, cut in shown] == sorted(cut for _text, cut in shown)
    assert len(shown) == len(set(shown))


def test_a_cut_that_is_committed_again_is_shown_once_and_lines_of_before_not_at_all(tmp_path: Path) -> None:
    chosen = connector(COLUMNS, "passThrough", type_="log")
    run_cut_of_log(chosen, Place("app", tmp_path), 1)
    (tmp_path / "sinks/0/cuts").unlink()  # as a version before left it
    seen = new_lines(tmp_path, {})[1]
    for cut in (2, 2, 3):
        run_cut_of_log(chosen, Place("app", tmp_path), cut)
    lines, _ = new_lines(tmp_path, seen)
    each = len(lines) // 2
    assert [cut for _text, cut in lines] == [2] * each + [3] * each
    assert each > 0


def run_cut_of_log(chosen: Connector, place: Place, cut: int) -> None:
    target = open_sink(chosen, place)
    target.commit(cut, [target.write(delivery(chosen, cut, 0))])


@pytest.mark.parametrize("option", ["file_uri", "dir_uri"])
def test_a_place_that_could_be_made_is_not_made_by_asking_for_it(tmp_path: Path, option: str) -> None:
    ask_sink(sink(**{option: f"{tmp_path}/deep/out"}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["file_uri", "dir_uri"])
def test_a_place_below_a_file_cannot_be_written_and_says_so_when_asked(tmp_path: Path, option: str) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(NadiError, match="is not a folder") as refused:
        ask_sink(sink(**{option: f"{tmp_path}/plain/out"}))
    assert refused.value.condition == "REFUSED"


def test_a_folder_where_the_file_should_be_says_so_when_asked(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(NadiError, match="is a folder"):
        ask_sink(sink(file_uri=f"{tmp_path}/out"))


def test_a_place_where_nadi_may_not_write_says_so_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != tmp_path / "closed")  # root may write anywhere
    with pytest.raises(NadiError, match="may not be written"):
        ask_sink(sink(dir_uri=f"{tmp_path}/closed/out"))
