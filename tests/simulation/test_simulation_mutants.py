from __future__ import annotations

import pytest
from mutants import MODULES, PAIR_MODULES, mutants


@pytest.mark.parametrize("module", [*MODULES, *PAIR_MODULES])
def test_bugs_can_be_made_of_every_module_of_the_protocols(module: str) -> None:
    assert next(mutants(module)).module == module
