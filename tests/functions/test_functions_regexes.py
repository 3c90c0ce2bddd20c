"""The namespace regex: nulls, groups, patterns that come with events."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.runtime import Runtime

REGISTRY = default_registry()


def call(name: str, *values: Any) -> Any:
    function = REGISTRY.function(f"regex:{name}")
    assert function is not None
    args = tuple(Argument(Type.INT if isinstance(v, int) else Type.STRING) for v in values)
    return function.make(args, function.returns(args))(*values)


def test_a_null_text_matches_nothing_and_a_null_pattern_is_an_error() -> None:
    for name in ("find", "lookingAt", "matches"):
        assert call(name, "a", None) is False
        with pytest.raises(NadiError, match="null"):
            call(name, None, "a")
    with pytest.raises(NadiError, match="null"):
        call("group", "a", None, 0)


def test_a_group_that_is_not_there_is_null() -> None:
    assert call("group", "(a)|(b)", "b", 1) is None
    assert call("group", "(a)", "a", 5) is None
    assert call("group", "(a)", "b", 0) is None
    with pytest.raises(NadiError):
        call("group", "(a)", "a", -1)


def test_a_search_from_an_index_still_knows_where_the_text_begins() -> None:
    assert call("find", "^b", "ab", 1) is False
    assert call("find", "(?<=a)b", "ab", 1) is True
    with pytest.raises(NadiError, match="not within"):
        call("find", "a", "a", 2)


def test_a_pattern_of_an_attribute_is_compiled_for_its_event_and_a_wrong_constant_refused() -> None:
    app = "define stream In (p string); from In[regex:matches(p, 'abc')] select p insert into Out;"
    runtime, found = Runtime(app), []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    runtime.send("In", [(None, (p,)) for p in ("a.c", "x", "(?<n>a)[b&&[abc]]c")])
    assert found == ["a.c", "(?<n>a)[b&&[abc]]c"]
    with pytest.raises(NadiError, match=r"\[WRONG_ARGUMENTS\].*cannot be used"):
        Runtime("define stream In (p string); from In[regex:matches('(', p)] select p insert into Out;")
