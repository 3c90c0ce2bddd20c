"""Hostile texts: what no person writes is explained, in time that grows with its length, and never ends the process."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.lang import parse_collecting, parse_on_demand
from nadi.plan import diagnose

FILTER = "define stream S (a int, b string);\nfrom S[{}] select a insert into T;"
LONG = 30_000
HOSTILE = {
    "open brackets": FILTER.format("(" * LONG),
    "brackets": FILTER.format("(" * LONG + "a" + ")" * LONG),
    "nots": FILTER.format("not " * LONG + "a"),
    "minuses": FILTER.format("-" * LONG + "1"),
    "calls": FILTER.format("f(" * LONG),
    "indices": FILTER.format("a" + "[0" * LONG),
    "braces": "define function f[javascript] return int " + "{" * LONG,
    "annotations in annotations": "@a(" * LONG + ")" * LONG + " define stream S (a int);",
    "a long name": f"define stream {'a' * LONG} (b int);\nfrom {'a' * LONG} select c insert into T;",
    "many attributes": f"define stream S ({', '.join(f'a{i} int' for i in range(10_000))});\nfrom S select nothing insert into T;",
    "a long number": FILTER.format("a > " + "9" * LONG),
    "quotes": "'\"" * LONG,
    "triple quotes": '"""\\' * LONG,
    "back quotes": "`" * LONG,
    "comments": "/*" * LONG,
    "dollars": "${" * LONG,
    "at signs": "@" * LONG,
    "semicolons": ";" * LONG,
    "nulls": "\0" * LONG,
    "arrows": "from " + "every (" * LONG,
    "froms": "from S " * 20_000,
    "unicode": "\U0001f4a3" * LONG,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_explained(name: str) -> None:
    _app, found = parse_collecting(HOSTILE[name])
    for diagnostic in found[:5]:
        assert len(diagnostic.render()) < 20_000
    wrong = diagnose(HOSTILE[name], "", default_registry())
    assert wrong or name == "semicolons"
    assert len(found) <= 101


@pytest.mark.parametrize(
    "text", ["from T on " + "(" * LONG, "select " + "-" * LONG + "1 insert into T", "from " + "T" * LONG]
)
def test_a_hostile_on_demand_query_is_a_named_error(text: str) -> None:
    try:
        parse_on_demand(text)
    except NadiError:
        return
    assert text.startswith("from TT")
