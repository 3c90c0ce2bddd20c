"""`@map(type='passThrough')`: rows as they are, for transports inside the process; on the way they are Arrow IPC streams."""

from __future__ import annotations

from nadi.io.mappers.arrow import ArrowSink, ArrowSource
from nadi.io.registry import MapperKind

KIND = MapperKind(source=ArrowSource, sink=ArrowSink, content_type="application/octet-stream", loops=())
