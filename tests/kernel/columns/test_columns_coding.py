"""Keys of a block are told once each, in the order in which they come, whatever their numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.kernel.columns.coding import coded

_FAR = st.integers(0, 2**31 - 1)
_CLOSE = st.integers(0, 5).map(lambda n: n * 2**20)  # of these many look for the same slot


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@given(numbers=st.lists(_FAR | _CLOSE, max_size=200))
def test_numbers_are_told_once_and_found_again(dtype: type, numbers: list[int]) -> None:
    different, codes = coded(np.array(numbers, dtype))
    assert different.tolist() == list(dict.fromkeys(numbers))
    assert different[codes].tolist() == numbers
