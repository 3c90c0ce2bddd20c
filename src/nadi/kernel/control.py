"""The control input of an app: what its operators ask it to change while it runs, as records in a log like any other input (design: what changes
results is a record in an input).

A record is an on-demand query that writes, with a name that its sender made up. An empty query changes nothing; it only makes a cut.
"""

from __future__ import annotations

from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema

CONTROL = "on-demand queries"
"""The key of the control input among the streams of an app; no stream can have this name."""

CONTROL_SCHEMA = Schema((Column("id", Type.STRING), Column("query", Type.STRING)))
