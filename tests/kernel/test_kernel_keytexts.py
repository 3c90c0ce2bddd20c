"""Keys of many events at once, and the key-groups of their texts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.kernel.keys import key_group
from nadi.kernel.keytexts import key_groups, texts_of_key
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))


@given(TEXTS, st.integers(0, 3))
def test_the_groups_of_many_texts_are_those_of_each(texts: list[str], before: int) -> None:
    sliced = pa.array(["other"] * before + texts, pa.string())[before:]
    assert key_groups(sliced).tolist() == [key_group(text) for text in texts]


SCHEMA = Schema((Column("k", Type.STRING), Column("select", Type.INT)))
ROWS = pa.RecordBatch.from_pydict({"k": ["a", None, "b"], "select": pa.array([1, 2, None], pa.int32())})


@pytest.mark.parametrize(
    ("key", "texts"),
    [("k", ["a", None, "b"]), ("str:upper(k)", ["A", None, "B"]), ("`select` + 1", ["2", "3", None])],
)
def test_the_key_of_an_event_is_an_expression_over_it_and_none_where_it_fails(
    key: str, texts: list[str | None]
) -> None:
    assert texts_of_key(key, SCHEMA)(ROWS).to_pylist() == texts


def test_a_key_that_is_no_expression_over_the_stream_is_refused() -> None:
    with pytest.raises(NadiError):
        texts_of_key("other", SCHEMA)
