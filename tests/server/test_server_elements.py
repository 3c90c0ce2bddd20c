"""The design view of an app."""

from __future__ import annotations

from dataclasses import fields

from nadi.functions.registry import default_registry
from nadi.plan import plan_app
from nadi.server.elements import Edge, as_json, edges_of

APP = """@App:name('Shop')
@source(type='http', receiver.url='http://0.0.0.0:1/x', @map(type='json'))
define stream Orders (symbol string, price double);
@sink(type='log', prefix='a')
define stream Alerts (symbol string, twice double);
define table Prices (symbol string, price double);
define window Last (symbol string, price double) length(5);
define trigger Tick at every 1 sec;
define aggregation Sums from Orders select symbol, sum(price) as total group by symbol aggregate every sec ... min;
define function double[javascript] return double { return data[0] * 2; };
@info(name='alerts') from Orders[price > 1.0] select symbol, double(price) as twice insert into Alerts;
from Orders as o join Prices as p on o.symbol == p.symbol select o.symbol, p.price insert into Joined;
partition with (symbol of Orders, symbol of Joined) begin
  @info(name='keep') from Orders select symbol, price insert into #Kept;
  from #Kept select symbol, price update or insert into Prices on Prices.symbol == symbol;
end;
partition with (price < 1.0 as 'low' or price >= 1.0 as 'high' of Orders) begin
  from every e1=Orders -> e2=Orders[price > e1.price] select e1.symbol, e2.price insert into Last;
end;
from Tick select eventTimestamp() as at insert into Ticks;
"""


def edges() -> list[Edge]:
    return edges_of(APP, plan_app(APP, default_registry()))


def ends_of(edge: Edge) -> tuple[str, str, str, str]:
    return edge.inputStreamId, edge.inputStreamType, edge.outputStreamId, edge.outputStreamType


def test_there_is_an_element_for_each_edge_with_the_types_of_its_ends():
    assert [ends_of(edge) for edge in edges()] == [
        ("http", "Source", "Orders", "Stream"),
        ("Orders", "Stream", "Alerts", "Stream"),
        ("Orders", "Stream", "Joined", "Stream"),
        ("Prices", "Table", "Joined", "Stream"),
        ("Orders", "Stream", "#Kept", "Stream"),
        ("#Kept", "Stream", "Prices", "Table"),
        ("Orders", "Stream", "Last", "Window"),
        ("Tick", "Trigger", "Ticks", "Stream"),
        ("Orders", "Stream", "Sums", "Aggregation"),
        ("Alerts", "Stream", "log", "Sink"),
    ]


def test_an_element_has_exactly_the_fields_of_the_contract():
    ends = [f"{side}Stream{what}" for side in ("input", "output") for what in ("Id", "Type", "SiddhiApp")]
    partitions = ["partitionType", "partitionTypeQuery", "partitionQuery"]
    names = [*ends, "query", "queryName", *partitions, "function", "functionQuery"]
    assert [f.name for f in fields(Edge)] == names
    assert all(list(as_json(edge)) == names for edge in edges())


def test_stretches_of_the_text_have_double_quotes():
    source, alerts, *_ = edges()
    assert source.inputStreamSiddhiApp == ('@source(type="http", receiver.url="http://0.0.0.0:1/x", @map(type="json"))')
    assert source.outputStreamSiddhiApp is not None
    assert source.outputStreamSiddhiApp.endswith("define stream Orders (symbol string, price double)")
    assert alerts.query is not None
    assert alerts.query.endswith("from Orders[price > 1.0] select symbol, double(price) as twice insert into Alerts")
    assert not any("'" in value for edge in edges() for value in as_json(edge).values() if value)


def test_a_query_has_its_name_or_the_default_and_the_script_that_it_calls():
    _, alerts, joined, *_ = edges()
    assert (alerts.queryName, joined.queryName) == ("alerts", "query")
    assert (alerts.function, joined.function) == ("double", None)
    assert alerts.functionQuery == "define function double[javascript] return double { return data[0] * 2; }"


def test_a_query_of_a_partition_has_the_partition_and_its_keys():
    found = edges()
    kept, ranged = found[4], found[6]
    assert (kept.partitionType, kept.queryName) == ("Value Partition", "keep")
    assert kept.partitionTypeQuery == "symbol of Orders, symbol of Joined"
    assert kept.query is not None
    assert kept.query.startswith("partition with (symbol of Orders")
    assert kept.partitionQuery is not None
    assert "insert into #Kept" in kept.partitionQuery
    assert ranged.partitionType == "Range Partition"
    assert ranged.partitionTypeQuery == 'price < 1.0 as "low" or price >= 1.0 as "high" of Orders'


def test_a_stream_without_a_definition_has_that_which_its_queries_give_it():
    joined = edges()[2]
    assert joined.outputStreamSiddhiApp == "define stream Joined (symbol string, price double)"
    assert edges_of(APP, None)[2].outputStreamSiddhiApp is None


def test_of_a_text_with_errors_there_is_what_can_be_read():
    assert [
        ends_of(e) for e in edges_of("define stream S (a int); from S select a insert into T; define strem", None)
    ] == [("S", "Stream", "T", "Stream")]


def test_a_query_within_another_is_seen_through():
    text = "define stream S (a int); from (from S select a return)#window.length(2) select a insert into T;"
    assert [ends_of(edge) for edge in edges_of(text, None)] == [("S", "Stream", "T", "Stream")]
