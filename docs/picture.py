"""Draws `docs/internals/architecture.svg` from `docs/internals/architecture.toml` and the import contracts: the floors, and the way of an event."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from packages import TOP, layers

TEXT = Path(__file__).parent / "internals" / "architecture.toml"
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
INK, SOFT, LINE = "#1f2933", "#52606d", "#7b8794"
PAPER, PLAIN = "#ffffff", "#f1f5f9"
FILLS = {"io": "#fde8c8", "pipeline": "#cfe8e5", "kernel": "#dcd6f7"}
"""Floors that an event passes have a colour of their own, here and in the steps."""

MARGIN, TOP_OF_ALL = 24, 64
FLOOR, FLOOR_GAP, FLOORS_WIDE = 54, 8, 560
WAY_LEFT, LANE, LANE_GAP = 640, 216, 20
STEP, STEP_GAP = 78, 12
WRAP = 32  # characters in a line of a step


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    wide: float
    high: float


def drawing() -> str:
    """The picture as a text of SVG."""
    with TEXT.open("rb") as file:
        told = tomllib.load(file)
    floors = layers()[TOP].floors
    check(told, floors)
    steps = _places(told)
    high = max(TOP_OF_ALL + len(floors) * (FLOOR + FLOOR_GAP), steps[-1].y + STEP) + MARGIN + 20
    wide = WAY_LEFT + len(told["process"]) * (LANE + LANE_GAP) - LANE_GAP + MARGIN
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {wide} {high}",
            "width": str(wide),
            "height": str(high),
            "font-family": FONT,
            "role": "img",
            "aria-labelledby": "title",
        },
    )
    ET.SubElement(
        root, "title", {"id": "title"}
    ).text = "The floors of nadi, and the way of an event from a socket to a sink"
    _arrow_head(root)
    _rectangle(root, Box(0, 0, wide, high), PAPER, None)
    _text(root, MARGIN, 34, "Floors: each imports only from those below", 17, weight="bold")
    _text(root, WAY_LEFT, 34, "The way of an event: from a socket to a sink", 17, weight="bold")
    for number, floor in enumerate(floors):
        _floor(root, TOP_OF_ALL + number * (FLOOR + FLOOR_GAP), floor, told["captions"])
    _way(root, told, steps, high)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def check(told: dict[str, Any], floors: Sequence[Sequence[str]]) -> None:
    """Raises ValueError where the text and the contracts do not name the same packages."""
    names = {one for floor in floors for one in floor}
    if names != told["captions"].keys():
        raise ValueError(f"architecture.toml and the contracts differ in {sorted(names ^ told['captions'].keys())}")
    processes = [one["name"] for one in told["process"]]
    for step in told["step"]:
        if step["process"] not in processes or step["floor"] not in names:
            raise ValueError(f"architecture.toml: no such process or floor: {step}")


# ---- floors


def _floor(root: ET.Element, y: float, floor: Sequence[str], captions: dict[str, str]) -> None:
    gap = 6
    each = (FLOORS_WIDE - gap * (len(floor) - 1)) / len(floor)
    for number, name in enumerate(floor):
        box = Box(MARGIN + number * (each + gap), y, each, FLOOR)
        _rectangle(root, box, FILLS.get(name, PLAIN))
        if len(floor) == 1:
            _text(root, box.x + 14, y + 32, name, 15, weight="bold")
            _text(root, box.x + 130, y + 32, captions[name], 14, SOFT)
        else:
            _text(root, box.x + each / 2, y + 20, name, 14, anchor="middle", weight="bold")
            for at, line in enumerate(textwrap.wrap(captions[name], max(12, int(each / 6)))[:2]):
                _text(root, box.x + each / 2, y + 35 + 12 * at, line, 10.5, SOFT, anchor="middle")


# ---- the way


def _places(told: dict[str, Any]) -> list[Box]:
    lanes = {one["name"]: number for number, one in enumerate(told["process"])}
    first = TOP_OF_ALL + 34
    return [
        Box(WAY_LEFT + lanes[step["process"]] * (LANE + LANE_GAP), first + number * (STEP + STEP_GAP), LANE, STEP)
        for number, step in enumerate(told["step"])
    ]


def _way(root: ET.Element, told: dict[str, Any], places: Sequence[Box], high: float) -> None:
    for number, process in enumerate(told["process"]):
        x = WAY_LEFT + number * (LANE + LANE_GAP)
        _rectangle(
            root, Box(x - 6, TOP_OF_ALL - 8, LANE + 12, high - TOP_OF_ALL - MARGIN + 8), "none", "#cbd2d9", dash="4 4"
        )
        _text(root, x + LANE / 2, TOP_OF_ALL + 12, process["caption"], 14, SOFT, anchor="middle", weight="bold")
    for before, after in pairwise(places):
        _line(root, _between(before, after))
    for number, (step, box) in enumerate(zip(told["step"], places), 1):
        _rectangle(root, box, FILLS.get(step["floor"], PLAIN))
        _text(root, box.x + 9, box.y + 19, str(number), 13, weight="bold")
        for at, line in enumerate(textwrap.wrap(step["does"], WRAP)):
            _text(root, box.x + 30, box.y + 19 + 15 * at, line, 11.5)
        _text(root, box.x + 30, box.y + STEP - 9, f"{step['floor']}.{step['at']}", 9, SOFT)


def _between(before: Box, after: Box) -> Iterator[tuple[float, float]]:
    """The corners of the line from one step to the next."""
    if before.x == after.x:
        x = before.x + before.wide / 2
        return iter([(x, before.y + before.high), (x, after.y)])
    right = after.x > before.x
    start = (before.x + before.wide if right else before.x, before.y + before.high / 2)
    x = after.x + after.wide / 2
    return iter([start, (x, start[1]), (x, after.y)])


# ---- shapes


def _rectangle(root: ET.Element, box: Box, fill: str, stroke: str | None = LINE, dash: str = "") -> None:
    given = {"x": _n(box.x), "y": _n(box.y), "width": _n(box.wide), "height": _n(box.high), "fill": fill}
    if stroke is not None:
        given |= {"stroke": stroke, "rx": "6"} | ({"stroke-dasharray": dash} if dash else {})
    ET.SubElement(root, "rect", given)


def _text(
    root: ET.Element, x: float, y: float, text: str, size: float, fill: str = INK, anchor: str = "", weight: str = ""
) -> None:
    given = {"x": _n(x), "y": _n(y), "font-size": _n(size), "fill": fill}
    given |= {"text-anchor": anchor} if anchor else {}
    given |= {"font-weight": weight} if weight else {}
    ET.SubElement(root, "text", given).text = text


def _line(root: ET.Element, corners: Iterator[tuple[float, float]]) -> None:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners)
    ET.SubElement(
        root,
        "polyline",
        {"points": points, "fill": "none", "stroke": INK, "stroke-width": "1.5", "marker-end": "url(#head)"},
    )


def _arrow_head(root: ET.Element) -> None:
    marker = ET.SubElement(
        ET.SubElement(root, "defs"),
        "marker",
        {
            "id": "head",
            "viewBox": "0 0 10 10",
            "refX": "9",
            "refY": "5",
            "markerWidth": "7",
            "markerHeight": "7",
            "orient": "auto",
        },
    )
    ET.SubElement(marker, "path", {"d": "M 0 0 L 10 5 L 0 10 z", "fill": INK})


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
