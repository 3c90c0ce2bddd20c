"""How one version of an app follows another: in place, or once it has drained, and with what its instances begin."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.plan.distribution import distribute
from nadi.server.distributed.deployment import home_of
from nadi.server.distributed.succession import Version, goes_on, heritages, rows

APP = """@app:name('A')
@source(type = 'http', receiver.url = 'http://127.0.0.1:1/in', @map(type = 'json'))
define stream S (k string, v long);
@dist(execGroup = 'good') from S[v > 0] select k, v insert into T;
@dist(execGroup = 'sums', parallel = '2')
partition with (k of T) begin @info(name='sum') from T select k, sum(v) as total insert into U; end;
"""
MORE = "@dist(execGroup = 'more') from U select k insert into V;"


def changed(*changes: tuple[str, str]) -> str:
    text = APP
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def version(text: str, generation: str = "") -> Version:
    topology = distribute(text, default_registry(), connectors, generation=generation)
    return Version(topology, {i.name: home_of(i.name, generation) for i in topology.instances}, {})


def stays(*changes: tuple[str, str]) -> bool:
    """Whether the instances go on where they are after texts are replaced."""
    return goes_on(version(APP).topology, version(changed(*changes)).topology)


def test_queries_may_change_in_place():
    assert stays(("v > 0", "v > 10"), ("sum(v)", "max(v)"))


@pytest.mark.parametrize(
    "change",
    [
        ("parallel = '2'", "parallel = '1'"),
        ("parallel = '2'", "parallel = '3'"),
        ("k of T", "v of T"),
        ("execGroup = 'good'", "execGroup = 'good', parallel = '2'"),
        ("select k, v insert into T", "select k, v, 1 as more insert into T"),
        ("127.0.0.1:1/in", "127.0.0.1:2/in"),
        ("end;", f"end; {MORE}"),
    ],
)
def test_an_app_drains_before_it_has_other_instances_or_ends(change: tuple[str, str]):
    assert not stays(change)


def test_new_instances_begin_with_what_those_of_their_group_leave():
    found = heritages(version(APP), version(changed(("parallel = '2'", "parallel = '3'")), "v2-0a1b2c"))
    assert [a.home for a in found["A-sums-3"].ancestors] == ["A-sums-1", "A-sums-2"]
    assert found["A-sums-3"].number == 2
    assert found["A-sums-3"].firsts == (0, 43, 86)
    assert [a.home for a in found["A-good-1"].ancestors] == ["A-good-1"]


def test_a_version_after_that_begins_with_the_homes_of_that_one():
    found = heritages(version(APP, "v2-0a1b2c"), version(APP, "v3-000000"))
    assert [a.home for a in found["A-sums-1"].ancestors] == ["A-sums-1~v2-0a1b2c", "A-sums-2~v2-0a1b2c"]


def test_a_group_that_is_new_begins_anew():
    assert "A-more-1" not in heritages(version(APP), version(changed(("end;", f"end; {MORE}"))))


def test_who_takes_a_source_over_knows_where_it_stood():
    kafka = (
        "type = 'http', receiver.url = 'http://127.0.0.1:1/in'",
        "type = 'kafka', topic.list = 't', bootstrap.servers = 'b:1'",
    )
    found = heritages(
        version(changed(kafka)), version(changed(kafka, ("execGroup = 'good'", "execGroup = 'good', parallel = '2'")))
    )
    assert [a.home for a in found["A-passthrough-S-1-1"].ancestors] == ["A-good-1"]


RENAMED = ("execGroup = 'sums', parallel = '2'", "execGroup = 'totals', parallel = '3'")


def test_a_group_with_another_name_begins_with_what_the_one_before_it_leaves():
    found = heritages(version(APP), version(changed(RENAMED), "v2-0a1b2c"))
    assert [a.home for a in found["A-totals-3"].ancestors] == ["A-sums-1", "A-sums-2"]
    assert (found["A-totals-3"].number, found["A-totals-3"].firsts) == (2, (0, 43, 86))
    told = rows(version(APP), version(changed(RENAMED)))
    assert {(group, fate) for group, _element, _keeps, fate, _why in told} == {("A-totals", "kept")}


TWO = """@app:name('A')
@source(type = 'http', receiver.url = 'http://127.0.0.1:1/in', @map(type = 'json'))
define stream S (k string, v long);
@info(name='sum') @dist(execGroup = '{0}') from S select k, sum(v) as total group by k insert into U;
@info(name='last') @dist(execGroup = '{1}') from S#window.length(3) select k, max(v) as most insert into W;
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("aa", "bc"), ("aa", "ab"), ("ab", "cc"), ("ab", "bb"), ("ab", "ba")],
    ids=[
        "one becomes two",
        "one gives some to another",
        "two become one",
        "one goes into another",
        "two change places",
    ],
)
def test_state_is_not_divided_among_groups_nor_brought_together(before: str, after: str):
    with pytest.raises(NadiError, match="GROUPS_CHANGED"):
        heritages(version(TWO.format(*before)), version(TWO.format(*after)))


def test_two_groups_with_other_names_each_begin_with_what_their_own_one_leaves():
    found = heritages(version(TWO.format(*"ab")), version(TWO.format(*"dc")))
    assert {name: [a.home for a in of.ancestors] for name, of in found.items() if "passthrough" not in name} == {
        "A-d-1": ["A-a-1"],
        "A-c-1": ["A-b-1"],
    }


def test_a_plan_says_what_becomes_of_each_element():
    told = rows(version(APP), version(changed(("parallel = '2'", "parallel = '3'"))))
    assert {(group, fate) for group, _element, _keeps, fate, _why in told} == {("A-sums", "kept")}
    lost = rows(version(APP), version(changed(("sum(v)", "max(v)"))))
    assert ("A-sums", "reset") in {(group, fate) for group, _element, _keeps, fate, _why in lost}
