"""What a producer says of itself: the progress record after the one before. Pure; `nadi.channels.sink` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.channels.records import CLOSE, CUT, IDLE, OPEN, Piece, Progress, Written
from nadi.errors import error


def opened(
    tail: Progress | None, producer: str, epoch: int, parts: int, output: str, cuts: tuple[int, int] = (-1, -1)
) -> Progress:
    """What a run of a producer begins with; from then on no run before it is heard.

    Args:
        tail: the last record of the producer, None where it has none.
        cuts: the last cut that the app has committed, and the last that its cut log has: what stands in the channel must be one of those.

    Errors: FENCED (a later run has been there), CHANNEL_MISMATCH (the channel has cuts that the app knows nothing of, or another number of parts).

    >>> opened(None, "A-1", 1, 2, "g/S").ends
    (0, 0)
    """
    if tail is None:
        return Progress(producer, epoch, OPEN, -1, -1, -1, (0,) * parts, (), output)
    if tail.epoch > epoch:
        raise error("FENCED", connector=f"the channel of {output}", producer=producer)
    if len(tail.ends) > parts:
        raise _mismatch(producer, f"it has {len(tail.ends)} parts there, and {parts} here")
    committed, logged = cuts
    if tail.cut > max(logged, committed):
        raise _mismatch(producer, f"it has cut {tail.cut} there, and the cut log of the app ends with {logged}")
    if tail.cut < committed and tail.cut >= 0:
        raise _mismatch(producer, f"it has cut {tail.cut} there, and the app has committed {committed}")
    ends = (*tail.ends, *(0,) * (parts - len(tail.ends)))
    return Progress(producer, epoch, OPEN, tail.cut, tail.clock, tail.clock, ends, (), output, tail.lasts)


def _mismatch(producer: str, reason: str) -> Exception:
    return error("CHANNEL_MISMATCH", producer=producer, reason=reason)


def advanced(tail: Progress, cut: int, clock: int, written: Sequence[Written]) -> Progress | None:
    """A cut is done, whose buckets have `written` this; None where the channel has it already."""
    if cut <= tail.cut:
        return None
    pieces = tuple(sorted((p for w in written for p in w.pieces), key=_part))  # stable: buckets keep their order
    ends = list(tail.ends)
    for piece in pieces:
        ends[piece.part] += piece.chunks
    lasts = dict(tail.lasts)
    for w in written:
        for group, number in w.lasts:
            lasts[group] = max(number, lasts.get(group, -1))
    told = tuple(sorted(lasts.items()))
    return Progress(
        tail.producer,
        tail.epoch,
        CUT,
        cut,
        max(clock, tail.clock),
        tail.clock,
        tuple(ends),
        pieces,
        tail.output,
        told,
    )


def _part(piece: Piece) -> int:
    return piece.part


def idled(tail: Progress, clock: int) -> Progress:
    """Nothing has come up to a clock."""
    return _said(tail, IDLE, max(clock, tail.clock))


def closed(tail: Progress) -> Progress:
    """Nothing will come any more, until another run begins."""
    return _said(tail, CLOSE, tail.clock)


def _said(tail: Progress, kind: str, clock: int) -> Progress:
    return Progress(
        tail.producer, tail.epoch, kind, tail.cut, clock, tail.clock, tail.ends, (), tail.output, tail.lasts
    )


def floors(tails: Sequence[Progress], output: str, but: str) -> dict[int, int]:
    """Per key-group the last number that other producers than `but` have given of an output: what is not above it has been given already.

    >>> floors([Progress("g-1", 1, CUT, 3, 9, 8, (1,), (), "g/S", ((5, 17),))], "g/S", "g-2")
    {5: 17}
    """
    found: dict[int, int] = {}
    for tail in tails:
        if tail.output == output and tail.producer != but:
            for group, number in tail.lasts:
                found[group] = max(number, found.get(group, -1))
    return found
