"""The page about metrics says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from metrics_exposed import SELECTOR, exposed

from nadi.config.deployment import deployment_of
from nadi.metrics.annotation import statistics_of
from nadi.metrics.levels import Level
from nadi.metrics.names import MetricName
from nadi.pipeline.engine import plan_app

PAGE = (Path(__file__).parents[2] / "docs/operations/metrics.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_its_settings_are_read_and_all_of_them_have_an_effect():
    levels, whole, excluded = (deployment_of(yaml.safe_load(block), {}) for block in blocks("yaml"))
    assert levels.notices == whole.notices == excluded.notices == ()
    assert len(levels.sections.metrics.levels.levels) == 3
    ((reporter, source, place),) = whole.metrics_places
    assert (reporter.polling_period, source.cleanup.days_to_keep) == (60, 3)
    assert place.jdbc_url.endswith("/WSO2_METRICS_DB")
    assert whole.sections.own.otlp.endpoint.endswith("/v1/metrics")
    assert excluded.sections.auth.rest.exclude == ("/metrics",)


def test_its_app_begins_with_what_it_says():
    (text,) = blocks("sql")
    found = statistics_of(plan_app(text).annotations)
    assert (found.level, len(found.include)) == (Level.BASIC, 3)


def test_its_queries_and_tables_name_families_that_there_are():
    known = exposed()
    names = {name for block in blocks("promql") for name, _ in SELECTOR.findall(block)}
    assert len(names) == 5
    shown = set(re.findall(r"`((?:nadi|jvm)_[a-z_]+)`", PAGE)) - {"nadi_latency_seconds"}
    assert names | shown <= known.keys()


def test_its_table_of_names_has_the_levels_of_the_code():
    rows = re.findall(r"^\| (`[A-Z][^|]*) \| [^|]* \| (`[^|]*) \| (BASIC|DETAIL) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 10
    for types, metrics, level in rows:
        for kind in re.findall(r"`(\w+)`", types):
            for metric in re.findall(r"`(\w+)`", metrics):
                assert MetricName("A", kind, "x", "", metric).level.name == level, (kind, metric)
