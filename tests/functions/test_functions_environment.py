"""The namespace env: properties come from the runtime, not from the machine."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.runtime import Runtime


def _row(select: str, properties: dict[str, str]) -> tuple[Any, ...]:
    app = f"define stream In (x int); from In select {select} insert into Out;"
    runtime, found = Runtime(app, properties=properties), []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    runtime.send("In", [(None, (1,))])
    return found[0] if found else ()


def test_a_property_is_read_as_its_type() -> None:
    select = "env:getYAMLProperty('n', 'long') as a, env:getYAMLProperty('b', 'bool') as b, env:getYAMLProperty('none', 'double', 1.5) as c"
    assert _row(select, {"n": "7", "b": "TRUE"}) == (7, True, 1.5)


def test_the_environment_of_the_machine_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "here")
    assert _row("env:getEnvironmentProperty('REGION') as r", {}) == (None,)
    assert _row("env:getEnvironmentProperty('REGION') as r", {"REGION": "there"}) == ("there",)


def test_a_type_that_is_none_is_refused() -> None:
    for wrong in ("'number'", "'int', 'x'"):
        with pytest.raises(NadiError, match="WRONG_ARGUMENTS"):
            _row(f"env:getYAMLProperty('n', {wrong}) as a", {})


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("192.168.1.1,8.8.8.8", "8.8.8.8"),
        ("172.20.0.1", None),
        ("172.32.0.1", "172.32.0.1"),
        ("300.1.1.1, x", None),
        ("", None),
        ("1.2.3", None),
        ("1.2.3.4.", None),
    ],
)
def test_the_first_public_address_is_the_origin(header: str, address: str | None) -> None:
    assert _row(f"env:getOriginIPFromXForwarded('{header}') as a", {}) == (address,)
