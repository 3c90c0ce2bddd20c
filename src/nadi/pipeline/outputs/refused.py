"""What becomes of payloads that targets refused: by `on.error` of the sink to the log, to the error store, or as a record of the fault log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from nadi.errors import error
from nadi.io.contract import Connector, Delivery, Refusal
from nadi.io.faultlog import Fault
from nadi.io.sinks.refusals import action
from nadi.kernel.contract import GROUP
from nadi.pipeline.inputs.faults import fault_record, has_fault_stream
from nadi.pipeline.outputs.deliveries import AGAIN
from nadi.pipeline.outputs.errorrows import refused_row
from nadi.plan.nodes import App

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Refused:
    """What the sinks of a bucket have met in one cut: rows for the error store and records for the fault log. `clock` is that of the cut, ms."""

    app: App
    clock: int
    rows: list[dict[str, object]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add(self, sink: Connector, delivery: Delivery, refusals: Sequence[Refusal]) -> None:
        """Take what a sink did not deliver. `STREAM` without a fault stream is `STORE`, and so it is for what was sent again."""
        chosen = action(sink)
        to_stream = chosen == "STREAM" and has_fault_stream(self.app, sink.stream)
        ends = [*delivery.firsts[1:], delivery.batch.num_rows]
        for refusal in refusals:
            who = f"sink {sink.type} of {sink.stream}"
            first, end = delivery.firsts[refusal.index], ends[refusal.index]
            if to_stream and delivery.batch.column(GROUP)[first].as_py() != AGAIN:
                said = error("REFUSED", connector=who, reason=refusal.reason)
                text = f"{said.condition}: {said.diagnostic.message}"
                self.faults.append(fault_record(self.clock, sink, delivery, first, end, text))
                continue
            row = refused_row(self.app.name, sink, delivery, (first, end), refusal)
            if chosen == "LOG":
                log.warning("refused and dropped", **row)
            else:
                self.rows.append(row)
