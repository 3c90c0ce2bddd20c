"""Security finding 10: what others wrote is shown, and does nothing to a log or a screen."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import diagnostic
from nadi.errors.readable import readable

JOINERS = {"\u200c", "\u200d"}  # letters and emoji need them
TEXTS = st.text(st.characters(codec=None))


@given(TEXTS)
def test_finding_10_nothing_that_moves_a_cursor_or_ends_a_line_is_left(text: str) -> None:
    left = {c for c in readable(text) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert left <= JOINERS
    assert readable(text).splitlines() in ([readable(text)], [])


@given(st.recursive(TEXTS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_finding_10_json_stays_json_of_the_same_value(value: object) -> None:
    for indent in (None, 2):
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        assert json.loads(readable(text, "\n")) == json.loads(text)


@given(TEXTS)
def test_what_is_readable_stays_as_it_is(text: str) -> None:
    assert readable(readable(text)) == readable(text)


def test_words_of_all_scripts_stay_as_they_are() -> None:
    text = "Größe 温度 درجه‌ی حرارت 👩‍🔬 C:\\temp\u00a05 %"
    assert readable(text) == text


def test_finding_10_an_error_shows_what_an_event_brought_on_one_line() -> None:
    reason = "said \x1b[2Jno\nERROR all is lost"
    shown = diagnostic("REFUSED", connector="http sink of Out", reason=reason).render()
    assert "said \\u001b[2Jno\\nERROR all is lost" in shown
    assert len(shown.splitlines()) == 1
