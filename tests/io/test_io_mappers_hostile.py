"""Security finding 16: messages of the csv, Arrow and parquet mappers that a stranger wrote. A mapper never fails, and makes little of little."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_build import connector, messages

from nadi.io.contract import Decoded
from nadi.io.mappers.arrow import ipc_bytes
from nadi.io.registry import make_source_mapper
from nadi.io.sources.file_typed import TypedFile, typed_rows

WRONG_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe"))


def decode(columns: str, payload: bytes, kind: str = "arrow") -> Decoded:
    return make_source_mapper(connector(columns, kind)).decode(messages(payload))


def one_failure(found: Decoded) -> str:
    assert found.batch.num_rows == 0
    (failure,) = found.failures
    return failure.reason


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def compressed(rows: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(rows)
    return bytes(out.getvalue())


def test_finding_16_a_text_that_is_no_utf_8_is_no_value() -> None:
    """The kernel would have met it later, and every time again."""
    assert "UTF8" in one_failure(decode("a string", ipc_bytes(batch(a=WRONG_TEXT))))


@pytest.mark.parametrize("offsets", [(0, 1 << 28, 1 << 30), (0, -5, 2), (1 << 30, 0, 2), (2, 1, 0)])
def test_finding_16_offsets_that_lead_out_of_a_message_are_not_followed(offsets: tuple[int, int, int]) -> None:
    sound = ipc_bytes(batch(a=pa.array(["x" * 40, "y" * 7])))
    broken = sound.replace(struct.pack("<iii", 0, 40, 47), struct.pack("<iii", *offsets))
    assert broken != sound
    assert "not an Arrow IPC stream" in one_failure(decode("a string", broken))


def test_finding_16_an_index_that_leads_out_of_a_dictionary_is_not_followed() -> None:
    sound = ipc_bytes(batch(a=pa.array(["x", "y"] * 3_333).dictionary_encode()))
    broken = sound.replace(struct.pack("<iiii", 0, 1, 0, 1), struct.pack("<iiii", 0, 1 << 30, -7, 1))
    assert broken != sound
    assert "not an Arrow IPC stream" in one_failure(decode("a string", broken))


@pytest.mark.parametrize("rows", [20_000_000, 1 << 40, (1 << 63) - 1, -1])
@pytest.mark.parametrize("name", ["a", "b"])
def test_finding_16_a_few_bytes_are_not_many_rows(name: str, rows: int) -> None:
    sound = ipc_bytes(batch(**{name: pa.nulls(7_777)}))
    broken = sound.replace(struct.pack("<q", 7_777), struct.pack("<q", rows))
    assert broken != sound
    assert one_failure(decode("a int", broken)).startswith(("0 bytes cannot be", "not an Arrow IPC stream"))


def test_finding_16_a_message_that_unpacks_to_gigabytes_is_not_unpacked() -> None:
    packed = compressed(batch(a=pa.array([0]).take(pa.array([0] * 40_000_000, pa.int8()))))
    assert len(packed) < 100_000
    assert "say that they become 320,000,000" in one_failure(decode("a long", packed))


def test_a_compressed_message_of_usual_size_is_read() -> None:
    found = decode("a long, s string", compressed(batch(a=pa.array(range(5_000)), s=pa.array(["x" * 20] * 5_000))))
    assert (found.batch.num_rows, found.failures) == (5_000, ())


def test_finding_16_a_message_of_the_wrong_type_is_one_failure_whatever_its_rows() -> None:
    found = decode("a int", ipc_bytes(batch(a=pa.array([True] * 100_000))))
    assert one_failure(found) == "column 'a' is bool, not int"


@pytest.mark.parametrize(
    "other", [pa.array([2**62], pa.timestamp("s", "no/zone")), pa.array([86_400_000 * 2**36], pa.date64())]
)
def test_finding_16_a_row_that_fails_is_shown_though_python_has_no_form_for_it(other: pa.Array) -> None:
    found = decode("a int", ipc_bytes(batch(a=pa.array([2**33]), t=other)))
    assert "out of range" in one_failure(found)
    assert found.failures[0].payload == f"{{'a': 8589934592, 't': '({other.type})'}}".encode()


SOUND = [
    ipc_bytes(batch(a=pa.array([1, 2, None]), s=pa.array(["x", None, "zz"]))),
    ipc_bytes(batch(a=pa.array([1, 1, 5]), s=pa.array(["x", "x", "y"]).dictionary_encode())),
    compressed(batch(a=pa.array(range(50)), s=pa.array(["x" * 9] * 50))),
]


@given(st.sampled_from(SOUND), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6))
def test_finding_16_no_bytes_make_the_mapper_fail(sound: bytes, changes: list[tuple[int, int]]) -> None:
    broken = bytearray(sound)
    for at, value in changes:
        broken[at % len(broken)] = value
    found = decode("a long, s string", bytes(broken))
    found.batch.validate(full=True)
    found.batch.to_pylist()


@given(st.binary(max_size=200))
def test_no_random_bytes_make_a_mapper_fail(payload: bytes) -> None:
    for kind in ("arrow", "csv", "text", "json"):
        decode("a long, s string, b bool, d double", payload, kind).batch.to_pylist()


def test_finding_16_a_file_with_a_text_that_is_none_is_a_block_that_cannot_be_read(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_batches([batch(a=WRONG_TEXT)]), tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema([("a", pa.string())])) as writer:
        writer.write_batch(batch(a=WRONG_TEXT))
    for kind in ("parquet", "arrow"):
        file = TypedFile(tmp_path / f"a.{kind}", kind)
        ((at, said),) = typed_rows(file, file.bounds(), 0, 1)
        file.close()
        assert (at, "cannot be read" in str(said)) == (0, True)


def test_finding_16_a_csv_record_of_very_many_fields_makes_no_columns_of_them() -> None:
    """A million fields in 1 MB took more than 3 GB."""
    found = decode("a int, b string", b"7,x" + b"," * 200_000, "csv")
    assert found.batch.to_pylist() == [{"a": 7, "b": "x"}]
