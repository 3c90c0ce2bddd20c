"""An app that is no more, in the database of cut logs."""

from __future__ import annotations

from sqlalchemy import delete

from nadi.io.appnotes import AppNotes
from nadi.io.errorstores import ERRORS
from nadi.io.errortable import forget_errors
from nadi.pipeline.cutting.committable import COMMITS
from nadi.pipeline.cutting.cuttable import CUTS
from nadi.pipeline.cutting.epochtable import EpochTable


def forget_cuts(url: str, app: str) -> None:
    """Delete cuts, commits, notes and errors of an app. Its epoch stays, one higher: a run that still lives can append nothing.

    Errors: CONNECTION_UNAVAILABLE, REFUSED.
    """
    table = EpochTable(url, app, "the cut log", CUTS, COMMITS)
    table.take_over()
    with table.transaction() as connection:
        connection.execute(delete(CUTS).where(CUTS.c.app == app))
        connection.execute(delete(COMMITS).where(COMMITS.c.app == app))
    AppNotes(url, app).forget()
    forget_errors(table.address, app, ERRORS)
