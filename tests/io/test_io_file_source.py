from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_build import connector
from io_sabotage import Crash, Saboteur
from log_contract import check_log, contents, payloads

from nadi.errors import NadiError
from nadi.io.contract import Connector, Place
from nadi.io.registry import make_source_mapper, open_log
from nadi.io.sources import file_lines
from nadi.io.sources.file import FileLog
from nadi.io.sources.file_lines import index_lines, lines_from

OLD = 1_600_000_000  # seconds: when files were last written that have settled long ago


class Watch:
    """Clocks that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return OLD + 3600.0 + self.now


def put(path: Path, content: bytes, when: float = OLD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (when, when))
    return path


def source(
    where: Path, kind: str = "json", columns: str = "a int", map_options: dict[str, str] | None = None, **more: str
) -> Connector:
    options = {
        "dir.uri" if where.suffix == "" else "file.uri": str(where),
        **{k.replace("_", "."): v for k, v in more.items()},
    }
    return connector(columns, kind, map_options, type_="file", options=options)


def place(tmp_path: Path) -> Place:
    return Place("app", tmp_path / "state")


def opened(tmp_path: Path, where: Path, watch: Watch | None = None, **given: object) -> FileLog:
    watch = watch or Watch()
    return FileLog(source(where, **given), place(tmp_path), watch.clock, watch.wall)  # type: ignore[arg-type]


def test_files_of_a_folder_are_one_log_in_the_order_of_their_names(tmp_path: Path) -> None:
    put(tmp_path / "in/b.json", b"3\n4")
    put(tmp_path / "in/a.json", b"1\n2\n")
    put(tmp_path / "in/empty.json", b"")
    put(tmp_path / "in/.hidden", b"x\n")
    put(tmp_path / "in/half.part", b"x\n")
    log = opened(tmp_path, tmp_path / "in")
    assert log.end(0) == 4
    assert payloads(log) == [b"1", b"2", b"3", b"4"]
    assert log.times(0, 0, 4).tolist() == [OLD * 1000] * 4
    check_log(log)


def test_new_files_come_after_all_that_were_there_whatever_their_names(tmp_path: Path) -> None:
    watch = Watch()
    put(tmp_path / "in/m", b"1\n2\n")
    log = opened(tmp_path, tmp_path / "in", watch)
    assert log.end(0) == 2
    put(tmp_path / "in/a", b"3\n")
    assert log.end(0) == 2, "the folder is not looked at again at once"
    watch.now += 0.25
    assert log.end(0) == 3
    assert payloads(log) == [b"1", b"2", b"3"]
    again = opened(tmp_path, tmp_path / "in")
    assert again.end(0) == 3
    assert contents(again) == contents(log)
    assert not log.finished()


def test_a_reader_in_another_process_sees_what_the_discoverer_numbered(tmp_path: Path) -> None:
    put(tmp_path / "in/a", b"1\n2\n")
    discoverer, reader = opened(tmp_path, tmp_path / "in"), opened(tmp_path, tmp_path / "in")
    end = discoverer.end(0)
    assert [p for _, _, p in contents(reader, 0, 0, end)] == [b"1", b"2"]


def test_a_file_that_is_being_written_waits_until_it_has_settled(tmp_path: Path) -> None:
    watch = Watch()
    path = put(tmp_path / "in/a", b"1\n", when=watch.wall())
    log = opened(tmp_path, tmp_path / "in", watch)
    assert log.end(0) == 0
    watch.now += 0.9
    put(path, b"1\n2\n", when=watch.wall())
    assert log.end(0) == 0
    watch.now += 0.9
    assert log.end(0) == 0
    watch.now += 0.2
    assert log.end(0) == 2


def test_until_the_end_takes_what_is_there_and_finishes(tmp_path: Path) -> None:
    watch = Watch()
    put(tmp_path / "in/a", b"1\n", when=watch.wall())
    log = opened(tmp_path, tmp_path / "in", watch, until_end="true")
    assert log.end(0) == 1
    assert log.finished()
    put(tmp_path / "in/b", b"2\n")
    watch.now += 5
    assert log.end(0) == 1


def test_a_single_file_is_finite_and_a_pattern_is_not(tmp_path: Path) -> None:
    put(tmp_path / "in/a.json", b"1\n")
    put(tmp_path / "in/b.csv", b"2\n")
    log = opened(tmp_path, tmp_path / "in/a.json")
    assert (log.end(0), log.finished()) == (1, True)
    log = FileLog(source(tmp_path / "in/*.csv"), Place("other", tmp_path / "other"))
    assert (log.end(0), log.finished()) == (1, False)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"1\r\n2\r\n", [b"1", b"2"]),
        (b"1\r\n2", [b"1", b"2"]),
        (b"1\n\n\r\n2\n\n", [b"1", b"2"]),
        (b"\n", []),
        (b"1", [b"1"]),
        (b"\xef\xbb\xbf1\n2", [b"1", b"2"]),
        (b"\r\r\n", [b"\r"]),
        (b" \n\xff\n", [b" ", b"\xff"]),
    ],
)
def test_lines_end_as_they_like(tmp_path: Path, content: bytes, rows: list[bytes]) -> None:
    log = opened(tmp_path, put(tmp_path / "a.txt", content))
    log.end(0)
    assert payloads(log) == rows
    check_log(log)


def test_the_header_of_each_file_names_its_fields(tmp_path: Path) -> None:
    put(tmp_path / "in/a.csv", b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4\r\n")
    put(tmp_path / "in/b.csv", b'b,"a"\n5,6')
    put(tmp_path / "in/c.csv", b"a,b\n")
    log = opened(tmp_path, tmp_path / "in", kind="csv", columns="a int", map_options={"header": "true"})
    assert log.end(0) == 3
    mapper = make_source_mapper(source(tmp_path / "in", "csv", "a int", {"header": "true"}))
    assert [row["a"] for piece in log.read(0, 0, 3) for row in mapper.decode(piece).batch.to_pylist()] == [1, 3, 6]
    check_log(log)


def test_line_ends_in_quotes_belong_to_the_row_where_that_is_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", b'1,"x\ny"\n2,"a""\n"\n3,z')
    log = opened(tmp_path, path, kind="csv", columns="a int, b string", multiline="true")
    log.end(0)
    assert payloads(log) == [b'1,"x\ny"', b'2,"a""\n"', b"3,z"]
    check_log(log)


def test_rows_are_found_in_the_middle_of_a_big_file_without_reading_what_is_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lines, "BLOCK", 1 << 16)
    lines = [b'{"a":%d}' % i for i in range(45_000)]
    log = opened(tmp_path, put(tmp_path / "a.json", b"\n".join(lines)))
    assert log.end(0) == 45_000
    check_log(log)
    offsets: list[int] = []
    real = file_lines.lines_from

    def watched(path: Path, offset: int, *more: object):  # type: ignore[no-untyped-def]
        offsets.append(offset)
        return real(path, offset, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("nadi.io.sources.file_index.lines_from", watched)
    assert [p for _, _, p in contents(log, 0, 39_999, 40_001)] == lines[39_999:40_001]
    assert offsets == [len(b"\n".join(lines[:30_000])) + 1]


@given(
    content=st.binary(max_size=60) | st.text('ab"\n\r', max_size=60).map(str.encode),
    block=st.integers(1, 20),
    multi=st.booleans(),
)
@settings(deadline=None)
def test_rows_do_not_depend_on_the_blocks_in_which_a_file_is_read(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int, multi: bool
) -> None:
    path = tmp_path_factory.mktemp("x") / "a"
    path.write_bytes(content)
    quote = b'"' if multi else b""
    whole = [pair for at, lines in lines_from(path, 0, quote) for pair in zip(at.tolist(), lines)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "BLOCK", block)
        assert [pair for at, lines in lines_from(path, 0, quote) for pair in zip(at.tolist(), lines)] == whole
        assert index_lines(path, False, quote).rows == len(whole)
    for offset, line in whole:
        assert next(lines_from(path, offset, quote))[1][0] == line
    if not multi:
        expected = [line.removesuffix(b"\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [line for _, line in whole] == [line for line in expected if line]


def test_packed_files_are_read_as_their_text(tmp_path: Path) -> None:
    path = put(tmp_path / "a.json.gz", gzip.compress(b"".join(b"%d\n" % i for i in range(25_000))))
    log = opened(tmp_path, path)
    assert log.end(0) == 25_000
    assert [p for _, _, p in contents(log, 0, 20_000, 20_002)] == [b"20000", b"20001"]
    check_log(log)


def test_reading_on_in_a_packed_file_does_not_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [b"%d" % i for i in range(50_000)]
    log = opened(tmp_path, put(tmp_path / "a.json.gz", gzip.compress(b"\n".join(rows))))
    log.end(0)
    opens: list[Path] = []
    real = file_lines.open_text

    def watched(path: Path) -> object:
        opens.append(path)
        return real(path)

    monkeypatch.setattr(file_lines, "open_text", watched)
    found = [p for at in range(0, 50_000, 7_000) for _, _, p in contents(log, 0, at, min(at + 7_000, 50_000))]
    assert (found, len(opens)) == (rows, 1)
    assert [p for _, _, p in contents(log, 0, 3, 5)] == rows[3:5]


def test_a_packed_file_that_breaks_off_gives_its_rows_and_one_failure(tmp_path: Path) -> None:
    text = b"".join(b'{"a":%d}\n' % i for i in np.random.default_rng(1).integers(0, 2**31, 200_000))
    packed = gzip.compress(text)
    log = opened(tmp_path, put(tmp_path / "a.json.gz", packed[: len(packed) // 2]))
    end = log.end(0)
    assert 1 < end < 200_000
    mapper = make_source_mapper(source(tmp_path / "a.json.gz"))
    found = [mapper.decode(piece) for piece in log.read(0, 0, end)]
    assert sum(one.batch.num_rows for one in found) == end - 1
    [failure] = [f for one in found for f in one.failures]
    assert failure.position == end - 1
    assert "cannot be read beyond row" in failure.reason
    check_log(log)


def table(n: int) -> pa.Table:
    return pa.table({"a": pa.array(range(n), pa.int32()), "t": pa.array(range(0, 10 * n, 10), pa.int64())})


def test_parquet_rows_are_read_by_group(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(table(1000), tmp_path / "in/a.parquet", row_group_size=300)
    with pa.OSFile(str(tmp_path / "in/b.arrow"), "wb") as sink, pa.ipc.new_file(sink, table(5).schema) as writer:
        writer.write_table(table(5), max_chunksize=2)
    for name in ("a.parquet", "b.arrow"):
        os.utime(tmp_path / "in" / name, (OLD, OLD))
    log = opened(tmp_path, tmp_path / "in", kind="parquet", columns="a int, t long", event_time="t")
    assert log.end(0) == 1005
    assert [p for _, _, p in contents(log, 0, 299, 301)] == [{"a": 299, "t": 2990}, {"a": 300, "t": 3000}]
    assert log.times(0, 0, 1005).tolist() == [*range(0, 10_000, 10), *[9990] * 5]
    check_log(log)


def test_a_parquet_file_that_is_none_becomes_one_failure(tmp_path: Path) -> None:
    pq.write_table(table(100), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    put(tmp_path / "in/a.parquet", whole[: len(whole) // 2])
    put(tmp_path / "in/b.parquet", whole)
    put(tmp_path / "in/c.parquet", b"")
    log = opened(tmp_path, tmp_path / "in", kind="parquet", columns="a int, t long")
    assert log.end(0) == 102
    mapper = make_source_mapper(source(tmp_path / "in", "parquet", "a int, t long"))
    found = [mapper.decode(piece) for piece in log.read(0, 0, 102)]
    assert sum(one.batch.num_rows for one in found) == 100
    assert [f.position for one in found for f in one.failures] == [0, 101]
    check_log(log)


def test_a_broken_row_group_is_one_failure_among_good_ones(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(np.random.default_rng(1).integers(0, 2**31, 900), pa.int32())})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=300, compression="gzip", use_dictionary=False)
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(1).column(0)
    raw = bytearray((tmp_path / "a.parquet").read_bytes())
    middle = group.data_page_offset + group.total_compressed_size // 2
    raw[middle : middle + 40] = bytes(40)
    log = opened(tmp_path, put(tmp_path / "a.parquet", bytes(raw)), kind="parquet")
    assert log.end(0) == 900
    mapper = make_source_mapper(source(tmp_path / "a.parquet", "parquet"))
    found = [mapper.decode(piece) for piece in log.read(0, 0, 900)]
    assert sum(one.batch.num_rows for one in found) == 600
    assert [f.position for one in found for f in one.failures] == [300]
    check_log(log)


def test_times_are_the_running_maximum_of_the_events_and_go_on_over_files(tmp_path: Path) -> None:
    def lines(*times: object) -> bytes:
        return b"".join(json.dumps({"t": t}).encode() + b"\n" for t in times)

    put(tmp_path / "in/a", b"broken\n" + lines(None, 100, 50, 200) + b"broken\n")
    put(tmp_path / "in/b", b"")
    put(tmp_path / "in/c", lines(150, "x", 300))
    log = opened(tmp_path, tmp_path / "in", columns="t long", event_time="t")
    end = log.end(0)
    assert log.times(0, 0, end).tolist() == [100, 100, 100, 100, 200, 200, 200, 200, 300]
    assert log.times(0, 4, 8).tolist() == [200, 200, 200, 200]
    check_log(log)


def test_a_file_without_any_time_has_its_date(tmp_path: Path) -> None:
    log = opened(tmp_path, put(tmp_path / "a.json", b"broken\n"), columns="t long", event_time="t")
    assert log.times(0, 0, log.end(0)).tolist() == [OLD * 1000]


@pytest.mark.parametrize("change", ["shorter", "longer", "other", "gone"])
def test_a_file_that_changed_after_it_was_numbered_is_an_error(tmp_path: Path, change: str) -> None:
    path = put(tmp_path / "in/a", b"1\n2\n")
    put(tmp_path / "in/b", b"3\n")
    log = opened(tmp_path, tmp_path / "in")
    assert log.end(0) == 3
    if change == "gone":
        path.unlink()
    else:
        put(path, {"shorter": b"1\n", "longer": b"1\n2\n3\n", "other": b"1\n9\n"}[change], OLD + 5)
    with pytest.raises(NadiError) as e:
        contents(log, 0, 1, 3)
    assert e.value.condition == "FILE_CHANGED"
    assert contents(log, 0, 2, 3) == [(2, OLD * 1000, b"3")], "other files are read as before"


def test_the_same_content_with_another_date_is_the_same_file(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", b"1\n2\n")
    log = opened(tmp_path, path)
    log.end(0)
    put(path, b"1\n2\n", OLD + 77)
    assert [p for _, _, p in contents(log)] == [b"1", b"2"]


def test_a_folder_or_file_that_is_not_there_is_a_named_condition_until_it_is(tmp_path: Path) -> None:
    watch = Watch()
    log = opened(tmp_path, tmp_path / "in/a.json", watch)
    with pytest.raises(NadiError) as e:
        log.end(0)
    assert (e.value.condition, e.value.siddhi_class) == ("FILE_MISSING", "ConnectionUnavailableException")
    put(tmp_path / "in/a.json", b"1\n")
    watch.now += 1
    assert log.end(0) == 1
    other = FileLog(source(tmp_path / "nowhere"), Place("x", tmp_path / "x"))
    with pytest.raises(NadiError, match="nowhere"):
        other.end(0)


def test_a_folder_that_is_removed_while_it_is_read_is_a_named_condition(tmp_path: Path) -> None:
    watch = Watch()
    path = put(tmp_path / "in/a", b"1\n")
    log = opened(tmp_path, tmp_path / "in", watch)
    assert log.end(0) == 1
    path.unlink()
    path.parent.rmdir()
    watch.now += 1
    with pytest.raises(NadiError) as e:
        log.end(0)
    assert e.value.condition == "FILE_MISSING"
    put(tmp_path / "in/b", b"2\n")
    watch.now += 1
    assert log.end(0) == 2
    assert [p for _, _, p in contents(log, 0, 1, 2)] == [b"2"]


def test_a_torn_manifest_line_is_written_again(tmp_path: Path) -> None:
    put(tmp_path / "in/a", b"1\n")
    put(tmp_path / "in/b", b"2\n")
    log = opened(tmp_path, tmp_path / "in")
    assert log.end(0) == 2
    manifest = tmp_path / "state/sources/0/manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-5])
    again = opened(tmp_path, tmp_path / "in")
    with pytest.raises(NadiError, match="ends at 1"):
        contents(again, 0, 0, 2)
    assert again.end(0) == 2
    assert payloads(again) == [b"1", b"2"]
    assert len(manifest.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("how", ["before", "half", "after", "full"])
def test_no_crash_while_files_are_numbered_changes_the_log(tmp_path: Path, how: str) -> None:
    for name in ("a", "b", "c"):
        put(tmp_path / "in" / name, b'{"t":%d}\n{"t":1}\n' % ord(name))

    def look(state: str) -> list[tuple[int, int, object]]:
        watch = Watch()
        log = FileLog(
            source(tmp_path / "in", columns="t long", event_time="t"),
            Place("app", tmp_path / state),
            watch.clock,
            watch.wall,
        )
        log.end(0)
        return contents(log)

    with pytest.MonkeyPatch.context() as patch:
        saboteur = Saboteur(patch, -1, how)
        calm = look("calm")
    assert len(calm) == 6
    assert saboteur.count > 20
    for at in range(1, saboteur.count + 1):
        with pytest.MonkeyPatch.context() as patch:
            Saboteur(patch, at, how)
            try:
                look(f"{at}")
            except Crash:
                pass
            except NadiError as e:
                if e.condition != "DISK_FULL":
                    raise
        assert look(f"{at}") == calm, f"step {at}"


def test_reading_beyond_the_numbered_rows_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path, put(tmp_path / "a.txt", b"1\n"))
    log.end(0)
    with pytest.raises(NadiError) as e:
        list(log.read(0, 0, 2))
    assert e.value.condition == "LOG_TRUNCATED"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"file.uri": "a", "dir.uri": "b"},
        {"file.uri": "ftp://x/y"},
        {"file.uri": "a", "tailing": "true"},
        {"file.uri": "a", "mode": "REGEX"},
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(NadiError):
        open_log(connector("a int", type_="file", options=options), place(tmp_path))


# ---- the first line, and whole files ---------------------------------------------------------------------------------


def test_a_first_line_that_is_present_is_no_row_whatever_it_has(tmp_path: Path) -> None:
    put(tmp_path / "in/a.csv", b"\nnumber\n1\n2\n")
    put(tmp_path / "in/b.csv", b"whatever, it has\r\n3")
    log = opened(tmp_path, tmp_path / "in", kind="csv", header_present="true")
    assert payloads(log) == [b"1", b"2", b"3"]
    assert [m.header for m in log.read(0, 0, 3)] == [(), ()]
    off = FileLog(source(tmp_path / "in", "csv", header_present="false"), Place("app", tmp_path / "off"))
    assert payloads(off) == [b"number", b"1", b"2", b"whatever, it has", b"3"]


def test_a_header_that_is_present_may_name_the_columns(tmp_path: Path) -> None:
    put(tmp_path / "in/a.csv", b"b,a\n1,2\n")
    for present in ("true", "false"):
        for mode in ("LINE", "TEXT.FULL"):
            where = Place("app", tmp_path / present / mode)
            chosen = source(
                tmp_path / "in", "csv", "a int, b int", {"header": "true"}, header_present=present, mode=mode
            )
            (found,) = FileLog(chosen, where).read(0, 0, FileLog(chosen, where).end(0))
            assert make_source_mapper(chosen).decode(found).batch.to_pylist() == [{"a": 2, "b": 1}]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_whole_file_is_one_message_of_which_all_rows_are_one_chunk(tmp_path: Path, ending: str) -> None:
    def text(content: bytes) -> bytes:
        return gzip.compress(content) if ending.endswith(".gz") else content

    put(tmp_path / f"in/a{ending}", text(b"\xef\xbb\xbfAlmond,90.0\nOat,95.0\n"))
    put(tmp_path / f"in/b{ending}", text(b"\n"))
    put(tmp_path / f"in/c{ending}", text(b"Rice,1.5"))
    chosen = source(tmp_path / "in", "csv", "name string, amount double", mode="text.full", tailing="false")
    watch = Watch()
    log = FileLog(chosen, place(tmp_path), watch.clock, watch.wall)
    assert payloads(log) == [b"Almond,90.0\nOat,95.0\n", b"Rice,1.5"]
    decoded = [make_source_mapper(chosen).decode(m) for m in log.read(0, 0, 2)]
    assert [d.batch.to_pylist() for d in decoded] == [
        [{"name": "Almond", "amount": 90.0}, {"name": "Oat", "amount": 95.0}],
        [{"name": "Rice", "amount": 1.5}],
    ]
    assert [d.message.tolist() for d in decoded] == [[0, 0], [0]]


def test_a_whole_file_that_breaks_off_is_one_failure(tmp_path: Path) -> None:
    put(tmp_path / "in/a.json.gz", gzip.compress(b'{"a":1}' * 10_000)[:-20])
    log = opened(tmp_path, tmp_path / "in", mode="TEXT.FULL")
    assert log.end(0) == 1
    (found,) = log.read(0, 0, 1)
    assert make_source_mapper(source(tmp_path / "in")).decode(found).failures
