"""The operators of sequences with logical or absent elements: `every e1=A, e2=B and e3=C`, `every e1=A, not B for 5 sec`."""

from __future__ import annotations

from nadi.kernel.columns.patterns import sequencemoving
from nadi.kernel.columns.patterns.matching import Automaton
from nadi.kernel.columns.patterns.sequencetext import SequenceText, TimedSequenceText
from nadi.kernel.columns.patterns.timedmatching import TimedAutomaton


class SequenceAutomaton(Automaton):
    """A query over such a sequence."""

    _text_of = SequenceText


class TimedSequence(TimedAutomaton):
    """A query over one that waits for absences by the clock."""

    _text_of = TimedSequenceText
    _begin = staticmethod(sequencemoving.begin)
