"""Any text at all is either read or explained."""

from __future__ import annotations

import lang_trees as trees
from hypothesis import given
from hypothesis import strategies as st

from nadi.lang import parse_collecting, print_app
from nadi.lang.lexer import tokenise
from tests.generate.budget import GENERATED, Examples

unhurried = Examples(GENERATED, seconds=0.6, most=100)

WORDS = st.sampled_from(
    """define stream table window trigger function aggregation from select insert into update or delete on set return every not
    and for within partition with begin end join outer left as a b S ( ) [ ] , ; . : # ! @ -> ... == = < > * + ? - 5 5L 'x' { }
    sec is null in of at output events all group by having --c /*c*/ " ` ${""".split()  # noqa: SIM905
)


@unhurried
@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_any_words_are_read_or_explained(text):
    app, found = parse_collecting(text)
    assert all(0 <= d.span.start <= d.span.end <= len(text) for d in found)
    assert all(d.render() for d in found)
    assert print_app(app) or not (app.annotations or app.definitions or app.elements or app.comments)


@unhurried
@given(st.text(max_size=60))
def test_any_characters_are_read_or_explained(text):
    parse_collecting(text)


@unhurried
@given(st.data())
def test_a_damaged_app_is_explained_and_its_other_statements_are_read(data):
    text = print_app(data.draw(trees.apps))
    tokens = tokenise(text).tokens
    hit = tokens[data.draw(st.sampled_from(range(len(tokens))))]
    damaged = text[: hit.start] + data.draw(WORDS) + text[hit.end :]
    parse_collecting(damaged)
