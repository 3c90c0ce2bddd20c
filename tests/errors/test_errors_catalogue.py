"""The catalogue of conditions and the exceptions made from it."""

import pickle
from pathlib import Path

import pytest

import nadi
from nadi.errors import NadiError, Span, conditions, did_you_mean, error, exceptions

SOURCES = Path(nadi.__file__).parent


@pytest.mark.parametrize("name", sorted(conditions()))
def test_every_condition_names_an_exception_class_that_exists(name: str) -> None:
    kind = getattr(exceptions, conditions()[name].siddhi_class)
    assert issubclass(kind, NadiError)


@pytest.mark.parametrize("name", sorted(conditions()))
def test_every_condition_can_be_raised_with_exactly_its_parameters(name: str) -> None:
    entry = conditions()[name]
    parameters = dict.fromkeys(entry.parameters, "«value»")
    assert error(name, **parameters).condition == name
    with pytest.raises(ValueError, match="takes"):
        error(name, **parameters, superfluous=1)


def test_every_condition_is_used_somewhere() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in SOURCES.rglob("*.py"))
    assert [name for name in conditions() if f'"{name}"' not in code] == []


def test_a_missing_parameter_is_an_error_of_the_one_who_raises() -> None:
    with pytest.raises(ValueError, match="STREAM_NOT_DEFINED takes"):
        error("STREAM_NOT_DEFINED", name="S")


def test_an_unknown_condition_is_an_error_of_the_one_who_raises() -> None:
    with pytest.raises(ValueError, match="no condition"):
        error("NO_SUCH_CONDITION")


def test_an_error_shows_the_place_the_line_and_what_to_do_next() -> None:
    text = "define stream S (a int);\nfrom T select a insert into O;"
    span = Span(30, 31, 2, 6, 2, 7)
    raised = error("STREAM_NOT_DEFINED", span, text, "app.siddhi", name="T", hint="did you mean 'S'?")
    assert str(raised) == (
        "app.siddhi:2:6: [STREAM_NOT_DEFINED] 'T' is not defined (did you mean 'S'?)\n"
        "    from T select a insert into O;\n"
        "         ^"
    )
    assert raised.siddhi_class == "SiddhiAppCreationException"


def test_an_error_survives_the_way_to_another_process() -> None:
    sent = error("STREAM_NOT_DEFINED", name="T", hint="known: S")
    came = pickle.loads(pickle.dumps(sent))
    assert (type(came), str(came), came.condition) == (type(sent), str(sent), sent.condition)


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("symbl", ["symbol", "price"], "did you mean 'symbol'?"),
        ("SYMBOL", ["symbol", "price"], "did you mean 'symbol'?"),
        ("xyz", ["symbol", "price"], "known: price, symbol"),
        ("xyz", [], "none is defined"),
        ("string:concat", ["str:concat", "math:ceil"], "did you mean 'str:concat'?"),
        ("sentiment:getRate", ["time:extract"], "known: time:extract"),
    ],
)
def test_the_nearest_known_name_is_offered(name: str, known: list[str], said: str) -> None:
    assert did_you_mean(name, known) == said
