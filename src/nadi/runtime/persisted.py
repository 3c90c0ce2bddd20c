"""The state of an app as one byte string: the stream of `nadi.kernel.segments`, which revisions are made of, too."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO

from nadi.errors import error
from nadi.kernel.contract import Segment
from nadi.kernel.segments import Part, parts_of, stream_of


def packed(segments: Iterable[Segment]) -> bytes:
    """Segments as bytes."""
    return b"".join(stream_of(segments))


def unpacked(state: bytes) -> list[Part]:
    """The segments that `packed` was given.

    Raises:
        CannotRestoreSiddhiAppStateException: STATE_NOT_READABLE.
    """
    try:
        return list(parts_of(BytesIO(state).read))
    except ValueError as problem:
        raise error("STATE_NOT_READABLE", reason=str(problem)) from problem
