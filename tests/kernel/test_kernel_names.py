"""What an app calls its functions and tables is never read as Python, although expressions become Python."""

from __future__ import annotations

import pytest

from nadi.runtime import Runtime


def rows(text: str) -> list[tuple[object, ...]]:
    app = Runtime(text)
    got: list[tuple[object, ...]] = []
    app.on_stream("O", lambda events: got.extend(e.row for e in events))
    app.start()
    app.send("S", [(None, (1,))])
    assert app.failures == ()
    app.shutdown()
    return got


SCRIPTS = ["v1", "s0", "problem", "from", "class", "lambda", "None", "True", "async", "`a b`", "`1x`", "`été`"]


@pytest.mark.parametrize("name", [*SCRIPTS, '`__import__("os").getpid() if 1 else f`'])
def test_a_script_function_may_have_any_name(name: str) -> None:
    script = f"define function {name}[javascript] return long {{ return 7; }};"
    assert rows(f"{script} define stream S (a int); from S select {name}(a) as x insert into O;") == [(7,)]


@pytest.mark.parametrize("name", ["`a b`", "`from`", "`1-2`", '`x(print("!"))`'])
@pytest.mark.parametrize(
    "condition", ["{t}.a == a in {t}", "{t}.a < a + 1 in {t}", "({t}.a == a + 0 and {t}.a > 0) in {t}"]
)
def test_a_table_that_is_searched_may_have_any_name(name: str, condition: str) -> None:
    text = f"define stream S (a int); define table {name} (a int); from S insert into {name};"
    assert rows(f"{text} from S[{condition.format(t=name)}] insert into O;") == [(1,)]
