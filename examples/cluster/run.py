"""A whole cluster on one machine: it runs an app, loses a worker and its leader, and goes on.

python examples/cluster/run.py             # two managers, three workers, NATS, PostgreSQL (or SQLite); Ctrl-C ends all of it
python examples/cluster/run.py --once      # ends by itself; exit status 1 where the result is not that of one process
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from databases import Database, some_database
from narration import say, until
from nodes import Cluster, Node, cluster
from readings import Feeder, expected, readings
from stage import perform

HERE = Path(__file__).resolve().parent
APP = HERE / "meters.siddhi"
EACH = 60  # readings between two events of the story


@dataclass
class Story:
    """The cluster, the app that it runs, and what the app was given."""

    cluster: Cluster
    database: Database
    feeder: Feeder

    def tell(self) -> bool:
        """All of it; whether the result is right."""
        self.deploy()
        self.feed()
        self.lose_a_worker()
        self.feed()
        self.lose_the_leader()
        self.feed()
        return self.compare()

    def deploy(self) -> None:
        answer = self.cluster.ask("POST", "/siddhi-apps", content=APP.read_text())
        if answer.status_code != 201:
            raise SystemExit(f"the app was not taken: {answer.text}")
        say(
            "The app Meters is deployed: the group 'readings' takes events in, the two instances of 'totals' share the meters among them."
        )
        until(self.cluster.is_active, "the app is active")
        for name, worker in sorted(self.cluster.places().items()):
            say(f"  {name} runs on {worker}.")

    def feed(self) -> None:
        self.feeder.send(EACH)
        say(f"{self.feeder.sent} readings have been sent and taken.")

    def lose_a_worker(self) -> None:
        places = self.cluster.places()
        source = places["Meters-readings-1"]
        lost = next(worker for name, worker in sorted(places.items()) if "totals" in name and worker != source)
        moved = sorted(name for name, worker in places.items() if worker == lost)
        self.cluster.node(lost).kill()
        say(f"kill -9 {lost}: {', '.join(moved)} is gone with it. Readings go on coming; the channel keeps them.")
        self.feed()
        say("The manager waits until the worker's lease is over, so that nothing runs twice.")
        until(lambda: self._elsewhere(moved, lost), "another worker has taken over")
        for name in moved:
            say(f"  {name} goes on at {self.cluster.places()[name]}, from where the last commit was.")

    def _elsewhere(self, moved: list[str], lost: str) -> bool:
        places = self.cluster.places()
        return self.cluster.is_active() and all(places.get(name, lost) != lost for name in moved)

    def lose_the_leader(self) -> None:
        leader = until(self.cluster.leader, "a manager leads")
        before = self.cluster.places()
        leader.kill()
        say(f"kill -9 {leader.name}, which leads. The apps do not notice:")
        self.feed()
        other: Node = until(self.cluster.leader, "the other manager leads")
        same = self.cluster.places() == before
        say(f"  {other.name} leads now, and {'everything runs where it ran' if same else 'something has moved'}.")

    def compare(self) -> bool:
        wanted = expected(APP.read_text(), self.feeder.given)
        until(lambda: len(self.database.rows("totals")) >= len(wanted), "all rows are there")
        found = sorted(self.database.rows("totals"))
        right = found == sorted(wanted)
        say(
            f"{len(found)} rows are in the database, "
            + (
                "the same as one process gives: nothing is lost, nothing is there twice."
                if right
                else "other ones than one process gives!"
            )
        )
        return right


@contextlib.contextmanager
def story(folder: Path) -> Iterator[Story]:
    """Everything started; all of it is ended, whatever happens."""
    with ExitStack() as running:
        database = running.enter_context(some_database(folder))
        say(f"The database is {database.kind}.")
        made = running.enter_context(cluster(folder, database))
        say(f"NATS, {', '.join(node.name for node in made.nodes)} have started.")
        until(made.is_ready, "managers and workers have found each other")
        say("A manager leads, and three workers have come to it.")
        yield Story(made, database, running.enter_context(Feeder(made.source, readings())))
        say("Everything is being ended.")


def run(folder: Path, once: bool) -> bool:
    """Tell the story; whether its result is right."""
    with story(folder) as told:
        right = told.tell()
        if not once:
            page = told.cluster.manager
            say(
                f"Look at {page.url} (user admin, password {page.password}). Readings go to {told.cluster.source}. Ctrl-C ends everything."
            )
            told.cluster.wait()
        return right


def main() -> int:
    options = argparse.ArgumentParser(description="A cluster on one machine, which loses a worker and its leader.")
    options.add_argument("--once", action="store_true", help="end when the story is told")
    once = options.parse_args().once
    return perform("cluster", lambda folder: run(folder, once))


if __name__ == "__main__":
    sys.exit(main())
