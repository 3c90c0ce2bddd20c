"""What a metric tells as named fields, for reporters that write texts."""

from __future__ import annotations

from dataclasses import asdict

from nadi.metrics.histograms import Timed
from nadi.metrics.meters import Rates
from nadi.metrics.registry import Counter, Value
from nadi.metrics.reservoirs import Distribution

Fields = dict[str, float | str]


def fields_of(value: Value | Counter) -> Fields:
    """Lengths are in ms.

    >>> fields_of(Rates(5, 1.0, 2.0, 3.0, 4.0))
    {'count': 5, 'mean_rate': 1.0, 'm1_rate': 2.0, 'm5_rate': 3.0, 'm15_rate': 4.0, 'rate_unit': 'events/second'}
    """
    match value:
        case Timed(lengths, rates):
            units: Fields = {"rate_unit": "calls/second", "duration_unit": "milliseconds"}
            return {**_lengths(lengths), **_rates(rates), **units}
        case Rates():
            return {**_rates(value), "rate_unit": "events/second"}
        case Distribution():
            return _lengths(value)
        case Counter(count):
            return {"count": count}
    return {"value": value}


def _lengths(lengths: Distribution) -> Fields:
    return {name: value for name, value in asdict(lengths).items() if name != "total"}


def _rates(rates: Rates) -> Fields:
    told = {"mean_rate": rates.mean, "m1_rate": rates.m1, "m5_rate": rates.m5, "m15_rate": rates.m15}
    return {"count": rates.count, **told}
