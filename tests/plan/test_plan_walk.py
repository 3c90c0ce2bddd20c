"""Walks over plans that are asked for again and again."""

from __future__ import annotations

from dataclasses import replace

from nadi.functions.registry import default_registry
from nadi.plan import plan_app
from nadi.plan.nodes import Query
from nadi.plan.walk import read, searched

TEXT = """
define stream S (k string); define stream R (k string); define table T (k string);
from S join R#window.length(2) on S.k == R.k select S.k as k insert into Out;
from S[T.k == k in T] select k insert into Found;
"""


def queries() -> tuple[Query, ...]:
    return plan_app(TEXT, default_registry()).queries


def test_what_a_query_reads_is_the_same_however_often_it_is_asked() -> None:
    joining, looking = queries()
    for _ in range(3):
        assert (read(joining), read(looking)) == ({0: "S", 1: "R"}, {0: "S"})
        assert (searched(joining), searched(looking)) == (set(), {"T"})


def test_whoever_changes_an_answer_changes_no_other_one() -> None:
    (_joining, looking) = queries()
    read(looking)[1] = "R"
    searched(looking).add("R")
    assert read(looking) == {0: "S"}
    assert searched(looking) == {"T"}


def test_a_changed_copy_of_a_query_is_another_query() -> None:
    joining, looking = queries()
    assert read(joining) == {0: "S", 1: "R"}
    assert read(replace(joining, input=looking.input)) == {0: "S"}


def test_a_query_in_the_place_of_one_that_is_gone_is_not_taken_for_it() -> None:
    for _ in range(200):
        joining, looking = queries()
        assert (read(joining), read(looking)) == ({0: "S", 1: "R"}, {0: "S"})
        del joining, looking
