"""Key-groups of many texts at once."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nadi.kernel.keys import key_group
from nadi.pipeline.inputs.keygroups import key_groups

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))


@given(TEXTS, st.integers(0, 3))
def test_the_groups_of_many_texts_are_those_of_each(texts: list[str], before: int) -> None:
    sliced = pa.array(["other"] * before + texts, pa.string())[before:]
    assert key_groups(sliced).tolist() == [key_group(text) for text in texts]
