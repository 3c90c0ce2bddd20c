"""What an app must have written, cut by cut: its kernel in this process over the recorded inputs and the cut log, and the comparison with a sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from chaosapps import OUT

from nadi.io.errorfile import FileErrorStore
from nadi.io.errorstore import Wanted
from nadi.kernel.contract import GROUP, NUMBER
from nadi.pipeline.cutting.cutlog import CutLog
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.live import Live
from nadi.pipeline.progress import read_progress
from nadi.pipeline.spec import AppSpec

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A row that must be there, once the cut `cut` is committed."""

    cut: int
    row: Row


class Reference:
    """An app's reference: takes what is new in the cut log whenever it is asked to. One kernel for all keys, however many buckets the app has."""

    def __init__(self, state: Path, app: str) -> None:
        self.app = app
        self._state = state / app
        self._replayer: Replayer | None = None
        self._inputs: Inputs | None = None
        self._journal = ""
        self._known = AppSpec(app, "", "")
        self.groups: dict[int, list[Made]] = {}
        self.rows: list[Made] = []
        self.refused: list[Made] = []
        self.ids: Counter[str] = Counter()

    @property
    def at(self) -> int:
        """The last cut taken."""
        return self._replayer.at if self._replayer is not None else 0

    def committed(self) -> int:
        """The last cut of which the node says that it is written."""
        progress = read_progress(self._state)
        return 0 if progress is None else progress.n

    def logged(self) -> int:
        """The number of the last cut in the cut log."""
        last = self.cut_log().last()
        return 0 if last is None else last.n

    def cut_log(self) -> CutLog:
        """The cut log as it is now."""
        return CutLog(self._state / "cuts", 0)

    def stored(self) -> list[Row]:
        """The payloads of messages in the error store, oldest first."""
        return [(row["payload"],) for row in FileErrorStore(self._state).rows(Wanted(kind="source"))]

    def after(self, cut: int) -> dict[int, list[tuple[int, Row]]]:
        """The rows of the cuts after one, by key-group, with their numbers."""
        numbered = {
            group: [(i, m.row) for i, m in enumerate(made) if m.cut > cut] for group, made in self.groups.items()
        }
        return {group: rows for group, rows in numbered.items() if rows}

    @staticmethod
    def row(emitted: Mapping[str, Any]) -> Row:
        """What of an emitted row a sink has."""
        return tuple(emitted[name] for name in OUT)

    def follow(self, journal: str = "") -> None:
        """Take all cuts there are; `journal` is where the journal is, as the running node says where it is left out.

        Errors: CONNECTION_UNAVAILABLE.
        """
        spec = self.spec(journal)
        if self._inputs is None or spec.journal != self._journal:
            if self._inputs is not None:
                self._inputs.close()
            self._inputs, self._journal = Inputs(spec), spec.journal
        if self._replayer is None:
            self._replayer = Replayer(spec)
        for before, cut in logged(self.cut_log(), self._replayer.at):
            given = self._inputs.read(before, cut)
            spoiled = [bytes(told[5]).decode() for one in given for told in one.errors]
            self.refused += [Made(cut.n, (text,)) for text in spoiled]
            self.ids.update(spoiled)
            self.ids.update(id_ for one in given for a in one.arrivals for id_ in a.batch.column("id").to_pylist())
            (emitted,) = self._replayer.take(cut, given)
            assert not emitted.failures, emitted.failures
            for row in emitted.batches["Out"].to_pylist() if "Out" in emitted.batches else ():
                made = Made(cut.n, self.row(row))
                mine = self.groups.setdefault(row[GROUP], [])
                assert row[NUMBER] == len(mine)
                mine.append(made)
                self.rows.append(made)

    def close(self) -> None:
        if self._inputs is not None:
            self._inputs.close()

    def spec(self, journal: str = "") -> AppSpec:
        """The app as it runs, with one bucket; with `journal` as it ran. Errors: FileNotFoundError while a query starts again."""
        if not journal:
            live = msgspec.json.decode((self._state / "live.json").read_bytes(), type=Live)
            self._known = replace(live.spec, buckets=1)
        return replace(self._known, journal=journal or self._known.journal)


def differences(what: str, found: Sequence[Row], wanted: Sequence[Made], committed: int) -> list[str]:
    """How rows in a sink differ from what must stand there: all rows of committed cuts, and then no others than the next ones.

    >>> differences("file", [("a",)], [Made(1, ("a",)), Made(2, ("b",))], 1)
    []
    >>> differences("file", [("a",)], [Made(1, ("a",)), Made(2, ("b",))], 2)
    ["file: row 1 is missing: ('b',) of cut 2, which is committed"]
    """
    for at, (row, made) in enumerate(zip(found, wanted)):
        if row != made.row:
            around = [
                f"    {i}: found {found[i]}, wanted {wanted[i].row}"
                for i in range(at, min(at + 3, len(found), len(wanted)))
            ]
            return [f"{what}: row {at} differs (cut {made.cut}, committed {committed}):", *around]
    if len(found) > len(wanted):
        return [
            f"{what}: row {len(wanted)} is one too many: {found[len(wanted)]}; {len(found)} rows instead of {len(wanted)}"
        ]
    missing = [at for at in range(len(found), len(wanted)) if wanted[at].cut <= committed]
    if missing:
        made = wanted[missing[0]]
        return [f"{what}: row {missing[0]} is missing: {made.row} of cut {made.cut}, which is committed"]
    return []


def numbered_differences(
    what: str, found: Mapping[int, Sequence[tuple[int, Row]]], wanted: Mapping[int, Sequence[Made]], committed: int
) -> list[str]:
    """As `differences`, per key-group, of rows with their numbers."""
    told = []
    for group in sorted({*found, *wanted}):
        mine = found.get(group, ())
        numbers = [number for number, _row in mine]
        wrong = next((at for at, number in enumerate(numbers) if at != number), None)
        if wrong is not None:
            told.append(
                f"{what}, key-group {group}: number {numbers[wrong]} stands where {wrong} should, after {numbers[max(0, wrong - 3) : wrong]}"
            )
        told += differences(f"{what}, key-group {group}", [row for _n, row in mine], wanted.get(group, ()), committed)
    return told
