"""Which part of a channel a chunk belongs to: by the key-group of its key, or by its number (`nadi.io.share.by_number`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nadi.kernel.contract import KEY_GROUPS

Ints = npt.NDArray[np.int64]


def by_key_group(groups: Ints, parts: int) -> Ints:
    """The part of each key-group: runs of consecutive ones.

    >>> by_key_group(np.array([0, 42, 43, 127]), 3).tolist()
    [0, 0, 1, 2]
    """
    return groups * parts // KEY_GROUPS


def opens_in(parts: Ints, opens: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where chunks begin once rows have gone to their parts: a chunk that another part has a row of goes on as another one behind it.

    So the runs of equal keys in a chunk, which are taken one by one, stay apart.

    >>> opens_in(np.array([0, 1, 0, 0]), np.array([True, False, False, False])).tolist()
    [True, True, True, False]
    """
    found = opens.copy()
    found[1:] |= parts[1:] != parts[:-1]
    return found
