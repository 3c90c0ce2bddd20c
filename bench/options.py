"""What the benchmark is asked for: the options of `run.py`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.apps import APPS
from bench.distributed import SCALES, WAYS
from bench.kafka import HALVES
from bench.kernel import KERNEL_APPS
from bench.latency import APPS as LATENCY_APPS
from bench.live import SECONDS, WARM
from bench.many import APPS as APPS_OF_A_NODE
from bench.many import SECONDS as NODE_SECONDS
from bench.many import STAGES
from bench.pair import PAIR_STAGES
from bench.peers import FEW
from bench.peers import REPEAT as PEER_REPEAT
from bench.peers_apps import SHAPES
from bench.public_latency import INTERVALS
from bench.public_rate import MEDIA
from bench.rows_apps import ROWS_APPS
from bench.state import BODIES, SIZES
from bench.sweep import SWEEPS

AGAINST_EVENTS, AGAINST_REPEAT = 2_000_000, 3  # where two checkouts are compared
EVENTS = {
    "pipeline": 1_000_000,
    "rows": 300_000,
    "kernel": 2_000_000,
    "sweep": 1_000_000,
    "state": 0,
    "delivery": 600_000,
    "kafka": 2_000_000,
    "latency": 0,
    "peers": FEW,
    "node": AGAINST_EVENTS,
    "http": 0,
    "fleet": 0,
    "distributed": 1_000_000,
    "ha": 0,
}
REPEAT = {"rows": 5, "kernel": 5, "sweep": 3, "delivery": 3, "kafka": 3, "peers": PEER_REPEAT, "ha": 20}
KAFKA = "kafka"  # what `--only` calls plain Spark over Kafka
STATE = "state"  # what `--only` calls the bytes of state per key


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description="Benchmark of nadi.")
    options.add_argument("--suite", choices=tuple(EVENTS), default="pipeline")
    options.add_argument("--json", type=Path, required=True, help="file for the result")
    options.add_argument(
        "--seconds",
        type=float,
        help="of the latency measurement, after the warm-up (20, suite latency 30; 0: none); suite node: of idling, and of an event a second (60); "
        "suites http, ha: of a load (20)",
    )
    options.add_argument(
        "--warm", type=float, help="seconds of sending, after the first row, that do not count (15, suite latency 30)"
    )
    options.add_argument(
        "--rate", type=int, help="events/s of the latency measurement (5,000, suite distributed 1,000)"
    )
    options.add_argument(
        "--events",
        type=int,
        help="of the throughput measurement (0: none; by default 1,000,000, of the rows 300,000, of delivery 600,000)",
    )
    options.add_argument(
        "--repeat",
        type=int,
        help="runs of each app of the suite rows (5; the fastest counts), of kernel (5) or delivery (3; the median counts); suite ha: kills, and switches (20)",
    )
    options.add_argument("--at-most", type=float, default=45.0, help="seconds of a throughput run (0: to its end)")
    options.add_argument(
        "--only",
        choices=tuple(
            dict.fromkeys(
                [
                    *APPS,
                    *ROWS_APPS,
                    *KERNEL_APPS,
                    *SWEEPS,
                    STATE,
                    *HALVES,
                    *BODIES,
                    *SHAPES,
                    KAFKA,
                    *WAYS,
                    *SCALES,
                    *PAIR_STAGES,
                ]
            )
        ),
        action="append",
        help="this app (of the pipeline identity, too); may be given again",
    )
    options.add_argument(
        "--size",
        type=int,
        action="append",
        help=f"MB of state (suite state; may be given again); by default {SIZES}; suite ha: of the app that is taken over (0)",
    )
    options.add_argument(
        "--direct", action="store_true", help="suite state without Spark: batches over all sizes in turn"
    )
    options.add_argument(
        "--revision", action="store_true", help="suite state: make revisions while batches go on (not with --direct)"
    )
    options.add_argument(
        "--batches",
        type=int,
        default=0,
        help="batches over a state (0: 60, or as many as bring a new base into the store)",
    )
    options.add_argument(
        "--profile",
        action="store_true",
        help="cProfile in the hosts, or of the kernel: where the time goes; figures of the pipeline are slower than in truth",
    )
    options.add_argument("--master", default="local[*,4]", help="Spark's master")
    options.add_argument(
        "--conf",
        action="append",
        default=[],
        help="suites with Spark: key=value, a setting of Spark (spark.…) or nadi (nadi.kernel=auto, …)",
    )
    options.add_argument(
        "--peers", type=Path, help="suite peers: the folder of the peers' programs (or in the environment, NADI_PEERS)"
    )
    options.add_argument(
        "--against",
        type=Path,
        help="suites latency, pipeline, node: another checkout of nadi that is measured in the same run, in turn, as `nadi run`",
    )
    options.add_argument(
        "--interval",
        type=float,
        action="append",
        help=f"suite latency with --against: ms between the begins of two batches of the floor without Spark; may be given again; by default {INTERVALS}",
    )
    options.add_argument("--no-floor", action="store_true", help="suite latency with --against: without the floor")
    options.add_argument(
        "--over", choices=MEDIA, action="append", help="suite pipeline with --against: only files or only Kafka"
    )
    options.add_argument("--apps", type=int, default=APPS_OF_A_NODE, help="suite node: how many apps the node has")
    options.add_argument(
        "--stage", choices=STAGES, action="append", help="suite node: only this stage; may be given again"
    )
    options.add_argument("--keep", type=Path, help="keep all files in this (new) folder")
    asked = options.parse_args()
    if strange := [pair for pair in asked.conf if "=" not in pair]:
        options.error(f"{strange[0]} is no key=value")
    known = {
        "rows": (*ROWS_APPS, STATE),
        "kernel": tuple(KERNEL_APPS),
        "sweep": SWEEPS,
        "state": tuple(BODIES),
        "pipeline": APPS,
        "delivery": (),
        "kafka": tuple(HALVES),
        "latency": LATENCY_APPS,
        "peers": (*SHAPES, KAFKA),
        "node": (),
        "http": (),
        "fleet": (),
        "distributed": (*WAYS, *SCALES),
        "ha": PAIR_STAGES,
    }[asked.suite]
    if strange := [app for app in asked.only or () if app not in known]:
        options.error(f"the suite {asked.suite} has no {strange[0]}: it has {', '.join(known) or 'one app'}")
    if asked.revision and (asked.suite != "state" or asked.direct):
        options.error("--revision is for the suite state with Spark")
    if asked.conf and (asked.direct or asked.suite in ("rows", "kernel", "sweep")):
        options.error("--conf is for the suites with Spark")
    _check_against(options, asked)
    if asked.events is None:
        asked.events = AGAINST_EVENTS if asked.against else EVENTS[asked.suite]
    if asked.repeat is None:
        asked.repeat = REPEAT.get(asked.suite, AGAINST_REPEAT if asked.against else 1)
    if asked.rate is None:
        asked.rate = 1_000 if asked.suite == "distributed" else 5_000
    live = asked.suite == "latency"
    asked.warm = (WARM if live else 15.0) if asked.warm is None else asked.warm
    usual = NODE_SECONDS if asked.suite == "node" else SECONDS if live else 20.0
    asked.seconds = usual if asked.seconds is None else asked.seconds
    return asked


def _check_against(options: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    if asked.against and asked.suite not in ("latency", "pipeline", "node"):
        options.error("--against is for the suites latency, pipeline and node")
    if (asked.interval or asked.no_floor) and not (asked.against and asked.suite == "latency"):
        options.error("--interval and --no-floor are for the suite latency with --against")
    if asked.over and not (asked.against and asked.suite == "pipeline"):
        options.error("--over is for the suite pipeline with --against")
    if asked.stage and asked.suite != "node":
        options.error("--stage is for the suite node")
    if asked.profile and (asked.against or asked.suite == "node"):
        options.error("--profile looks into hosts of the bench's own node: not with --against, not in the suite node")
    if asked.apps < 2:
        options.error("--apps: a node of the suite has 2 apps or more, as what the first one costs is told apart")


def chosen_apps(only: list[str] | None) -> list[str]:
    """Identity is always among them: it is what the others are compared with."""
    return [app for app in APPS if not only or app in only or app == APPS[0]]


def conf_of(asked: argparse.Namespace) -> dict[str, str]:
    """The settings of Spark and nadi that were given, by name."""
    return dict(pair.split("=", 1) for pair in asked.conf)


def told_settings(asked: argparse.Namespace) -> dict[str, Any]:
    return {k: str(v) if isinstance(v, Path) else v for k, v in vars(asked).items()}
