"""Distribution: an app with `@dist` is cut into groups, joined by channels, each of which runs as one or more partial apps.

Nothing here does I/O: `distribute` makes a `Topology` of a text, `drawn`, `record` and `svg` show it, `provisions` says what is to be created.

Start with `cut.distribute`.
"""

from nadi.plan.distribution.cut import distribute
from nadi.plan.distribution.model import (
    Channel,
    Group,
    Holder,
    Input,
    Instance,
    Key,
    Output,
    Placement,
    Publishing,
    Strategy,
    Topology,
)
from nadi.plan.distribution.provisions import Provision, provisions
from nadi.plan.distribution.record import record
from nadi.plan.distribution.svg import svg
from nadi.plan.distribution.topologytext import drawn

__all__ = [
    "Channel",
    "Group",
    "Holder",
    "Input",
    "Instance",
    "Key",
    "Output",
    "Placement",
    "Provision",
    "Publishing",
    "Strategy",
    "Topology",
    "distribute",
    "drawn",
    "provisions",
    "record",
    "svg",
]
