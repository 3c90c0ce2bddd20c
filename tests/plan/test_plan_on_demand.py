"""On-demand queries as plans."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.lang import parse_on_demand
from nadi.lang.tree import Events, OnDemandQuery, Return, Selection, Type
from nadi.plan import bind_on_demand
from nadi.plan.nodes import (
    TABLE,
    Attr,
    Comparison,
    Const,
    DeleteFromTable,
    InsertIntoTable,
    UpdateOrInsertTable,
    UpdateTable,
)

APP = (
    "define stream S (k string, v int); define table T (k string, v int); define window W (k string, v int) length(3); "
    "define aggregation A from S select k, sum(v) as total group by k aggregate every sec...hour;"
)
K = Comparison("==", Attr(TABLE, 0, Type.STRING, None, "k"), Const("a", Type.STRING))


@pytest.fixture
def ask(plan, catalog):
    app = plan(APP)
    return lambda text: bind_on_demand(parse_on_demand(text), app, catalog, text=text)


@pytest.mark.parametrize(("store", "kind"), [("T", "table"), ("W", "window")])
def test_a_find_has_a_condition_on_the_row_and_a_selection_over_it(ask, store, kind):
    made = ask(f"from {store} on k == 'a' select k, sum(v) as s group by k having s > 1 order by s limit 2")
    assert (made.kind, made.store, made.store_kind, made.on) == ("find", store, kind, K)
    assert made.selection.values[0] == Attr(0, 0, Type.STRING, None, "k")
    assert made.selection.limit == 2


def test_a_find_without_a_selection_gives_whole_rows(ask):
    assert ask("from T").selection.schema.names == ("k", "v")


def test_a_find_may_name_the_store_or_an_alias(ask):
    assert ask("from T on T.k == 'a' select T.v").on == K
    assert ask("from T as t on t.k == 'a' select t.v").on == K


def test_an_aggregation_is_read_over_a_range_and_per_duration(ask):
    made = ask("from A on k == 'a' within 0L, 5L per 'seconds' select AGG_TIMESTAMP, total")
    assert (made.store_kind, made.per) == ("aggregation", Const("sec", Type.STRING))
    assert made.within == (Const(0, Type.LONG), Const(5, Type.LONG))
    assert made.on.left.position == 1


def test_changes_see_the_selected_constants_and_the_table(ask):
    insert = ask("select 'a' as k, 1 as v insert into T")
    assert (insert.kind, insert.output) == ("insert", InsertIntoTable("T", Events.CURRENT))
    assert insert.selection.values == (Const("a", Type.STRING), Const(1, Type.INT))
    delete = ask("delete T on T.k == 'a'")
    assert (delete.kind, delete.output) == ("delete", DeleteFromTable("T", Events.CURRENT, K))
    update = ask("update T set T.v = 5 on T.k == 'a'")
    assert (update.kind, update.output) == ("update", UpdateTable("T", Events.CURRENT, ((1, Const(5, Type.INT)),), K))
    upsert = ask("select 'a' as k, 1 as v update or insert into T set T.v = v on T.k == k")
    assert upsert.kind == "upsert"
    assert isinstance(upsert.output, UpdateOrInsertTable)
    assert upsert.output.set == ((1, Attr(0, 1, Type.INT, None, "v")),)


@pytest.mark.parametrize(
    ("text", "underlined", "message"),
    [
        ("from TT select k", "TT", "did you mean 'T'?"),
        ("from S select k", "S", "'S' is not a table, window or aggregation"),
        ("from T on v > 5 select vv", "vv", "'vv' is not an attribute of 'T'"),
        ("from T on v select v", "v", "needs a bool"),
        ("from T within 1L, 2L per 'sec' select v", None, "'T' is a table"),
        ("from A select k", None, "is read with 'within … per …'"),
        ("from A within 2L, 1L per 'sec'", "2L", "2 is not before 1"),
        ("from A within 1L, 2L per 'days'", "'days'", "(sec, min, hour)"),
        ("from A within 1L, 2L per 1 + 1", "1 + 1", "must be a constant"),
        ("select 1 as v insert into T", "T", "is not the output (v int)"),
        ("select 1 as v insert into U", "U", "'U' is not a table"),
        ("select v insert into T", "v", "'v' is not an attribute"),
        ("delete U on U.k == 'a'", "U", "'U' is not a table"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(ask, text, underlined, message):
    with pytest.raises(NadiError) as caught:
        ask(text)
    found = caught.value.diagnostic
    assert (found.condition, found.siddhi_class) == ("INVALID_ON_DEMAND_QUERY", "OnDemandQueryCreationException")
    assert message in found.render()
    if underlined is not None:
        assert text[found.span.start : found.span.end] == underlined


def test_a_tree_without_a_store_is_refused(plan, catalog):
    with pytest.raises(NadiError, match="there is nothing to select from"):
        bind_on_demand(OnDemandQuery(None, Selection(), Return()), plan(APP), catalog)


def test_binding_a_query_leaves_the_app_as_it_is(plan, catalog):
    app = plan(APP)
    before = dict(app.streams)
    bind_on_demand(parse_on_demand("from T select k"), app, catalog)
    assert app.streams == before
