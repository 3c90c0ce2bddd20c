"""Measures the pipeline, its latency, the rows or columns kernel alone, batches over states of several sizes, what exactly-once delivery costs, an http
source of a worker, a manager with a fleet, an app over channels, a pair, or nadi beside its peers.

`python bench/run.py --suite pipeline|latency|node|http|fleet|distributed|ha|rows|kernel|sweep|state|delivery|kafka|peers --json FILE`, see README.md.

Exit status: 0, 1 where an app put out something wrong or did not run, 130 after Ctrl-C (the file then holds what was measured, marked as incomplete).
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.checkouts import checkouts
from bench.children import ChildFailedError, broker
from bench.delivery import KEYS, DeliverySetting, kafka, measure_delivery
from bench.distributed import SCALES, WAYS, DistributedSetting, measure_distributed, measure_scale
from bench.events import make_events, write_file
from bench.fleet import FleetSetting, measure_decisions, measure_heartbeats, measure_placement
from bench.kafka import HALVES, KafkaSetting, measure_courses
from bench.kernel import BATCHES, KERNEL_APPS, measure_kernel
from bench.latency import APPS as LATENCY_APPS
from bench.latency import LatencySetting, measure_latency
from bench.many import BESIDE, NodeSetting, stages_of
from bench.many_beside import measure_beside
from bench.many_run import measure_node
from bench.measure import Setting, measure
from bench.options import KAFKA, STATE, arguments, chosen_apps, conf_of
from bench.pair import PAIR_STAGES, PairSetting, measure_pair
from bench.peers import NoPeersError, find_peers, measure_peers, prepare
from bench.peers_apps import SHAPES
from bench.peers_kafka import EVENTS as KAFKA_EVENTS
from bench.peers_kafka import KEYS as KAFKA_KEYS
from bench.peers_kafka import measure_kafka
from bench.posts import HttpSetting, measure_http
from bench.public_latency import APPS as PUBLIC_APPS
from bench.public_latency import INTERVALS, PublicLatencySetting, measure_public_latency
from bench.public_rate import APPS as RATE_APPS
from bench.public_rate import MEDIA, PublicRateSetting, fill_topic, measure_files, measure_topics
from bench.report_many import stage_text
from bench.report_posts import goal_lines
from bench.report_public import ratio_text
from bench.result import Result
from bench.rows import FEEDS, RowsSetting, measure_rows, measure_state
from bench.rows_apps import ROWS_APPS
from bench.screen import Screen, measured
from bench.state import SIZES, StateSetting
from bench.sweep import POINTS, measure_point


def run_state(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure batches over states of several sizes; -> exit status."""
    # imported when it is needed: it knows much of the pipeline's inside
    from bench.state_direct import measure_direct
    from bench.state_run import measure_sizes

    apps, conf = list(dict.fromkeys(asked.only or ["flat"])), conf_of(asked)

    def directly(result: Result) -> None:
        for name, told in measure_direct(folder, apps, asked.size or SIZES, asked.batches or 60, screen.show):
            result.add(name, told)

    def with_spark(result: Result) -> None:
        for app in apps:
            for mb in asked.size or SIZES:
                name = f"{app}, {mb} MB"
                setting = StateSetting(
                    folder / f"{app}-{mb}", app, mb, asked.batches, asked.master, asked.revision, conf
                )
                result.add(name, measure_sizes(setting, screen.show))
                ms = result.told["apps"][name]["batch_ms"]
                screen.say(f"{name}: batch {ms['median']:,.0f} ms, p99 {ms['p99']:,.0f} ms")

    return measured(asked, screen, directly if asked.direct else with_spark)


def run_delivery(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure exactly-once delivery against none; -> exit status."""

    def work(result: Result) -> None:
        with kafka(folder / "kafka") as servers:
            for keys in KEYS:
                into = folder / f"keys-{keys}"
                setting = DeliverySetting(into, servers, keys, asked.events, asked.repeat, asked.master, conf_of(asked))
                result.add(f"{keys:,} keys", measure_delivery(setting, screen.show))

    return measured(asked, screen, work)


def run_kafka(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure apps from Kafka to Kafka beside the pipeline alone; -> exit status."""

    def work(result: Result) -> None:
        with kafka(folder / "kafka") as servers:
            for half, courses in HALVES.items():
                if asked.only and half not in asked.only:
                    continue
                setting = KafkaSetting(folder / half, servers, asked.events, asked.repeat, asked.master, conf_of(asked))
                for name, told in measure_courses(setting, courses, screen.show).items():
                    result.add(f"{half}: {name}", told)
                    rate = told["events_per_s"].median
                    screen.say(f"{name}: {rate:,.0f} events/s, {told['share']:.3f} of {courses[0].name}")

    return measured(asked, screen, work)


def run_latency(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure latency from topic to topic; -> exit status."""
    conf = conf_of(asked)

    def work(result: Result) -> None:
        with kafka(folder / "kafka") as servers:
            bounds = (asked.rate, asked.warm, asked.seconds, asked.profile, asked.master, conf)
            setting = LatencySetting(folder, servers, *bounds)
            for app in asked.only or LATENCY_APPS:
                figures = measure_latency(app, setting, screen.show)
                result.add(app, figures)
                ms = figures["append_ms"]
                if ms:
                    screen.say(
                        f"{app}: p50 {ms['p50']:,.0f} ms, p99 {ms['p99']:,.0f} ms, load {figures['load'][1]:.1f}"
                    )
                if figures.get("profile"):
                    screen.say(figures["profile"])

    return measured(asked, screen, work)


def run_against(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure `nadi run` of this checkout and of another one, latency or throughput; -> exit status."""
    try:
        sides = checkouts(asked.against)
    except ChildFailedError as reason:
        screen.say(str(reason))
        return 2
    conf, commits = conf_of(asked), {c.label: c.commit for c in sides}

    def latency(result: Result) -> None:
        intervals = () if asked.no_floor else tuple(asked.interval or INTERVALS)
        with kafka(folder / "kafka") as servers:
            bounds = (asked.rate, asked.warm, asked.seconds, asked.repeat, asked.master)
            setting = PublicLatencySetting(folder, servers, sides, *bounds, intervals, conf)
            for app in asked.only or PUBLIC_APPS:
                result.add(app, measure_public_latency(app, setting, screen.show))
                screen.say(f"{app}: {ratio_text(result.told['apps'][app]['ratios'].get('append_ms', {}))}")

    def keep(result: Result, name: str, figures: dict[str, Any]) -> None:
        result.add(name, figures)
        screen.say(f"{name}: {ratio_text({'events/s': figures['ratio']})}")

    def throughput(result: Result) -> None:
        source = folder / "in.jsonl"
        screen.show(f"making {asked.events:,} events")
        events = write_file(source, asked.events)
        setting = PublicRateSetting(folder, source, events, sides, asked.repeat, asked.at_most, asked.master, conf)
        apps, media = asked.only or RATE_APPS, asked.over or MEDIA
        if "files" in media:
            for app in apps:
                keep(result, f"{app}, files", measure_files(app, setting, screen.show))
        if "kafka" in media:
            with kafka(folder / "kafka") as servers:
                topic = fill_topic(setting, servers, screen.show)
                for app in apps:
                    keep(result, f"{app}, kafka", measure_topics(app, setting, servers, topic, screen.show))

    return measured(asked, screen, latency if asked.suite == "latency" else throughput, commits=commits)


def run_node(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure a node of many apps; -> exit status."""
    try:
        sides = checkouts(asked.against)
    except ChildFailedError as reason:
        screen.say(str(reason))
        return 2
    commits = {c.label: c.commit for c in sides}

    def keep(result: Result, side: str, stage: str, told: dict[str, Any]) -> None:
        result.add(side, told)
        screen.say(f"{side}, {stage}: {stage_text(told, stage, asked.apps)}")

    def work(result: Result) -> None:
        bounds = (asked.apps, asked.seconds, asked.events, asked.master)
        for checkout in sides:
            into = folder / checkout.label
            setting = NodeSetting(into, checkout, *bounds, tuple(asked.stage or stages_of(asked.apps)), conf_of(asked))
            measure_node(setting, screen.show, partial(keep, result, checkout.label))
        if not asked.stage or "beside" in asked.stage:
            result.add(BESIDE, measure_beside(folder / BESIDE, asked.master, asked.seconds, screen.show))

    return measured(asked, screen, work, commits=commits)


def run_http(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure the http source of a worker; -> exit status."""
    (checkout,) = checkouts(None)

    def work(result: Result) -> None:
        setting = HttpSetting(folder / "http", checkout, asked.seconds, asked.master, conf_of(asked))
        result.add("http", measure_http(setting, screen.show))
        for name, goal, figure, is_met in goal_lines(result.told["apps"]["http"]):
            screen.say(f"{name}: {figure} (goal {goal}{'' if is_met == 'yes' else ', missed'})")

    return measured(asked, screen, work, commits={checkout.label: checkout.commit})


def run_fleet(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure what a fleet of workers costs a manager; -> exit status."""
    setting = FleetSetting(folder, seconds=asked.seconds)

    def work(result: Result) -> None:
        result.add("decisions", measure_decisions(setting, screen.show))
        result.add("placement", measure_placement(replace(setting, folder=folder / "placement"), screen.show))
        result.add("heartbeats", measure_heartbeats(replace(setting, folder=folder / "heartbeats"), screen.show))

    return measured(asked, screen, work)


def run_distributed(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure an app of three groups over channels; -> exit status."""
    (checkout,) = checkouts(None)

    def work(result: Result) -> None:
        bounds = (asked.events, asked.rate, asked.warm, asked.seconds)
        setting = DistributedSetting(folder, checkout, *bounds, conf_of(asked))
        ways = [way for way in asked.only or WAYS if way in WAYS]
        for way, told in measure_distributed(setting, ways, screen.say) if ways else ():
            result.add(way, told)
        if set(asked.only or SCALES) & set(SCALES):
            for way, told in measure_scale(setting, screen.say):
                result.add(way, told)

    return measured(asked, screen, work, commits={checkout.label: checkout.commit})


def run_pair(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure a pair; -> exit status."""
    (checkout,) = checkouts(None)
    size = (asked.size or [0])[0]
    conf = {"spark.master": asked.master, **conf_of(asked)}
    stages = tuple(stage for stage in PAIR_STAGES if stage in (asked.only or PAIR_STAGES))
    setting = PairSetting(folder, checkout, asked.seconds, asked.repeat, asked.repeat, size, conf)

    def work(result: Result) -> None:
        for name, told in measure_pair(setting, stages, screen.say):
            result.add(name, told)

    return measured(asked, screen, work, commits={checkout.label: checkout.commit})


def run_peers(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure nadi beside Siddhi and plain Spark; -> exit status, 2 where there are none."""
    try:
        found = find_peers(asked.peers)
    except NoPeersError as reason:
        screen.say(str(reason))
        return 2

    def work(result: Result) -> None:
        peers = prepare(found, screen.show)
        for name, shape in SHAPES.items():
            if not asked.only or name in asked.only:
                figures = measure_peers(peers, shape, asked.events, asked.repeat, screen.show)
                result.add(name, figures)
                rates, load = figures["events_per_s"], figures["load"][1]
                both = f"nadi {rates['nadi'].median:,.0f} events/s, Siddhi {rates['siddhi'].median:,.0f}"
                ratios = f"ratio {figures['ratio']:.2f}, in batches of 1,000 {figures['small_ratio']:.2f}"
                screen.say(f"{shape.label}: {both}, {ratios}, load {load:.1f}")
        if not asked.only or KAFKA in asked.only:
            with kafka(folder / "kafka") as servers:
                into = folder / "spark"
                setting = DeliverySetting(
                    into, servers, KAFKA_KEYS, KAFKA_EVENTS, asked.repeat, asked.master, conf_of(asked)
                )
                result.add(KAFKA, measure_kafka(peers, setting, screen.show))

    return measured(asked, screen, work)


def run_rows(asked: argparse.Namespace, screen: Screen) -> int:
    """Measure the rows kernel in this process; -> exit status."""
    setting = RowsSetting(asked.events, asked.repeat, asked.profile)

    def work(result: Result) -> None:
        for name, app in ROWS_APPS.items():
            if asked.only and name not in asked.only:
                continue
            for feed in FEEDS:
                label, figures = f"{name}, {feed}", measure_rows(app, feed, setting, screen.show)
                result.add(label, figures)
                load = figures["runs"][-1]["load"][1]
                screen.say(
                    f"{label}: {figures['events_per_s']:,.0f} events/s (goal {app.goal:,}), "
                    f"{figures['calls_per_event']:.1f} calls an event, load {load:.1f}"
                )
                if "profile" in figures:
                    screen.say(figures["profile"])
        if not asked.only or STATE in asked.only:
            result.add(STATE, measure_state(screen.show))

    return measured(asked, screen, work)


def run_kernel(asked: argparse.Namespace, screen: Screen) -> int:
    """Measure the columns kernel in this process; -> exit status."""

    def work(result: Result) -> None:
        for name, app in KERNEL_APPS.items():
            for size in BATCHES:
                if asked.only and name not in asked.only:
                    continue
                label = f"{name}, {size:,}"
                result.add(label, measure_kernel(app, size, asked.events, asked.repeat, screen.show))
                told = result.told["apps"][label]
                screen.say(
                    f"{label}: {told['events_per_s'] / 1e6:.1f} M {told['of']}/s (goal {told['goal'] / 1e6:.1f} M)"
                )

    return measured(asked, screen, work)


def run_sweep(asked: argparse.Namespace, screen: Screen) -> int:
    """Measure what an event costs patterns that grow; -> exit status."""

    def work(result: Result) -> None:
        for point in POINTS:
            if not asked.only or point.sweep in asked.only:
                result.add(point.name, measure_point(point, asked.events, asked.repeat, screen.show))
                screen.say(f"{point.name}: {result.told['apps'][point.name]['ns']:.0f} ns an event")

    return measured(asked, screen, work)


def run(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure the pipeline; -> exit status."""
    screen.show(f"making {asked.events:,} events")
    source = folder / "in.jsonl"
    events = write_file(source, asked.events) if asked.events else make_events(0, 0)
    with broker(folder / "broker") as url:
        bounds = (asked.rate, asked.warm, asked.seconds, asked.at_most, asked.profile, asked.master, conf_of(asked))
        setting = Setting(folder, url, source, events, *bounds)

        def work(result: Result) -> None:
            for app in chosen_apps(asked.only):
                figures = measure(app, setting, screen.show)
                result.add(app, figures)
                screen.say(one_line(app, result.told["apps"][app]))
                if figures.get("profile"):
                    screen.say(figures["profile"])

        return measured(asked, screen, work, batch_events=setting.batch_events)


def one_line(app: str, told: dict[str, Any]) -> str:
    """What was found of an app, as soon as it is."""
    parts = []
    if "throughput" in told:
        parts.append(
            f"{told['throughput']['events_per_s']:,.0f} events/s, batch {told['throughput']['batch_ms']['median']:,.0f} ms"
        )
    if "latency" in told and told["latency"]["ms"]:
        ms = told["latency"]["ms"]
        parts.append(f"p50 {ms['p50']:,.0f} ms, p99 {ms['p99']:,.0f} ms")
    return f"{app}: " + "; ".join(parts)


def interrupted(_signal: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the processes are being ended; once is enough
    raise KeyboardInterrupt


def main() -> int:
    asked = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    if asked.keep is not None:
        asked.keep.mkdir(parents=True)
    folder = asked.keep.resolve() if asked.keep else Path(tempfile.mkdtemp(prefix="nadi-bench-"))
    try:
        with Screen() as screen:
            if asked.suite == "state":
                return run_state(asked, folder, screen)
            if asked.suite == "delivery":
                return run_delivery(asked, folder, screen)
            if asked.suite == "kafka":
                return run_kafka(asked, folder, screen)
            if asked.suite == "kernel":
                return run_kernel(asked, screen)
            if asked.suite == "sweep":
                return run_sweep(asked, screen)
            if asked.suite == "peers":
                return run_peers(asked, folder, screen)
            if asked.suite == "http":
                return run_http(asked, folder, screen)
            if asked.suite == "node":
                return run_node(asked, folder, screen)
            if asked.suite == "fleet":
                return run_fleet(asked, folder, screen)
            if asked.suite == "distributed":
                return run_distributed(asked, folder, screen)
            if asked.suite == "ha":
                return run_pair(asked, folder, screen)
            if asked.against is not None:
                return run_against(asked, folder, screen)
            if asked.suite == "latency":
                return run_latency(asked, folder, screen)
            return run_rows(asked, screen) if asked.suite == "rows" else run(asked, folder, screen)
    except KeyboardInterrupt:
        return 130
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
