"""Tokens: literals, names, comments, function bodies, places."""

from __future__ import annotations

import pytest

from nadi.lang import parse_expression, parse_function_definition
from nadi.lang.lexer import tokenise
from nadi.lang.tree import Constant, Type


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.value) for t in tokenise(text).tokens[:-1]]


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("5", 5, Type.INT),
        ("-5", -5, Type.INT),
        ("- 5", -5, Type.INT),
        ("+5", 5, Type.INT),
        ("-2147483648", -(2**31), Type.INT),
        ("5L", 5, Type.LONG),
        ("5l", 5, Type.LONG),
        ("5f", 5.0, Type.FLOAT),
        ("5.F", 5.0, Type.FLOAT),
        (".5f", 0.5, Type.FLOAT),
        ("1e3f", 1000.0, Type.FLOAT),
        ("0.1f", 0.10000000149011612, Type.FLOAT),
        ("1e39f", float("inf"), Type.FLOAT),
        ("5.0", 5.0, Type.DOUBLE),
        (".5", 0.5, Type.DOUBLE),
        ("1e3", 1000.0, Type.DOUBLE),
        ("1.E-3", 0.001, Type.DOUBLE),
        ("5d", 5.0, Type.DOUBLE),
        ("5.25D", 5.25, Type.DOUBLE),
        ("-1.5e+2d", -150.0, Type.DOUBLE),
        ("true", True, Type.BOOL),
        ("False", False, Type.BOOL),
        ("'it is'", "it is", Type.STRING),
        ('"it\'s"', "it's", Type.STRING),
        ("'a\\n'", "a\\n", Type.STRING),
        ('"""say "it\'s"\nthere"""', 'say "it\'s"\nthere', Type.STRING),
        ('"""\\"\\n\\u0041\\101\\d"""', '"\nAA\\d', Type.STRING),
        ("''", "", Type.STRING),
    ],
)
def test_literals_have_the_value_and_type_that_siddhi_gives_them(text, value, kind):
    constant = parse_expression(text)
    assert constant == Constant(value, kind)
    assert type(constant.value) is type(value)


def test_keywords_are_read_in_any_case_and_keep_their_spelling_as_names():
    tokens = tokenise("SeLeCt `SeLeCt`").tokens
    assert [(t.word, t.value, t.is_name) for t in tokens[:2]] == [("select", "SeLeCt", True), ("", "SeLeCt", True)]


def test_the_longest_token_wins():
    assert kinds("a<=b->c...d!=e") == [
        ("name", "a"),
        ("operator", "<="),
        ("name", "b"),
        ("operator", "->"),
        ("name", "c"),
        ("operator", "..."),
        ("name", "d"),
        ("operator", "!="),
        ("name", "e"),
    ]


def test_comments_are_kept_with_the_token_that_follows_them():
    lexed = tokenise("-- one\na /* two */ b -- three")
    assert [(c.text, c.before, c.own_line) for c in lexed.comments] == [
        ("-- one", 0, True),
        ("/* two */", 1, False),
        ("-- three", 2, False),
    ]


def test_comment_marks_inside_strings_are_text():
    assert kinds("'-- no' \"/* no */\"") == [("string", "-- no"), ("string", "/* no */")]


@pytest.mark.parametrize(
    "body",
    [
        " return 1; ",
        " if (x) { if (y) { return 1; } } ",
        " return '}' + \"}\" + '\\'}'; ",
        " // }\n return 1; /* } } */ ",
        " # don't {}\n return 1 ",
        "",
    ],
)
def test_the_body_of_a_function_ends_at_its_own_brace(body):
    definition = parse_function_definition(f"define function f[javascript] return int {{{body}}};")
    assert definition.body == body


def test_an_apostrophe_in_a_foreign_comment_does_not_swallow_the_end_of_the_body():
    definition = parse_function_definition(
        "define function f[r] return int { # it's 'one }\n};".replace("'one }", "'one {}")
    )
    assert definition.body == " # it's 'one {}\n"


def test_places_count_lines_and_columns_from_one():
    tokens = tokenise("a\n  bb\r\n\tc '''".replace("'''", '"""x\ny""" d')).tokens
    assert [(t.line, t.column, t.end_line, t.end_column) for t in tokens] == [
        (1, 1, 1, 2),
        (2, 3, 2, 5),
        (3, 2, 3, 3),
        (3, 4, 4, 5),
        (4, 6, 4, 7),
        (4, 7, 4, 7),
    ]


def test_a_byte_order_mark_is_no_character_of_the_app():
    assert kinds("\ufeffa") == [("name", "a")]


def test_what_cannot_be_read_is_reported_and_the_rest_is_read():
    lexed = tokenise("a § b ? 'open\nc")
    assert [t.text for t in lexed.tokens] == ["a", "b", "?", "'open", "c", ""]
    assert [e.condition for e in lexed.errors] == ["UNKNOWN_CHARACTER", "UNTERMINATED"]
