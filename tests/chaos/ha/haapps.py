"""The app of the kill test of a pair: three inputs, a keyed pattern, a time window, a join and a table; what comes out goes to Kafka and into a database."""

from __future__ import annotations

NAME = "Pair"
STREAMS = ("FromHttp", "FromKafka", "FromMqtt")
ROWS, SUMS = "rows", "sums"
"""The topic, and the table."""
SUM_COLUMNS = ("seen", "k", "total", "n")

APP = """@app:name('Pair')
@source(type = 'http', receiver.url = 'http://node.test:{port}/in', @map(type = 'json'))
define stream FromHttp (k string, body string, i int, v long);
@source(type = 'kafka', topic.list = 'in', bootstrap.servers = '{broker}', @map(type = 'json'))
define stream FromKafka (k string, body string, i int, v long);
@source(type = 'mqtt', url = '{mqtt}', topic = 'in', @map(type = 'json'))
define stream FromMqtt (k string, body string, i int, v long);
define stream Readings (k string, body string, i int, v long);
define table Last (k string, body string, v long);

@sink(type = 'kafka', topic = 'rows', bootstrap.servers = '{broker}', @map(type = 'json'))
define stream Out (kind string, k string, a string, b string, value long, at long);
define stream Windowed (k string, total long, n long);
@sink(type = 'rdbms', url = '{database}', table.name = 'sums')
define stream Sums (seen long, k string, total long, n long);

from FromHttp select * insert into Readings;
from FromKafka select * insert into Readings;
from FromMqtt select * insert into Readings;

partition with (k of Readings)
begin
  from every e1=Readings[v < 10L] -> e2=Readings[v > e1.v + 985L] within 4 sec
  select 'rise' as kind, e1.k as k, e1.body as a, e2.body as b, e2.v - e1.v as value, eventTimestamp() as at
  insert into Out;
end;

from Readings#window.time(2 sec) select k, sum(v) as total, count() as n group by k
output last every 2000 events insert into Windowed;
from Windowed select count() as seen, k, total, n insert into Sums;

from Readings[i == 0]#window.length(5) as l join Readings[i == 1]#window.time(1 sec) as r on l.k == r.k
select 'pair' as kind, l.k as k, l.body as a, r.body as b, l.v + r.v as value, eventTimestamp() as at
insert into Out;

from Readings select k, body, v update or insert into Last on Last.k == k;
from Readings[i == 99] as r join Last on r.k == Last.k
select 'last' as kind, r.k as k, r.body as a, Last.body as b, Last.v as value, eventTimestamp() as at
insert into Out;
"""
