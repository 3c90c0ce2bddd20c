"""The apps that are run while things are killed: two have a keyed pattern, a sliding window with group-by and a join each, one is small."""

from __future__ import annotations

OUT = ("kind", "k", "a", "b", "value", "at")
"""The attributes of the stream `Out` of all apps: `a` and `b` are ids of events, `at` is when."""

# Everything is kept by its key, so this app has several buckets.
KAFKA = """@app:name('KafkaKills')
@source(type = 'kafka', topic.list = 'left', bootstrap.servers = '{broker}', @map(type = 'json'))
define stream Left (k string, id string, g int, n long);
@source(type = 'kafka', topic.list = 'right', bootstrap.servers = '{broker}', @map(type = 'json'))
define stream Right (k string, id string, g int, n long);

@sink(type = 'kafka', topic = 'out', bootstrap.servers = '{broker}', key = '{{{{k}}}}', @map(type = 'json'))
define stream Out (kind string, k string, a string, b string, value long, at long);

partition with (k of Left, k of Right)
begin
  from every e1=Left[n < 50L] -> e2=Left[n > e1.n + 40L] within 4 sec
  select 'rise' as kind, e1.k as k, e1.id as a, e2.id as b, e2.n - e1.n as value, eventTimestamp() as at
  insert into Out;

  from Left#window.time(2 sec)
  select 'sum' as kind, k, id as a, '' as b, sum(n) as value, eventTimestamp() as at group by g
  insert all events into Out;

  from Left#window.length(4) as l join Right#window.time(1 sec) as r on l.g == r.g
  select 'pair' as kind, l.k as k, l.id as a, r.id as b, l.n + r.n as value, eventTimestamp() as at
  insert into Out;
end;
"""

# The window and the join go over all keys, so this one has one bucket.
HTTP = """@app:name('HttpKills')
@source(type = 'http', receiver.url = '{url}/left', @map(type = 'json'))
define stream Left (k string, id string, g int, n long);
@source(type = 'http', receiver.url = '{url}/right', @map(type = 'json'))
define stream Right (k string, id string, g int, n long);

@sink(type = 'file', file.uri = '{file}', @map(type = 'json'))
@sink(type = 'nats', destination = 'out', bootstrap.servers = '{nats}', @map(type = 'json'))
define stream Out (kind string, k string, a string, b string, value long, at long);

partition with (k of Left)
begin
  from every e1=Left[n < 50L] -> e2=Left[n > e1.n + 40L] within 4 sec
  select 'rise' as kind, e1.k as k, e1.id as a, e2.id as b, e2.n - e1.n as value, eventTimestamp() as at
  insert into Out;
end;

from Left#window.time(2 sec)
select 'sum' as kind, k, id as a, '' as b, sum(n) as value, eventTimestamp() as at group by k
insert all events into Out;

from Left#window.length(20) as l join Right#window.time(1 sec) as r on l.k == r.k
select 'pair' as kind, l.k as k, l.id as a, r.id as b, l.n + r.n as value, eventTimestamp() as at
insert into Out;
"""

# One bucket, too, and a state so small that a host writes its bases within the cuts. It shares a query with the app before, where apps do.
SMALL = """@app:name('SmallKills')
@source(type = 'http', receiver.url = '{url}/small', @map(type = 'json'))
define stream Left (k string, id string, g int, n long);

@sink(type = 'file', file.uri = '{small}', @map(type = 'json'))
define stream Out (kind string, k string, a string, b string, value long, at long);

from Left#window.length(5) select 'last' as kind, k, id as a, '' as b, sum(n) as value, eventTimestamp() as at group by k
insert into Out;
"""

APPS = {"kafka": KAFKA, "http": HTTP, "small": SMALL}
NAMES = ("KafkaKills", "HttpKills", "SmallKills")
