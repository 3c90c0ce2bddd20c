"""The checks of the benchmark: they agree with the engine on right output, and fail on wrong output."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from bench.apps import APPS, WINDOW_MS, on_files
from bench.checks import Rows, WrongOutputError, check_live, compare, expected, parse, size
from bench.events import Events, make_events, messages, words
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.pipeline.engine import make_kernel, plan_app

EVERY_MS = 40  # between two events, so that windows end and patterns run out of time within a few events


def sample(count: int = 3_000, keys: int = 10) -> Events:
    made = make_events(0, count, keys)
    return Events(made.ts[0] + np.arange(count) * EVERY_MS, made.key, made.cents, made.vol)


def engine_output(app: str, events: Events) -> list[bytes]:
    """What nadi's kernel makes of the events, as messages."""
    count = len(events)
    columns = [
        pa.array(events.ts),
        pa.array([f"S{k}" for k in events.key]),
        pa.array(events.cents / 100),
        pa.array(events.vol.astype(np.int32)),
        pa.array(events.ts),
        pa.array(np.arange(count)),
        pa.array(np.zeros(count, np.int32)),
        pa.array(events.ts),
        pa.array(np.zeros(count, np.int16)),
    ]
    fields = [pa.field("ts", pa.int64()), pa.field("sym", pa.string()), pa.field("price", pa.float64())]
    schema = pa.schema([*fields, pa.field("vol", pa.int32()), *ARRIVAL_COLUMNS])
    arrivals = [ArrivalBatch("In", 0, 0, pa.RecordBatch.from_arrays(columns, schema=schema))]
    kernel = make_kernel(plan_app(on_files(app, Path("in"), Path("out"))), ("Out",))
    kernel.start(int(events.ts[0]))
    rows = kernel.process(arrivals, int(events.ts[-1])).batches["Out"]
    return [msgspec.json.encode({"event": r}) for r in rows.drop_columns(_added(rows)).to_pylist()]


def _added(rows: pa.RecordBatch) -> list[str]:
    return [name for name in rows.schema.names if name.startswith("__")]


def as_payloads(rows: Rows) -> list[bytes]:
    """Rows as the messages that an app would write."""
    names = {"key": "sym"}
    made = []
    for i in range(size(rows)):
        event = {names.get(n, n): c[i].item() for n, c in rows.items()}
        event |= {n: event[n] / 100 for n in ("price", "low", "high") if n in event}
        made.append(msgspec.json.encode({"event": {**event, "sym": f"S{event['sym']}"}}))
    return made


@pytest.mark.parametrize("app", APPS)
def test_the_engine_puts_out_what_numpy_says_it_must(app: str) -> None:
    events = sample()
    wanted = expected(app, events)
    found, origin = parse(engine_output(app, events))
    assert compare(wanted, found)["rows"] == size(wanted) > 0
    assert len(origin) == size(wanted)


def test_windows_and_patterns_of_the_sample_do_run_out_of_time() -> None:
    events = sample()
    endless = 10**9
    assert expected("window", events)["n"].max() < expected("window", events, endless)["n"].max()
    assert size(expected("pattern", events)) < size(expected("pattern", events, endless))


@pytest.mark.parametrize("app", APPS)
def test_a_row_that_is_missing_doubled_or_changed_fails_the_check(app: str) -> None:
    wanted = expected(app, sample(500))
    payloads = as_payloads(wanted)
    compare(wanted, parse(payloads)[0])
    changed = payloads[3].replace(b'"sym":"S', b'"sym":"S9')
    for wrong in (
        payloads[:-1],
        [*payloads, payloads[0]],
        [payloads[0], *payloads[:-1]],
        [*payloads[:3], changed, *payloads[4:]],
    ):
        with pytest.raises(WrongOutputError):
            compare(wanted, parse(wrong)[0])


def test_a_mean_that_is_a_little_off_fails_the_check() -> None:
    wanted = expected("window", sample(500))
    off = {**wanted, "mean": wanted["mean"].copy()}
    off["mean"][100] *= 1 + 1e-6
    with pytest.raises(WrongOutputError, match="mean"):
        compare(wanted, off)


def test_rows_of_one_key_in_the_wrong_order_fail_the_check() -> None:
    wanted = expected("identity", sample(500))
    back = {name: column[::-1] for name, column in wanted.items()}
    with pytest.raises(WrongOutputError, match="came after"):
        compare(wanted, back)


def test_messages_that_are_no_events_fail_the_check() -> None:
    for payload in (b"{", b"7", b'{"event":{"ts":1}}\n', b'{"other":1}'):
        with pytest.raises(WrongOutputError):
            compare(expected("identity", sample(1)), parse([payload])[0])


def test_an_array_of_events_is_several_rows_of_one_message() -> None:
    one, two, three = messages(make_events(0, 3))
    rows, origin = parse([b"[" + one + b"," + two + b"]", three])
    assert origin.tolist() == [0, 0, 1]
    compare(expected("identity", make_events(0, 3)), rows)


def live() -> Events:
    """Events stamped in µs, 300 ms between two of a key: some windows depend on the skew of the clocks, most do not."""
    made = make_events(0, 3_000, 10)
    return Events(1_700_000_000_000_000 + np.arange(3_000) * 30_000 + made.vol, made.key, made.cents, made.vol)


@pytest.mark.parametrize("app", APPS)
def test_live_rows_may_differ_only_as_far_as_the_clocks_may(app: str) -> None:
    sent = live()
    right = expected(app, sent, WINDOW_MS * 1_000)
    assert check_live(app, sent, right)["rows"] == size(right) > 0
    for wrong in (
        {n: c[:-1] for n, c in expected(app, sent, 100_000).items()},
        expected(app, sent, 5_000_000) if app in ("window", "pattern") else {},
        {n: np.concatenate([c, c[:1]]) for n, c in right.items()},
    ):
        with pytest.raises(WrongOutputError):
            check_live(app, sent, wrong)


def test_events_do_not_depend_on_the_range_they_are_made_in() -> None:
    whole, part = make_events(0, 1_000), make_events(400, 500)
    assert (whole.cents[400:500] == part.cents).all()
    assert (whole.ts[400:500] == part.ts).all()
    assert words(0, 3).tolist() == words(0, 10)[:3].tolist()
    assert len(set(words(0, 10_000).tolist())) == 10_000


def test_keys_and_prices_of_the_events_are_spread_evenly() -> None:
    events = make_events(0, 200_000)
    per_key = np.bincount(events.key, minlength=1_000)
    assert per_key.min() > 120
    assert per_key.max() < 290
    assert abs((events.cents >= 5_000).mean() - 0.5) < 0.01
