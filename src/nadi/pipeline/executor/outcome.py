"""What a cut of a bucket gave, as its sinks and the error store need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nadi.kernel.contract import Outputs
from nadi.pipeline.inputs.sends import Send


@dataclass(frozen=True, slots=True)
class Outcome:
    """`clock` is that of the cut (ms); `errors` are undecodable messages, as fat rows have them; `sends` are payloads that go to sinks once more;
    `level` says what is measured; `epoch` is that of the run."""

    outputs: Outputs
    clock: int
    errors: Sequence[Sequence[Any]] = ()
    sends: Sequence[Send] = ()
    level: int = 0
    epoch: int = 0
