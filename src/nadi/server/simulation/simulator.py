"""The event simulator of a worker, put together.

simulator = make_simulator(home.deployment, AppTargets(apps))
simulator.start()               # simulator.wake(): apps have changed
simulator.close()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nadi.io.reach import Reach
from nadi.server.simulation.csvfiles import CsvFiles
from nadi.server.simulation.databases import Databases, Questions
from nadi.server.simulation.feed import Clock, MachineClock
from nadi.server.simulation.shelf import Shelf
from nadi.server.simulation.simulations import Simulations
from nadi.server.simulation.sources import Sources
from nadi.server.simulation.targets import Targets

CONFIGURATIONS, FILES = "simulation-configs", "csv-files"
"""Folders of the deployment."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """See the module's text."""

    targets: Targets
    simulations: Simulations
    csv: CsvFiles
    databases: Databases
    questions: Questions
    files: Shelf

    def start(self) -> None:
        """Begin. Errors: FOLDER_NOT_MADE."""
        self.files.make()
        self.simulations.start()

    def wake(self) -> None:
        """Apps have changed. Returns at once."""
        self.simulations.wake()

    def close(self) -> None:
        """Stop all feeds."""
        self.simulations.close()
        self.questions.close()


def make_simulator(
    deployment: Path,
    targets: Targets,
    make_clock: Callable[[], Clock] = MachineClock,
    reach: Reach = Reach(),  # noqa: B008 (a value)
) -> Simulator:
    """The simulator whose files are below the folder of a deployment, and whose databases are those that apps may reach. Whoever has made it starts it."""
    files = Shelf(deployment / FILES)
    databases, questions = Databases(deployment, reach), Questions()
    sources = Sources(targets, files, databases, questions)
    simulations = Simulations(targets, Shelf(deployment / CONFIGURATIONS, ".json"), sources, make_clock)
    return Simulator(targets, simulations, CsvFiles(files, simulations.wake), databases, questions, files)
