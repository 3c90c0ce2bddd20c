"""No event is poison: among ten good apps are three with an event that their host dies of, each in another way. Where it stands and when it comes are random.

The ten lose and double nothing. The three go on without the event, which is in the error store once, and a replay and another start set aside the same one.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from nodes import COMMAND, cuts, events, nadi, running

from bench.many import POISONS as KINDS
from bench.many_poison import BAD, MEMORY, write_package
from nadi.io.errorfile import FileErrorStore

pytestmark = [pytest.mark.spark]

GOOD = tuple(f"Good{i}" for i in range(10))
FEW = 4  # events of a bad app beside the bad one

APP = """@app:name('{name}')
@source(type='file', dir.uri='{folder}/in-{name}', file.settle='0', @map(type='json')) define stream In (n long);
@sink(type='file', file.uri='{folder}/{name}.jsonl', @map(type='json')) define stream Out (n long, total long);
from In select {n} as n, sum(n) as total insert into Out;
"""


class Sender:
    """Puts events into the folders of apps; `sent` are those of each, in their order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sent: dict[str, list[int]] = {}

    def send(self, name: str, numbers: Sequence[int]) -> None:
        sent = self.sent.setdefault(name, [])
        made = self._folder / "made"
        made.write_text("".join(f'{{"event":{{"n":{n}}}}}\n' for n in numbers))
        made.rename(self._folder / f"in-{name}" / f"{len(sent):06}.json")
        sent += numbers


@pytest.fixture
def beside() -> Iterator[threading.Event]:
    """Is set when the good apps are to get no more events."""
    over = threading.Event()
    yield over
    over.set()


def sums(numbers: Sequence[int]) -> list[dict[str, int]]:
    return [{"n": n, "total": sum(numbers[: i + 1])} for i, n in enumerate(numbers)]


def set_aside(state: Path, app: str) -> list[Mapping[str, object]]:
    return [row for row in FileErrorStore(state / app).rows() if "EVENT_SET_ASIDE" in str(row)]


def test_apps_with_an_event_that_hosts_die_of_go_on_without_it_and_their_neighbours_do_not_notice(
    tmp_path: Path, seed: int, beside: threading.Event
) -> None:
    dice, state = random.Random(seed), tmp_path / "state"
    python = str(write_package(tmp_path / "packages"))
    files = {}
    for name, n in (*((good, "n") for good in GOOD), *((kind, f"bad:{kind}(n)") for kind in KINDS)):
        (tmp_path / f"in-{name}").mkdir()
        files[name] = tmp_path / f"{name}.siddhi"
        files[name].write_text(APP.format(name=name, folder=tmp_path, n=n))
    sender = Sender(tmp_path)

    def feed() -> None:
        numbers = random.Random(seed)
        while not beside.wait(0.02):
            sender.send(numbers.choice(GOOD), [numbers.randrange(100) for _ in range(numbers.randint(1, 3))])

    def made(name: str) -> list[dict[str, int]]:
        return [dict(row) for row in events(tmp_path / f"{name}.jsonl")]

    command = (sys.executable, str(Path(__file__).with_name("poisonnode.py")))
    conf = {"host.memory": MEMORY, "host.within": 4_000}
    with running(*files.values(), state=state, nadi=command, conf=conf, PYTHONPATH=python) as node:
        for good in GOOD:
            sender.send(good, [1])
        node.until(lambda: all(made(good) for good in GOOD))
        thread = threading.Thread(target=feed)
        bad = {}
        for kind in dice.sample(KINDS, len(KINDS)):  # before the others begin, as the sender is one thread's
            numbers = [dice.randrange(10) for _ in range(FEW)]
            numbers.insert(dice.randrange(FEW + 1), BAD)
            bad[kind] = numbers
            parts = dice.choice(([numbers], [numbers[:2], numbers[2:]]))
            for part in parts:
                sender.send(kind, part)
        thread.start()
        try:
            node.until(lambda: all(set_aside(state, kind) for kind in KINDS), 240)
            node.until(lambda: all(len(made(kind)) == FEW for kind in KINDS), 120)
        finally:
            beside.set()
            thread.join()
        node.until(lambda: all(len(made(good)) == len(sender.sent[good]) for good in GOOD))
        node.signal(signal.SIGINT)
        assert node.wait() == 0, node.said()
        node.gone()
    logs = [log.read_text() for log in (state / "logs").glob("host-*.log")]
    assert any("a kernel has no memory left" in log for log in logs), "nobody met the limit of a host's memory"
    wanted = {good: sender.sent[good] for good in GOOD}
    wanted |= {kind: [n for n in numbers if n != BAD] for kind, numbers in bad.items()}
    assert {name: made(name) for name in files} == {name: sums(numbers) for name, numbers in wanted.items()}
    assert {kind: len(set_aside(state, kind)) for kind in KINDS} == dict.fromkeys(KINDS, 1)
    aside = {kind: [cut["aside"] for cut in cuts(state, kind) if cut.get("aside")] for kind in KINDS}
    assert all(aside.values()), aside

    # The same once more, from the logs.
    for kind in KINDS:
        done = nadi(
            "replay", files[kind], "--state-dir", state, "--output", tmp_path / f"again-{kind}", PYTHONPATH=python
        )
        assert (done.returncode, done.stderr) == (0, ""), (seed, done)
        assert "equal to what was emitted" in done.stdout
    # And the next start sets aside nothing else, and goes on.
    with running(*(files[kind] for kind in KINDS), state=state, PYTHONPATH=python, nadi=COMMAND) as node:
        for kind in KINDS:
            sender.send(kind, [1])
        node.until(lambda: all(len(made(kind)) == FEW + 1 for kind in KINDS))
    assert {kind: made(kind)[-1]["total"] for kind in KINDS} == {kind: sum(wanted[kind]) + 1 for kind in KINDS}
    assert {kind: len(set_aside(state, kind)) for kind in KINDS} == dict.fromkeys(KINDS, 1)
    assert all(json.loads(str(row["payload"]))["event"]["n"] == BAD for kind in KINDS for row in set_aside(state, kind))
