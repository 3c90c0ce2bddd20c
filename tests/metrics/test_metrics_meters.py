"""Meters and timers: the figures of Dropwizard's, whose tests have these examples; bounds of reservoirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.metrics.histograms import Histogram, Timer
from nadi.metrics.meters import Ewma, Meter
from nadi.metrics.reservoirs import (
    ONE_BY_ONE,
    SIZE,
    DecayingReservoir,
    SlidingReservoir,
    UniformReservoir,
    plain,
    weighted,
)

# 3 at the first tick, then nothing: what the rate is after so many minutes (Dropwizard's EWMATest)
FADES = {
    1: {0: 0.6, 1: 0.22072766, 2: 0.08120117, 3: 0.02987224, 15: 0.00000018},
    5: {0: 0.6, 1: 0.49123845, 2: 0.40219203, 3: 0.32928698, 15: 0.02987224},
    15: {0: 0.6, 1: 0.56130419, 2: 0.52510399, 3: 0.49123845, 15: 0.22072766},
}


@pytest.mark.parametrize("minutes", FADES)
def test_a_rate_fades_as_dropwizards_does(minutes: int):
    for after, wanted in FADES[minutes].items():
        one_by_one, at_once = Ewma(minutes), Ewma(minutes)
        one_by_one.tick(3, 1)
        for _ in range(after * 12):
            one_by_one.tick(0, 1)
        at_once.tick(3, 1 + after * 12)
        assert one_by_one.rate == pytest.approx(wanted, abs=1e-8)
        assert at_once.rate == pytest.approx(wanted, abs=1e-8)


def test_a_meter_has_the_rates_of_dropwizards():
    # MeterTest: a mark of 1 at its beginning, of 2 after 10 s
    meter = Meter(0.0)
    meter.mark(1, 0.0)
    meter.mark(2, 10.0)
    rates = meter.rates(10.0)
    assert (rates.count, rates.mean) == (3, 0.3)
    assert rates.m1 == pytest.approx(0.1840, abs=1e-4)
    assert rates.m5 == pytest.approx(0.1966, abs=1e-4)
    assert rates.m15 == pytest.approx(0.1988, abs=1e-4)


def test_a_meter_that_nobody_looked_at_for_a_day_has_faded():
    meter = Meter(0.0)
    meter.mark(1_000_000, 1.0)
    assert meter.rates(86_400.0).m15 < 1e-20
    assert meter.rates(86_400.0).count == 1_000_000


def test_a_steady_stream_has_its_rate_everywhere():
    meter = Meter(0.0)
    for second in range(3_600):
        meter.mark(7, float(second))
    rates = meter.rates(3_599.0)
    assert rates.m1 == pytest.approx(7)
    assert (rates.m5, rates.mean) == pytest.approx((7, 7), rel=1e-3)


def test_values_with_weights_have_the_quantiles_of_dropwizards():
    # WeightedSnapshotTest
    told = weighted(np.array([5.0, 1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 2.0, 2.0]))
    assert (told.p50, told.p75, told.p95, told.p98, told.p99, told.p999) == (3.0, 4.0, 5.0, 5.0, 5.0, 5.0)
    assert (told.min, told.max) == (1.0, 5.0)
    assert told.mean == pytest.approx(2.7)
    assert told.stddev == pytest.approx(1.2688, abs=1e-4)


def test_values_without_weights_have_the_quantiles_of_dropwizards():
    # UniformSnapshotTest
    told = plain(np.array([5.0, 1.0, 2.0, 3.0, 4.0]))
    assert (told.p50, told.p75, told.p95, told.p99, told.p999) == (3.0, 4.5, 5.0, 5.0, 5.0)
    assert told.stddev == pytest.approx(1.5811, abs=1e-4)


def test_of_a_hundred_values_in_a_thousand_places_all_stay():
    reservoir = DecayingReservoir(0.0, 1_000, 0.99, seed=1)
    reservoir.update([(float(i), 1) for i in range(100)], 0.0)
    assert reservoir.distribution(0.0).count == 100


def test_a_long_pause_does_not_freeze_a_reservoir():
    # ExponentiallyDecayingReservoirTest: after 15 h new values count, the old ones hardly
    reservoir = DecayingReservoir(0.0, 10, 0.15, seed=1)
    for i in range(1_000):
        reservoir.update([(1_000.0 + i, 1)], i * 0.1)
    assert reservoir.distribution(0.0).min >= 1_000
    later = 100.0 + 15 * 3_600
    reservoir.update([(2_000.0, 1)], later)
    for i in range(1_000):
        reservoir.update([(3_000.0 + i, 1)], later + i * 0.1)
    told = reservoir.distribution(0.0)
    assert told.count == 10
    assert told.min >= 3_000


def test_recent_values_outweigh_old_ones_however_many_these_were():
    reservoir = DecayingReservoir(0.0, seed=1)
    reservoir.update([(1.0, 1_000_000)], 0.0)
    reservoir.update([(100.0, 1_000_000)], 1_200.0)
    assert reservoir.distribution(0.0).p50 == 100.0


def test_many_at_once_are_sampled_in_proportion():
    reservoir = DecayingReservoir(0.0, seed=1)
    reservoir.update([(1.0, 700_000), (2.0, 300_000)], 0.0)
    assert reservoir.distribution(0.0).mean == pytest.approx(1.3, abs=0.05)
    reservoir.update([(3.0, 1_000_000)], 0.0)  # half of all there ever were
    assert reservoir.distribution(0.0).mean == pytest.approx((1.3 + 3) / 2, abs=0.1)


PAIRS = st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(1, 3 * ONE_BY_ONE)), max_size=5)


@given(
    st.lists(st.tuples(PAIRS, st.floats(0, 4_000)), max_size=6),
    st.sampled_from(["decaying", "uniform", "sliding", "window"]),
)
def test_a_reservoir_is_bounded_and_tells_of_values_that_it_was_given(batches, kind):
    reservoir = {
        "decaying": lambda: DecayingReservoir(0.0, seed=1),
        "uniform": lambda: UniformReservoir(seed=1),
        "sliding": SlidingReservoir,
        "window": lambda: SlidingReservoir(seconds=1e9),
    }[kind]()
    histogram = Histogram(reservoir)
    now, given_values, count = 0.0, set(), 0
    for pairs, pause in batches:
        now += pause
        histogram.update(pairs, now)
        given_values |= {v for v, _ in pairs}
        count += sum(n for _, n in pairs)
    told = histogram.distribution(now)
    kept = reservoir.distribution(now).count
    assert kept <= SIZE
    assert kept == min(count, SIZE)
    assert told.count == count
    if count:
        assert {told.min, told.max} <= given_values
        assert told.min <= told.p50 <= told.p75 <= told.p99 <= told.p999 <= told.max
        assert told.min - 1e-3 <= told.mean <= told.max + 1e-3


def test_a_window_forgets_what_is_older():
    reservoir = SlidingReservoir(seconds=10)
    reservoir.update([(1.0, 5)], 0.0)
    reservoir.update([(2.0, 5)], 8.0)
    assert reservoir.distribution(11.0).min == 2.0
    assert reservoir.distribution(30.0).count == 0


def test_a_timer_counts_and_ignores_what_did_not_happen():
    timer = Timer(DecayingReservoir(0.0, seed=1), 0.0)
    timer.update([(2.0, 3), (4.0, 1), (9.0, 0)], 1.0)
    told = timer.told(2.0)
    assert (told.lengths.count, told.lengths.total, told.lengths.max, told.rates.count) == (4, 10.0, 4.0, 4)
    assert told.rates.mean == 2.0
