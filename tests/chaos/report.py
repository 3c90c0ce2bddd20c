"""What a run of the kill test has done and seen, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from faults import Fault
from revisions import Asking
from sides import Judge, Sides


@dataclass(slots=True)
class Report:
    """Filled while it runs: `faults` in their order; `recoveries` are seconds from the last fault of a burst until all apps had written a cut made since.
    `memory` is in MB."""

    seed: int
    pools: bool = True
    faults: list[Fault] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    bursts: list[int] = field(default_factory=list)
    phases: list[tuple[str, float]] = field(default_factory=list)
    revisions: str = ""
    memory: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    def text(self, sides: Sides, judge: Judge, asking: Asking) -> str:
        """The whole of it."""
        took = sum(seconds for _name, seconds in self.phases)
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.phases)
        outcomes = ", ".join(f"{n} {what}" for what, n in sorted(asking.outcomes.items())) or "none"
        return "\n".join(
            [
                f"{len(self.faults)} rounds with seed {self.seed}, {'apps share queries' if self.pools else 'a query for each app'}, in {took:.0f} s ({parts})",
                *self.kinds(),
                f"bursts of {_spread(self.bursts, '')} faults; all apps wrote again {_spread(self.recoveries)} after the last one",
                *_messages(sides),
                f"cuts: {', '.join(f'{r.app} {r.at}' for r in sides.references)}",
                f"rows: {', '.join(f'{r.app} {len(r.rows)}, error store {len(r.refused)}' for r in sides.references)}",
                f"revisions that were asked for: {outcomes}; {self.revisions}",
                f"memory at most: {', '.join(f'{kind} {size} MB' for kind, size in sorted(self.memory.items()))}",
                *self.files,
                f"compared {judge.compared} times while it ran ({judge.hindered} times something was away), and at the end",
            ]
        )

    def kinds(self) -> list[str]:
        """A line per kind, below a head."""
        lines = [f"{'fault':<10} {'times':>5}  {'gone after':<18} {'another after':<18}"]
        for kind in sorted({fault.kind for fault in self.faults}):
            mine = [fault for fault in self.faults if fault.kind == kind]
            gone, back = ([s for f in mine if (s := getattr(f, name)) is not None] for name in ("gone", "back"))
            lines.append(f"{kind:<10} {len(mine):>5}  {_spread(gone):<18} {_spread(back):<18}")
        return lines


def _spread(values: Sequence[float], unit: str = " s") -> str:
    """Median and maximum.

    >>> _spread([1, 2, 9])
    '2.0 s (max 9.0 s)'
    """
    return f"{median(values):.1f}{unit} (max {max(values):.1f}{unit})" if values else "-"


def _messages(sides: Sides) -> list[str]:
    sent, acknowledged, spoiled = (
        sum(len(getattr(sender, name)) for sender in sides.senders) for name in ("sent", "acknowledged", "spoiled")
    )
    return [f"messages: {sent} sent, {acknowledged} acknowledged, {spoiled} of those sent were spoiled"]
