"""A topology as a picture: groups with their instances in columns, from where events come in to where they end, and channels as lines between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from nadi.plan.distribution.model import Channel, Group, Topology

_LETTER = 7
_LINE = 18
_PADDING = 12
_GAP_DOWN = 28
_GAP_RIGHT = 60
_MARGIN = 24
_OUTSIDE = "outside"

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1d2733}"
    ".group{fill:#f4f7fa;stroke:#50657a}.receiver{fill:#e8f4ec}.outside{fill:#fff;stroke-dasharray:4 3}"
    ".instance{fill:#fff;stroke:#a9b8c6}.name{font-weight:bold}.channel{fill:none;stroke:#2f6f9f;stroke-width:1.5}"
    ".label{font-size:11px;fill:#2f6f9f;paint-order:stroke;stroke:#fff;stroke-width:3px}"
)


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    kind: str
    lines: tuple[str, ...]
    instances: tuple[str, ...]
    x: int
    y: int
    width: int
    height: int


def svg(topology: Topology, states: Mapping[str, str] | None = None) -> str:
    """The picture as the text of an SVG file; the same for the same topology, without scripts, fonts or links.

    With `states` (by name of an instance) it is one for a page: the box of an instance has its state as a class, and its name in `data-instance`; the page's
    own style sheet says how all of it looks.
    """
    boxes = {b.name: b for b in _placed(topology)}
    width = max((b.x + b.width for b in boxes.values()), default=0) + _MARGIN
    height = max((b.y + b.height for b in boxes.values()), default=0) + _MARGIN
    title = escape(f"app {topology.app} on {topology.transport}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{title}</title>",
        *([f"<style>{_STYLE}</style>"] if states is None else []),
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#2f6f9f"/></marker></defs>',
        *_lines(topology, boxes),
        *(line for box in boxes.values() for line in _box(box, states)),
        *_labels(topology, boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# ---- places --------------------------------------------------------------------------------------------------------


def _placed(topology: Topology) -> Iterator[_Box]:
    columns = _columns(topology)
    x = _MARGIN
    for column in range(max(columns.values(), default=-1) + 1):
        names = [n for n, c in columns.items() if c == column]
        y = _MARGIN
        widest = 0
        for name in names:
            box = _sized(topology, name, x, y)
            y += box.height + _GAP_DOWN
            widest = max(widest, box.width)
            yield box
        labels = [_label(c) for c in topology.channels for consumer in c.consumers if columns[consumer] == column + 1]
        x += widest + _GAP_RIGHT + _LETTER * max(map(len, labels), default=0)


def _columns(topology: Topology) -> dict[str, int]:
    """The column of each group: right of all that fill its channels. Groups form no cycles."""
    before: dict[str, set[str]] = {g.name: set() for g in topology.groups}
    for channel in topology.channels:
        for consumer in channel.consumers:
            before[consumer].update([_OUTSIDE] if channel.outside else [p for p in channel.producers if p != consumer])
    columns = {_OUTSIDE: 0} if any(c.outside for c in topology.channels) else {}
    waiting = list(before)
    while waiting:
        ready = [n for n in waiting if before[n] <= columns.keys()]
        for name in ready or waiting:
            columns[name] = max((columns[b] + 1 for b in before[name] if b in columns), default=0)
        waiting = [n for n in waiting if n not in columns]
    return columns


def _sized(topology: Topology, name: str, x: int, y: int) -> _Box:
    group = next((g for g in topology.groups if g.name == name), None)
    lines, instances = ((), ()) if group is None else (_told(group), tuple(i.name for i in group.instances))
    longest = max(len(text) for text in (name, *lines, *instances))
    width = longest * _LETTER + 4 * _PADDING
    height = (1 + len(lines)) * _LINE + len(instances) * (_LINE + 6) + 2 * _PADDING
    kind = _OUTSIDE if group is None else "receiver" if group.receiver else ""
    return _Box(name, kind, lines, instances, x, y, width, height)


def _told(group: Group) -> tuple[str, ...]:
    stored = sorted({i.name for i in group.inputs if i.holder.value not in ("stream", "trigger")})
    lines = [", ".join(group.elements)] if group.elements else []
    lines += [f"{group.buckets} buckets"] if group.buckets > 1 else []
    sources = [i.name for i in group.inputs if i.user_given]
    sinks = [o.name for o in group.outputs if o.user_given]
    for what, names in (("source of", sources), ("uses", stored), ("sinks of", sinks)):
        if names:
            lines.append(f"{what} {', '.join(names)}")
    return tuple(lines)


# ---- shapes --------------------------------------------------------------------------------------------------------


def _box(box: _Box, states: Mapping[str, str] | None) -> Iterator[str]:
    kind = quoteattr(f"group {box.kind}".strip())
    yield f'<rect class={kind} x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>'
    y = box.y + _PADDING + _LINE - 6
    yield f'<text class="name" x="{box.x + _PADDING}" y="{y}">{escape(box.name)}</text>'
    for line in box.lines:
        y += _LINE
        yield f'<text x="{box.x + _PADDING}" y="{y}">{escape(line)}</text>'
    y += 8
    for name in box.instances:
        wide = box.width - 2 * _PADDING
        state = '"instance"'
        if states is not None:
            state = f"{quoteattr('instance ' + states.get(name, ''))} data-instance={quoteattr(name)}"
        yield f'<rect class={state} x="{box.x + _PADDING}" y="{y}" width="{wide}" height="{_LINE + 2}" rx="3"/>'
        yield f'<text x="{box.x + _PADDING + 8}" y="{y + 14}">{escape(name)}</text>'
        y += _LINE + 6


def _lines(topology: Topology, boxes: dict[str, _Box]) -> Iterator[str]:
    """A line for each channel and pair of groups that it joins; boxes cover those that pass behind them."""
    for channel, to, y2 in _arrivals(topology, boxes):
        for producer in (_OUTSIDE,) if channel.outside else channel.producers:
            if producer != to.name:
                of = boxes[producer]
                x1, y1 = of.x + of.width, of.y + of.height // 2
                middle = (x1 + to.x) // 2
                curve = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {to.x} {y2}"
                yield f'<path class="channel" marker-end="url(#tip)" d="{curve}"/>'


def _labels(topology: Topology, boxes: dict[str, _Box]) -> Iterator[str]:
    """The name of each channel where it arrives."""
    for channel, to, y2 in _arrivals(topology, boxes):
        yield f'<text class="label" x="{to.x - 12}" y="{y2 - 4}" text-anchor="end">{escape(_label(channel))}</text>'


def _arrivals(topology: Topology, boxes: dict[str, _Box]) -> Iterator[tuple[Channel, _Box, int]]:
    """Channels with the group in which they arrive, and at which height."""
    arrived: dict[str, int] = {}
    for channel in topology.channels:
        for consumer in channel.consumers:
            place = arrived[consumer] = arrived.get(consumer, 0) + 1
            yield channel, boxes[consumer], boxes[consumer].y + _PADDING + place * _LINE


def _label(channel: Channel) -> str:
    return channel.name if channel.partitions == 1 else f"{channel.name} ({channel.partitions})"
