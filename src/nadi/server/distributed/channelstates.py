"""How much the channels of an app hold, how far who fills them has come, and how far behind who reads them is: for people, on any manager.

    {"channel": "Meters_Good", "transport": "nats", "partitions": 2, "bytes": 18422, "messages": 97, "bound": -1,
     "producers": [{"instance": "Meters-readings-1", "clock": 1700000000000, "closed": false, "chunks": [40, 38]}],
     "readers": [{"instance": "Meters-totals-1", "parts": [0], "lagChunks": 3, "lagMs": 120, "committed": true}],
     "keptFor": {"kind": "revision", "name": "1700000000000__Meters", "chunks": 71}}

`lagChunks` are the chunks that a reader has not committed, `lagMs` how far its last cut is behind the clock of who fills the channel and is furthest behind: 0
where there is nothing to read. Both are null where the channel does not answer.
`keptFor` is whose need is the oldest, a reader's or a revision's, and how many chunks it keeps from going; null where nobody keeps any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nadi.channels.administration import Size
from nadi.channels.options import Channel
from nadi.channels.records import CLOSE, Progress
from nadi.cluster.messages import PartState
from nadi.pipeline.cutting.cuts import Cut
from nadi.server.distributed.channelends import Ends, Read, needs_after

UNTOLD = "it does not say how much it holds"


@dataclass(frozen=True, slots=True)
class Told:
    """What a channel says of itself; `away` is why it says nothing."""

    size: Size | None = None
    tails: Mapping[str, Progress] | None = None
    away: str = ""


def shown(
    channel: Channel,
    bound: int,
    told: Told,
    ends: Sequence[Ends],
    stand: Mapping[str, Cut],
    revisions: Mapping[str, Sequence[PartState]],
) -> dict[str, Any]:
    """A channel as the module's text has it. `stand` has the cut of the last commit by instance, `revisions` the restorable ones by name."""
    tails = told.tails or {}
    reads = [(one, read) for one in ends for read in one.reads if read.reading.channel.name == channel.name]
    names = dict.fromkeys(p for _one, read in reads for p in read.reading.producers)
    return {
        "channel": channel.name,
        "transport": channel.transport,
        "partitions": channel.parts,
        "bytes": None if told.size is None else told.size.bytes,
        "messages": None if told.size is None else told.size.messages,
        "bound": bound,
        "away": told.away,
        "producers": [_producer(name, tails.get(name)) for name in names],
        "readers": [_reader(one, read, stand.get(one.instance), told.tails) for one, read in reads],
        "keptFor": _kept_for(channel.name, reads, stand, revisions, tails),
    }


def _producer(name: str, tail: Progress | None) -> dict[str, Any]:
    if tail is None:
        return {"instance": name, "clock": None, "closed": False, "chunks": []}
    return {"instance": name, "clock": tail.clock, "closed": tail.kind == CLOSE, "chunks": list(tail.ends)}


def _reader(ends: Ends, read: Read, cut: Cut | None, told: Mapping[str, Progress] | None) -> dict[str, Any]:
    tails = told or {}
    clocks = [tails[p].clock for p in read.reading.producers if p in tails and tails[p].kind != CLOSE]
    behind = None if cut is None or not clocks else max(0, min(clocks) - cut.clock)
    needs = needs_after(ends, cut) or {}
    mine = {place[1:]: chunk for place, chunk in needs.items() if place[0] == read.reading.channel.name}
    parts = list(read.reading.assigned)
    lag = _unread({place: chunk for place, chunk in mine.items() if place[1] in parts}, tails)
    if behind is not None and not lag:
        behind = 0  # who has nothing to read makes no cut, while the clocks of producers go on
    return {
        "instance": ends.instance,
        "parts": parts,
        "lagChunks": None if told is None else lag,  # a channel that is away does not say what it has
        "lagMs": behind,
        "committed": cut is not None,
    }


def _unread(needs: Mapping[tuple[str, int], int], tails: Mapping[str, Progress]) -> int:
    """How many chunks there are from these on."""
    found = 0
    for (producer, part), chunk in needs.items():
        tail = tails.get(producer)
        if tail is not None and part < len(tail.ends):
            found += max(0, tail.ends[part] - chunk)
    return found


def _kept_for(
    channel: str,
    reads: Sequence[tuple[Ends, Read]],
    stand: Mapping[str, Cut],
    revisions: Mapping[str, Sequence[PartState]],
    tails: Mapping[str, Progress],
) -> dict[str, Any] | None:
    """Who keeps the most chunks from going: a reader, or a revision that may be restored."""
    kept: list[tuple[int, str, str]] = []
    for ends, _read in reads:
        needs = needs_after(ends, stand.get(ends.instance)) or {}
        mine = {place[1:]: chunk for place, chunk in needs.items() if place[0] == channel}
        kept.append((_unread(mine, tails), "reader", ends.instance))
    for name, states in revisions.items():
        mine = {}
        for state in states:
            for of, producer, part, chunk in state.needs:
                if of == channel:
                    mine[producer, part] = min(chunk, mine.get((producer, part), chunk))
        kept.append((_unread(mine, tails), "revision", name))
    most = max(kept, default=(0, "", ""))
    return {"kind": most[1], "name": most[2], "chunks": most[0]} if most[0] else None
