"""A kernel that is loaded while the frames of its state come."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import pytest

from nadi.kernel.contract import Segment
from nadi.pipeline.executor.statefeed import AHEAD, Feeding
from nadi.pipeline.state.frames import base_stream, delta_stream, to_frames

STATE: list[Segment | bytes] = [*(Segment("e", group, bytes(200)) for group in range(40)), b"a delta"]


class Loaded:
    """A kernel that notes what it is loaded with, and is broken by some of it."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.collecting: list[bool] = []

    def load(self, state: Iterable[Segment | bytes]) -> None:
        self.parts = []
        for part in state:
            if part == b"broken":
                raise RuntimeError("broken")
            self.parts.append(part)
            self.collecting.append(gc.isenabled())


def frames(delta: bytes = b"a delta") -> list[bytes]:
    segments = [s for s in STATE if isinstance(s, Segment)]
    return [*to_frames(base_stream(segments), 64), *to_frames(delta_stream(delta), 64)]


def test_a_kernel_gets_the_segments_and_deltas_of_the_frames_and_nothing_is_collected_meanwhile():
    kernel, made = Loaded(), frames()
    feeding = Feeding(kernel)  # type: ignore[arg-type]
    for at in range(0, len(made), 8):
        feeding.take(made[at : at + 8])
    assert len(made) > 2 * AHEAD
    assert feeding.finish(len(made)) is kernel
    assert kernel.parts == STATE
    assert set(kernel.collecting) == {False}
    assert gc.isenabled()


@pytest.mark.parametrize("change", [lambda made: made[:-1], lambda made: [made[0], *made]])
def test_frames_that_came_twice_or_not_at_all_make_no_kernel(change: Any):
    feeding = Feeding(Loaded())  # type: ignore[arg-type]
    feeding.take(change(frames()))
    assert feeding.finish(len(frames())) is None


def test_what_loading_meets_is_raised_and_holds_nobody_up():
    feeding = Feeding(Loaded())  # type: ignore[arg-type]
    made = [*frames(b"broken"), *frames()]
    feeding.take(made)
    with pytest.raises(RuntimeError, match="broken"):
        feeding.finish(len(made))


def test_a_state_that_is_cut_short_is_told():
    feeding = Feeding(Loaded())  # type: ignore[arg-type]
    made = frames()[:-2]
    feeding.take(made)
    with pytest.raises(ValueError, match="cut short"):
        feeding.finish(len(made))


def test_a_feeding_that_is_given_up_leaves_an_empty_kernel_and_no_thread():
    kernel = Loaded()
    feeding = Feeding(kernel)  # type: ignore[arg-type]
    feeding.take(frames()[:30])
    feeding.give_up()
    feeding._loader.join(60)
    assert not feeding._loader.is_alive()
    assert kernel.parts == []
