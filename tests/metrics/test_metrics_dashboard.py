"""The dashboard for Grafana asks for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from metrics_exposed import SELECTOR, exposed

from nadi.metrics.measured import Key

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy/grafana/nadi.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
TYPES = {
    *("Streams", "Trigger", "Queries", "Windows", "Aggregations", "Tables", "Sources", "SourceMappers", "Sinks"),
    *("SinkMappers", "StoreQueries", "App", "Inputs"),
}


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[f"{i} {title}" for i, (title, _) in enumerate(QUERIES)])
def test_each_query_asks_for_what_there_is(title: str, query: str):
    known = exposed()
    selectors = SELECTOR.findall(query)
    assert selectors
    for name, selector in selectors:
        assert name in known, f"{title}: {name}"
        labels = dict(re.findall(r'(\w+)(?:=~|!=|=)"([^"]*)"', selector))
        assert labels.keys() <= known[name], f"{title}: {labels}"
        if "type" in labels:
            assert set(labels["type"].split("|")) <= TYPES
    for group in re.findall(r"by \(([^)]*)\)", query):
        assert {part.strip() for part in group.split(",")} <= known[selectors[0][0]]


def test_its_variables_ask_for_what_there_is():
    known = exposed()
    asked = [v["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
    assert len(asked) == 2
    for query in asked:
        name, label = re.fullmatch(r"label_values\(([a-z_]+)(?:\{.*\})?, (\w+)\)", query).groups()
        assert label in known[name]


def test_its_panels_do_not_lie_on_each_other():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_keys_that_travel_come_back():
    for key in (Key("Queries", "a/b c"), Key("Sources", "In", "http"), Key("SinkMappers", "Out", "file.json")):
        assert Key.read(key.packed) == key
