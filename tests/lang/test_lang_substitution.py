"""Finding 6: the value of a variable cannot end the string that it stands in, and outside of strings it is a name, a number or a time."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.lang import parse, settled, substitute
from nadi.lang.tree import SiddhiApp

VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text(
    "'\"\\`\n\r\t{}${}()u0-/*;", max_size=20
)
QUOTES = ["'", '"', '"""']
FORMS = ["{q}${{X}}{q}", "{q}before ${{X}} after{q}", "{q}${{X}}${{X}}{q}"]


def description(app: SiddhiApp) -> str:
    (annotation,) = app.definitions[0].annotations
    return annotation.elements[0].value


@given(VALUES, st.sampled_from(QUOTES), st.sampled_from(FORMS))
@example("'] delete", "'", FORMS[1])
@example('"""', '"""', FORMS[2])
@example("\\", '"""', FORMS[0])
def test_inside_a_string_any_value_is_that_value_and_nothing_else(value: str, quote: str, form: str) -> None:
    text = f"@info(text={form.format(q=quote)}) define stream S (a int); from S select a insert into T;"
    wanted = form.format(q="").replace("${X}", value)
    app = parse(substitute(text, {"X": value}))
    assert description(app) == wanted
    assert len(app.definitions) == len(app.elements) == 1
    assert description(parse(text, connections={"X": value})) == wanted


def test_what_is_escaped_before_a_place_does_not_take_from_the_value() -> None:
    text = '@info(text="""a\\${X}""") define stream S (a int);'
    assert description(parse(substitute(text, {"X": '"""'}))) == 'a\\"""'
    assert description(parse(text, connections={"X": '"""'})) == 'a\\"""'


@pytest.mark.parametrize(
    "value",
    ["5", "-5", "2.5", "1e3", "10L", "0.5f", "S", "symbol_2", "5 sec", "1 min 30 sec", "1 min and 30 sec", "true"],
)
def test_outside_of_strings_a_value_may_be_a_name_a_number_or_a_time(value: str) -> None:
    assert substitute("from S#window.time(${X})", {"X": value}) == f"from S#window.time({value})"


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "a b",
        "a;b",
        "a) select",
        "1 + 1",
        "'a'",
        "--",
        "/*",
        "5 sec; delete",
        "a\n",
        "#x",
        "${X}",
        "é",
        "1 sec 2",
        "a.b",
    ],
)
def test_outside_of_strings_any_other_value_is_an_error_that_does_not_show_it(value: str) -> None:
    with pytest.raises(NadiError) as failed:
        substitute("from S#window.time(${X}) select", {"X": value})
    assert failed.value.condition == "VARIABLE_NOT_PLAIN"
    assert failed.value.diagnostic.span.column == 20
    assert failed.value.diagnostic.message == "the value of ${X} is no name, number or time"


def test_a_value_makes_no_comment_with_what_stands_before_it() -> None:
    with pytest.raises(NadiError, match="VARIABLE_NOT_PLAIN"):
        substitute("select a -${X} as b", {"X": "-1"})


def test_a_quoted_name_cannot_be_closed_by_a_value() -> None:
    assert substitute("from `a ${X}`", {"X": "b c"}) == "from `a b c`"
    with pytest.raises(NadiError, match="VARIABLE_NOT_PLAIN"):
        substitute("from `a ${X}`", {"X": "` delete"})


@pytest.mark.parametrize(
    "text", ["-- ${NO}\nx", "/* ${NO} */ x", "define function f[javascript] return int { return `${NO}`; };"]
)
def test_comments_and_function_bodies_are_left_alone(text: str) -> None:
    assert substitute(text, {}) == text
    assert substitute(text, {"NO": "*/ evil"}) == text


def test_the_values_of_connections_stay_out_of_the_text_and_all_others_go_in() -> None:
    text = """@App:name('${N}') @source(type='${T}', url='${U}', @map(type='json', @attributes(a='${P}')))
    define stream S (a int); @store(type='rdbms', password="${W}") define table D (a int);
    @sink(type='log', prefix="x) ${Q}") define stream O (a int);
    from S[a > ${SIZE} and b == '${CITY}'] select '${CITY}' as c insert into O;"""
    values = {name: f"{name.lower()}'s" for name in ("U", "P", "W", "Q", "CITY")} | {
        "N": "app",
        "T": "nats",
        "SIZE": "5",
    }
    kept, connections = settled(text, values)
    assert connections == {"U": "u's", "P": "p's", "W": "w's", "Q": "q's"}
    for name in ("U", "P", "W", "Q"):
        assert f"${{{name}}}" in kept
    assert "city's" in kept
    assert "type='nats'" in kept
    whole = parse(substitute(text, values))
    assert parse(kept, connections=connections).definitions == whole.definitions
    assert substitute(kept, connections).split() == substitute(text, values).split()


def test_a_secret_that_changes_does_not_change_the_text_that_is_kept() -> None:
    text = "@sink(type='http', basic.auth.password='${PASSWORD}') define stream S (a int);"
    assert settled(text, {"PASSWORD": "old"})[0] == settled(text, {"PASSWORD": "new"})[0] == text


def test_every_name_without_a_value_is_an_error_wherever_it_stands() -> None:
    for text in ("from ${X}", "@sink(a='${X}')", "select '${X}'"):
        with pytest.raises(NadiError, match="VARIABLE_NOT_SET"):
            settled(text, {"Y": "1"})


@given(st.text("'\"`\\${}()@-/*abX\n ", max_size=60) | st.text(max_size=40))
def test_a_text_without_values_stays_as_it_is(text: str) -> None:
    assert substitute(text.replace("${", "$"), {}) == text.replace("${", "$")


def test_hostile_texts_take_no_time() -> None:
    for piece in ("{", "${X}", '"""', "'", "`", "/*", "@source(", "@ ", "(", '"', "${", '"""\\'):
        settled("'${X}'" + piece * 100_000, {"X": "1"})
