"""Whether the tests of a contract, all together, have seen each code that it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

Contract = Mapping[tuple[str, str], Collection[int]]
"""(method, path) → codes."""
Seen = Collection[tuple[str, str, int]]


def check_answers(request: pytest.FixtureRequest, contract: Contract, seen: Seen) -> None:
    """To be called at the end of a module: by then its tests have run, in whatever order. Where some were left out it says nothing."""
    here = [item for item in request.session.items if item.path == request.path]
    written = {name for name in vars(request.module) if name.startswith("test_")}
    if written - {getattr(item, "originalname", "") for item in here}:
        return
    missing = {(*route, code) for route, codes in contract.items() for code in codes} - set(seen)
    assert missing == set(), "no test of this module was answered with these codes"
