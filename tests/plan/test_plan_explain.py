"""What `nadi explain` says."""

from __future__ import annotations

import json
import re

import pytest

from nadi.io import registry as connectors
from nadi.plan import explained, explanation

APP = """@app:name('Demo')
@source(type='kafka', topic='t') define stream S (k string, v int);
@sink(type='kafka', topic='a') @sink(type='http', url='u') define stream Alerts (k string, total long);
@sink(type='log') @sink(type='inMemory', topic='x') @sink(type='file') @sink(type='jms') define stream Out (k string);
define trigger X at every 1 min;
@info(name='pre') from S[v > 1] select k as key, v insert into P;
@dist(execGroup='keyed') partition with (key of P) begin
  @info(name='sums') from P#window.time(1 sec) select key as k, sum(v) as total insert into Alerts;
end;
@dist(execGroup='rest') @info(name='all') from Alerts select UUID() as k order by k insert into Out;
@dist(execGroup='rest') from X select 'x' as k insert into Out;
"""


def test_the_text_names_groups_inputs_queries_state_and_sinks(plan):
    told = re.sub(r"\[[0-9a-f]{16}\]", "[#]", explained(plan(APP), connectors))
    expected = """app Demo (rules of Siddhi 5.x)

group (default): as many buckets as there are input partitions, split by input partition
  because nothing in it keeps state, so every partition of an input stands alone
  input S (kafka)
  query pre: S → P
    runs on columns: it has an operator over whole batches (unless nadi.kernel is rows)
    state: none
    timers: none

group keyed: up to 128 buckets, split by key
  because all state lies in partitions whose keys come from the inputs: P by key
  input P (group (default), key key)
  partition partition_1 with (key of P)
    query sums: P → Alerts
      runs on columns: it has an operator over whole batches (unless nadi.kernel is rows)
      state: sums/window, sums/selector
      timers: sums/window

group rest: one bucket, split by nothing
  because the trigger 'X' fires outside partitions, once and not once per bucket; to lift it, put what reads it into an \
execution group of its own: @dist(execGroup='…')
  because query 'all' stands outside a partition and orders or limits the events of a chunk; to lift it, put it into a \
partition by a key of its input
  input Alerts (group keyed)
  input X (trigger)
  query all: Alerts → Out
    runs on rows: UUID() makes a string
    state: none
    timers: none
    pinned: UUID is a hash of element, order key and call
  query query_4: X → Out
    runs on rows: it reads 'X', which changes between events: it is on rows only
    state: none
    timers: none

state
  X/trigger  when it fires next, woken by timers  [#]
  partition_1/keys  the keys that were seen  [#]
  sums/window  the events of the window time(1000), woken by timers  [#]
  sums/selector  sum()  [#]

sources
  S ← kafka, map passThrough: exactly once: a batch that is repeated reads the same messages of the log
    options: topic = ***; by default: start.position = beginning

sinks
  Alerts → kafka, map passThrough: exactly once: the rows of a batch and its number are written in one transaction
    refused: a message that is larger than the topic takes stops the app
    options: topic = a
  Alerts → http, map passThrough: at least once, with numbers: the receiver gets the number of every row and can drop what it has seen
    refused: an answer of 4xx but 408, 425 and 429 stops the app
    options: url = ***; by default: method = POST
  Out → log, map passThrough: at least once, with numbers: a log holds no numbers: after a crash the last batch may be written again, with \
the same numbers
    by default: prefix = Demo : Out, priority = INFO
  Out → inMemory, map passThrough: exactly once: messages carry their numbers, and after a failure the tail of the stream is read for those \
that are there
    refused: a message that is larger than the server takes stops the app
    options: topic = x
  Out → file, map passThrough: exactly once: a batch is appended once: a ledger of committed lengths is kept beside the file, folders get files under \
their final names
  Out → jms, map passThrough: at least once, with numbers: nothing is known of the target that would let it drop a repeated row
"""
    assert told == expected


def test_the_data_is_plain_and_says_the_same(plan):
    told = json.loads(json.dumps(explanation(plan(APP), connectors)))
    assert [(g["name"], g["sharding"], g["keys"]) for g in told["groups"]] == [
        ("", "partition", {}),
        ("keyed", "key", {"P": "key"}),
        ("rest", "single", {}),
    ]
    assert told["groups"][1]["elements"][0]["queries"][0]["state"] == ["sums/window", "sums/selector"]
    assert told["state"]["sums/window"]["timed"]
    assert {(s["type"], s["delivery"]) for s in told["sinks"] if s["stream"] == "Alerts"} == {
        ("kafka", "exactly once"),
        ("http", "at least once, with numbers"),
    }


def test_sources_and_sinks_are_told_with_their_options_and_the_defaults_that_count(plan):
    app = """@app:name('Pump')
@source(type='http', basic.auth.enabled='true', basic.auth.username='ada', basic.auth.password='S3cret', @map(type='json'))
define stream In (a int);
@source(type='nats', subject='d', url='nats://u:S3cret@h:4222', start.position='end', @map(type='csv'))
define stream More (a int);
@sink(type='rdbms', url='jdbc:postgresql://u:S3cret@db/x', table.name='t') define stream Out (a int);
from In select a insert into Out;
"""
    made = plan(app)
    told = explanation(made, connectors)
    assert [(s["stream"], s["type"], s["map"]) for s in (*told["sources"], *told["sinks"])] == [
        ("In", "http", "json"),
        ("More", "nats", "csv"),
        ("Out", "rdbms", "passThrough"),
    ]
    assert [s["defaults"] for s in told["sources"]] == [
        {"receiver.url": "http://127.0.0.1:9763/Pump/In", "journal.retention.hours": "24", "idempotency.hours": "24"},
        {},
    ]
    assert told["sources"][1]["options"] == {"subject": "d", "url": "nats://***@h:4222", "start.position": "end"}
    text = explained(made, connectors)
    assert "S3cret" not in text
    assert "basic.auth.enabled = true, basic.auth.username = ***, basic.auth.password = ***; by default: rec" in text
    assert "  Out → rdbms, map passThrough: exactly once" in text
    assert "    options: url = jdbc:postgresql://***@db/x, table.name = t; by default: operation = insert\n" in text


def test_an_app_without_state_and_sinks_says_so(plan):
    text = explained(plan("@app:playback define stream S (v int); from S[v > 1] insert into O;"), connectors)
    assert text.startswith("app SiddhiApp (rules of Siddhi 5.x, playback clock)\n")
    assert text.endswith("\nstate: none\n\nsinks: none\n")


def test_a_fault_stream_that_is_read_is_shown_as_an_input(plan):
    text = explained(
        plan("@OnError(action='STREAM') define stream S (v int); from !S select v insert into O;"), connectors
    )
    assert "  input !S (events of 'S' that failed)\n" in text


@pytest.mark.parametrize(
    ("options", "route", "told"),
    [
        ("type='http'", "", "an answer of 4xx but 408, 425 and 429 stops the app"),
        (
            "type='http', on.error='log'",
            "",
            "an answer of 4xx but 408, 425 and 429 is dropped, with a warning in the log",
        ),
        (
            "type='kafka', on.error='WAIT'",
            "",
            "a message that is larger than the topic takes is tried again until it is taken",
        ),
        ("type='nats', on.error='STORE'", "", "a message that is larger than the server takes goes to the error store"),
        (
            "type='nats', on.error='STREAM'",
            "",
            "a message that is larger than the server takes goes to the error store: 'S' has no @OnError(action='STREAM')",
        ),
        (
            "type='http', on.error='STREAM'",
            "@OnError(action='STREAM')",
            "an answer of 4xx but 408, 425 and 429 comes back as an event of !S",
        ),
        ("type='file', on.error='STREAM'", "", ""),
    ],
)
def test_what_becomes_of_what_a_target_refuses_is_told(plan, options: str, route: str, told: str):
    app = plan(f"@sink({options}) {route} define stream S (v int); from S select v insert into O;")
    assert [s["refused"] for s in explanation(app, connectors)["sinks"]] == [told]
    assert ("refused:" in explained(app, connectors)) is bool(told)


CENTRES = """@app:name('Sites')
@source(type='kafkaMultiDC', topic='t', bootstrap.servers='a:1,b:1') define stream S (k string, v int);
@source(type='kafka', topic='u') define stream Alone (k string, v int);
define table Last (k string, v int);
@info(name='plain') from S[v > 1] select k, v insert into P;
@info(name='sums') from P#window.length(2) select k, sum(v) as total insert into Sums;
@info(name='behind') from Sums[total > 3L] select k insert into Out;
@info(name='beside') from S[v > 2] select k insert into Out2;
@info(name='kept') from S select k, v update or insert into Last on Last.k == k;
@info(name='joined') from Alone join Last on Alone.k == Last.k select Alone.k as k, Last.v as v insert into Joined;
@info(name='other') from Alone#window.length(2) select k, sum(v) as total insert into Others;
"""


def test_queries_are_named_whose_results_depend_on_how_data_centres_interleave(plan):
    app = plan(CENTRES)
    (group,) = explanation(app, connectors)["groups"]
    told = {query["query"]: query["interleaving"] for query in group["elements"]}
    assert {name for name, streams in told.items() if streams == ["S"]} == {"sums", "behind", "kept", "joined"}
    assert {name for name, streams in told.items() if streams == []} == {"plain", "beside", "other"}
    line = "    interleaving: its results depend on the order in which the data centres of S bring their messages\n"
    assert explained(app, connectors).count(line) == 4
    assert "interleaving" not in explained(plan(APP), connectors)
