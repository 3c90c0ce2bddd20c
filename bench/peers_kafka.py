"""Plain Spark beside nadi, from Kafka to Kafka: JSON in, a filter, JSON out; in one run over one broker, over the same topic.

Spark has its own source and sink for Kafka, written for the JVM, and `from_json`, `filter`, `to_json`; its sink is at least once. nadi has its
transactions and row numbers. A rate is events by the time of the batches (`triggerExecution`): starting a query is in neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import timed
from bench.analysis import spread
from bench.checks import Rows, WrongOutputError, compare, parse
from bench.children import Child, ChildFailedError
from bench.delivery import DeliverySetting, fill, make_topics, payloads, topic_in, topic_out
from bench.events import Events
from bench.peers import RUN_WITHIN, Peers, Say
from bench.plan import Batch, Plan, Task, spark_only

KEYS = 1_000
EVENTS = 600_000
_RUN = re.compile(r"^run .*rows=(\d+) .*trigger=([\d.]+)s", re.MULTILINE)


def app_text(setting: DeliverySetting, run: int) -> str:
    """The filter of one run: its own name, so its own state and transactions, and its own output."""
    server = f"bootstrap.servers='{setting.servers}', @map(type='json')"
    return (
        f"@app:name('peers-{run}')\n@source(type='kafka', topic.list='{topic_in(setting)}', {server})\n"
        "define stream In (ts long, sym string, price double, vol int);\n"
        f"@sink(type='kafka', topic='{topic_out(setting, run)}', {server})\n"
        "define stream Out (ts long, sym string, price double, vol int);\n"
        "from In[price > 50.0] select ts, sym, price, vol insert into Out;\n"
    )


def wanted_rows(events: Events) -> Rows:
    """What the filter lets through."""
    kept = events.cents > 5_000
    return {"ts": events.ts[kept], "key": events.key[kept], "price": events.cents[kept], "vol": events.vol[kept]}


def measure_kafka(peers: Peers, setting: DeliverySetting, say: Say) -> dict[str, Any]:
    """The figures of both. Errors: ChildFailedError, WrongOutputError."""
    setting.folder.mkdir(parents=True)
    before = os.getloadavg()[0]
    runs = setting.repeat + 1  # the first one warms up
    make_topics(setting, runs + 1)
    wanted = wanted_rows(fill(setting, say))
    say(f"Spark: {setting.events:,} events {setting.repeat} times")
    theirs = run_spark(peers, setting, runs)
    check_spark(setting, runs, wanted)
    ours = run_nadi_node(setting, runs, wanted, say)
    told = {"nadi": spread(ours), "spark": spread(theirs)}
    return {
        "label": "Kafka to Kafka, JSON, filter",
        "events": setting.events,
        "events_per_s": told,
        "ratio": told["nadi"].median / told["spark"].median,
        "rows": len(wanted["ts"]),
        "load": (before, os.getloadavg()[0]),
    }


def run_spark(peers: Peers, setting: DeliverySetting, runs: int) -> list[float]:
    """Events/s of each run but the first; all write into one topic, that behind nadi's. Errors: ChildFailedError."""
    scratch = setting.folder / "spark"
    (scratch / "ck").mkdir(parents=True)
    (scratch / "spark.cp").write_text(peers.class_path("spark"))
    cores = re.sub(r",\d+\]", "]", setting.master)
    own = {
        "PEER_HOME": str(scratch),
        "BOOTSTRAP": setting.servers,
        "SPARK_MASTER": cores,
        "PYSPARK_PYTHON": sys.executable,
    }
    topics = (topic_in(setting), topic_out(setting, runs))
    program = str(peers.folder / "spark" / "spark_kafka.py")
    command = [sys.executable, program, "rate", "json", *topics, str(setting.events), str(runs - 1)]
    log = setting.folder / "spark.log"
    with log.open("w") as output:
        done = subprocess.run(
            command, env={**os.environ, **own}, stdout=output, stderr=subprocess.STDOUT, timeout=RUN_WITHIN, check=False
        )
    found = spark_runs(log.read_text(errors="replace"), setting.events)
    if done.returncode != 0 or len(found) != runs - 1:
        raise ChildFailedError(f"Spark told of {len(found)} runs, {runs - 1} were asked for; see {log}")
    return found


def spark_runs(text: str, events: int) -> list[float]:
    """Events/s of what Spark's program says of each run. Errors: WrongOutputError, where one took less than all.

    >>> spark_runs("warm mode=json rows=100 wall=9.0s trigger=8.0s\\nrun mode=json rows=100 wall=3.0s trigger=2.00s", 100)
    [50.0]
    """
    found = []
    for rows, seconds in _RUN.findall(text):
        if int(rows) != events:
            raise WrongOutputError(f"Spark took {int(rows):,} of {events:,} events")
        found.append(events / float(seconds))
    return found


def check_spark(setting: DeliverySetting, runs: int, wanted: Rows) -> None:
    """All runs have written the same rows into one topic. Errors: WrongOutputError."""
    found, _ = parse(_spark_payloads(setting, runs))
    count = len(wanted["ts"])
    if len(found.get("ts", ())) != count * runs:
        raise WrongOutputError(f"Spark: {len(found.get('ts', ())):,} rows came, {count * runs:,} must come")
    order = np.lexsort([found[name] for name in sorted(found)])
    once = {name: column[order][::runs] for name, column in found.items()}
    by_time = np.argsort(once["ts"], kind="stable")
    compare(wanted, {name: column[by_time] for name, column in once.items()})


def _spark_payloads(setting: DeliverySetting, runs: int) -> Iterator[bytes]:
    return (payload for payload, _ in payloads(setting, runs))


def _quiet(_told: dict[str, Any]) -> None:
    """Nothing to show."""


def run_nadi_node(setting: DeliverySetting, runs: int, wanted: Rows, say: Say) -> list[float]:
    """Events/s of each run but the first, in one node. Errors: ChildFailedError, WrongOutputError."""
    folder: Path = setting.folder
    conf = {"nadi.buckets": "2", **setting.conf}
    tasks = [Task(app_text(setting, run), False, conf=conf, events=setting.events) for run in range(runs)]
    plan = folder / "plan.json"
    plan.write_bytes(msgspec.json.encode(Plan(str(folder / "state"), tasks, setting.master, spark_only(setting.conf))))
    node = Child("bench.node", plan, folder / "node.log", {timed.NOTES: str(folder / "notes"), timed.PROFILE: ""})
    rates = []
    try:
        node.until("ready", 120, _quiet)
        for run in range(runs):
            say(f"nadi: {setting.events:,} events, run {run} of {runs - 1}")
            told = node.until("ended", RUN_WITHIN, _quiet)
            if told["state"] != "stopped" or told["errors"] or told["restarts"] or told["in"] != setting.events:
                raise WrongOutputError(f"nadi, run {run}: {told['state']} after {told['in']:,} events. {told['error']}")
            batches = msgspec.convert(told["batches"], list[Batch])
            rates.append(1000 * setting.events / sum(b.ms["triggerExecution"] for b in batches))
    finally:
        node.end()
    for run in range(runs):
        compare(wanted, parse(payload for payload, _ in payloads(setting, run))[0])
    return rates[1:]
