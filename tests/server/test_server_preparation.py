"""What the text of an app goes through before the node gets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.node import NodeOptions
from nadi.server.appfiles import AppFile
from nadi.server.preparation import AppPreparation

TEXT = """@App:name('A')
@source(ref='orders', @map(type='json')) define stream S (a int);
from S[a > ${LEAST}] select a insert into T;"""


@pytest.fixture
def preparation(tmp_path: Path) -> AppPreparation:
    refs = {"orders": ("http", {"receiver.url": "http://127.0.0.1:1/x"})}
    return AppPreparation(NodeOptions(tmp_path), {"LEAST": "5"}, refs)


def test_an_app_runs_with_the_refs_and_variables_that_the_operator_has_named(preparation: AppPreparation):
    found = preparation.checked(AppFile("A", TEXT))
    assert "@source(type='http', receiver.url='http://127.0.0.1:1/x', @map(type='json'))" in found.filled
    assert "127.0.0.1" not in found.text  # what is stored has no values of connections: they may have passwords
    assert "a > 5" in found.text


def test_a_ref_that_nobody_has_named_is_refused_with_the_nearest(preparation: AppPreparation):
    with pytest.raises(NadiError, match="did you mean 'orders'") as raised:
        preparation.checked(AppFile("A", TEXT.replace("'orders'", "'order'")))
    assert raised.value.condition == "REF_UNKNOWN"


def test_an_app_that_the_node_would_refuse_is_refused_before_it_is_saved_and_told_where(preparation: AppPreparation):
    text = "@App:name('A')\n@sink(type='lgo') define stream S (a int);\nfrom S select a insert into T;"
    with pytest.raises(NadiError, match="did you mean 'log'") as raised:
        preparation.name_of(text)
    assert raised.value.condition == "EXTENSION_NOT_FOUND"
    assert "    @sink(type='lgo') define stream S (a int);\n          ^^^^^^^^^^" in str(raised.value)


SHARED = """@App:name('A') define stream S (a int);
@PartitionById define aggregation G from S select sum(a) as n aggregate every sec;"""


def test_what_follows_from_the_settings_of_a_node_is_told_by_it_and_not_by_a_manager(tmp_path: Path):
    with pytest.raises(NadiError, match="shardId"):
        AppPreparation(NodeOptions(tmp_path), {}).name_of(SHARED)
    assert AppPreparation(NodeOptions(tmp_path, conf={"nadi.properties.shardId": "1"}), {}).name_of(SHARED) == "A"
    assert AppPreparation(NodeOptions(tmp_path), {}, runs=False).name_of(SHARED) == "A"
