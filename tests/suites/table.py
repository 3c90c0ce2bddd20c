"""The suites of tests: what each runs, and how many seconds it may take on two cores.

`make test` runs the part TEST, `.ci/run` the part AFTER as well. There, what starts servers runs beside what kills them, which mostly waits for leases, and
both beside what computes.
"""

from __future__ import annotations

from dataclasses import dataclass

SERVES, KILLS, COMPUTES = "serves", "kills", "computes"


@dataclass(frozen=True, slots=True)
class Suite:
    """`arguments` are pytest's. `budget` is in seconds. `processes`: how many of them share its tests. `lane`: suites of one lane run one after the other."""

    name: str
    budget: int
    arguments: tuple[str, ...]
    processes: int = 0
    lane: str = SERVES
    nice: int = 0


# One process more than two cores: tests that start servers wait for a third of their time.
TEST = (Suite("tests", 780, (), processes=3),)

# Round trips of 100,000 events on real servers, recorded apps on Spark, targets that refuse, revisions into changed apps, replays, a worker on the databases of
# WSO2's guides, requests made from its OpenAPI document, a standalone cluster of Spark, the benchmark of state in small, a manager and workers that are killed,
# apps of a cluster that change, sinks that move, a pair. The other slow tests (deaths at each step of a commit, targets that are away, signals at every step of
# a start, batches of 100, 300,000 keys) take longer than a change should wait: `make test-all` runs everything.
_END_TO_END = (
    "tests/endtoend/test_endtoend_roundtrips.py",
    "tests/pipeline/test_pipeline_conformance.py",
    "tests/endtoend/test_endtoend_refusals.py",
    "tests/endtoend/test_endtoend_revisions.py",
    "tests/endtoend/test_endtoend_replay.py",
    "tests/endtoend/test_endtoend_databases.py",
    "tests/endtoend/test_endtoend_openapi.py",
    "tests/pipeline/test_pipeline_cluster.py",
    "tests/bench/test_bench_state.py",
    "tests/endtoend/test_endtoend_distributed.py",
    "tests/endtoend/test_endtoend_changes.py",
    "tests/endtoend/test_endtoend_moves.py",
    "tests/endtoend/test_endtoend_pair.py",
)
_ONE_NODE = ("tests/chaos", "--ignore=tests/chaos/cluster", "--ignore=tests/chaos/ha")
_CLUSTERS = ("tests/simulation", "--ignore=tests/simulation/pair")
# Each run has other seeds. By hand, beside `make test`: `pytest tests/simulation -k find_nothing --schedules 10000`.
_MANY = ("-k", "find_nothing", "--schedules", "4000")

AFTER = (
    # Things die at random moments where apps share a query, and where they do not, and what comes out is compared row by row. By hand with more rounds:
    # `pytest tests/chaos --rounds 200`. Beside the other lanes they take 340 to 390 s; 220 are of processors.
    Suite("kills", 420, (*_ONE_NODE, "--rounds", "4", "--durations=3"), lane=KILLS),
    # Managers and workers die, lose their disks, are cut off and stand still; NATS and the database restart.
    Suite("kills of a cluster", 330, ("tests/chaos/cluster", "--rounds", "8", "--durations=3"), lane=KILLS),
    # Nodes die, lose their disks, stand still, and are cut from each other and from PostgreSQL, under a load that two cores can bear.
    Suite("kills of a pair", 120, ("tests/chaos/ha", "--rounds", "4", "--load", "500", "--durations=3"), lane=KILLS),
    Suite("end to end", 810, ("-m", "slow and not long", "--durations=15", *_END_TO_END)),
    # The compiled loops that `make test` leaves out: each takes seconds to compile.
    Suite("slow columns", 180, ("-m", "slow", "tests/kernel/columns"), lane=COMPUTES, nice=10),
    # Whole clusters and pairs in virtual time, each with other faults.
    Suite("simulation", 270, (*_CLUSTERS, *_MANY), lane=COMPUTES, nice=10),
    Suite("simulation of a pair", 120, ("tests/simulation/pair", *_MANY), lane=COMPUTES, nice=10),
)

PARTS = {"test": TEST, "after": AFTER}
