"""Where the cut log and the commit record of an app are: in its state folder, or in the database that `nadi.cuts.url` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.commitlog import CommitLog, Commits
from nadi.pipeline.cutting.cutlog import CutLog, Cuts
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.epochs import RUNS
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from nadi.pipeline.cutting.cuttable import TableCutLog


def cuts_folder(state: Path) -> Path:
    """The folder of the cut log in an app's state folder."""
    return state / "cuts"


def open_cut_log(spec: AppSpec, epoch: int = 0) -> Cuts:
    """The cut log of an app, for the run with this epoch; 0 to read only."""
    if spec.cuts:
        return _table(spec, epoch)
    return CutLog(cuts_folder(spec.place.state), epoch)


def newest_cut(spec: AppSpec) -> Cut | None:
    """The last cut of an app, read in passing; None where there is none, or none that can be read: who opens the log says so."""
    if spec.cuts:
        return _table(spec, 0).last()
    return cutlog.newest_cut(cuts_folder(spec.place.state))


def open_commit_log(spec: AppSpec, epoch: int = 0) -> Commits:
    """The commit record of an app, for the run with this epoch; 0 to read only. Errors: COMMIT_LOG_DAMAGED, CONNECTION_UNAVAILABLE."""
    if spec.cuts:
        from nadi.pipeline.cutting.committable import TableCommitLog  # with it comes SQLAlchemy

        return TableCommitLog(spec.cuts, _name(spec), epoch)
    return CommitLog(cuts_folder(spec.place.state), epoch)


def take_over(spec: AppSpec) -> int:
    """Begin a new epoch and return it; every run before can no longer append. Errors: CUT_FENCED, where a later owner has begun one."""
    if spec.cuts:
        return _table(spec, 0).take_over(spec.owner)
    return cutlog.take_over(cuts_folder(spec.place.state), spec.owner)


def last_owner(spec: AppSpec) -> int:
    """The owner of the last run of an app that has its cuts in a database; 0 where there was none."""
    return _table(spec, 0).current() >> RUNS


def _table(spec: AppSpec, epoch: int) -> TableCutLog:
    from nadi.pipeline.cutting.cuttable import TableCutLog  # with it comes SQLAlchemy, which takes half a second

    return TableCutLog(spec.cuts, _name(spec), epoch)


def _name(spec: AppSpec) -> str:
    return f"{spec.identity}/{spec.group}" if spec.group else spec.identity
