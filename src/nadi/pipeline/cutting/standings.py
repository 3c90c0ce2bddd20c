"""Where the apps of nodes that share a database stand, for who looks at many of them: one question for all."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import and_, func, select

from nadi.io.appnotes import NOTES
from nadi.pipeline.cutting.committable import COMMITS
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.cuttable import CUTS, TableCutLog
from nadi.pipeline.cutting.epochtable import EpochTable
from nadi.pipeline.shape import SHAPE

AT_A_TIME = 200  # apps


def committed(url: str, apps: Sequence[str]) -> dict[str, Cut]:
    """The cut of the last commit of each app that has one. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    table = EpochTable(url, "", "the cut log", CUTS, COMMITS)
    found: dict[str, Cut] = {}
    for at in range(0, len(apps), AT_A_TIME):
        some = apps[at : at + AT_A_TIME]
        last = (
            select(COMMITS.c.app, func.max(COMMITS.c.n).label("n"))
            .where(COMMITS.c.app.in_(some))
            .group_by(COMMITS.c.app)
            .subquery()
        )
        wanted = select(CUTS.c.app, CUTS.c.cut).join(last, and_(CUTS.c.app == last.c.app, CUTS.c.n == last.c.n))
        with table.transaction() as connection:
            found |= {app: Cut.from_offset(json.loads(text)) for app, text in connection.execute(wanted)}
    return found


def shapes(url: str, apps: Sequence[str]) -> dict[str, dict[str, int]]:
    """The numbers that the inputs of apps have in their cuts, by name, of each app that has noted them. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    table = EpochTable(url, "", "the notes", NOTES)
    found: dict[str, dict[str, int]] = {}
    for at in range(0, len(apps), AT_A_TIME):
        wanted = select(NOTES.c.app, NOTES.c.content).where(
            NOTES.c.app.in_(apps[at : at + AT_A_TIME]), NOTES.c.name == SHAPE
        )
        with table.transaction() as connection:
            for app, content in connection.execute(wanted):
                found[app] = json.loads(json.loads(content))["inputs"]
    return found


def trim_cuts(url: str, app: str, before: int) -> None:
    """Forget the cuts of an app before number `before`. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    TableCutLog(url, app, 0).trim(before)
