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
