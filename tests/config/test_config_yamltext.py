"""YAML of strangers: what a few lines can become is bounded, wherever nadi reads YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nadi.config.deployment import read_deployment
from nadi.config.yamltext import read
from nadi.errors import NadiError
from nadi.testing.yamltext import read_yaml

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}], y{i}: 1}}\n" for i in range(1, 30)
)
BOMBS = {
    "aliases of aliases": LAUGHS,
    "merges of merges": MERGES,
    "a list in itself": "a: &a [*a]",
    "a mapping in itself": "a: &a {b: *a}",
    "itself as a key": "&a {? *a : 1}",
    "brackets": "[" * 20_000,
    "brackets that close": "[" * 500 + "]" * 500,
    "braces": "{a: " * 20_000,
    "dashes": "- " * 20_000 + "x",
    "levels": "\n".join(" " * i + f"a{i}:" for i in range(500)),
    "characters": "a: " + "x" * 2_000_000,
}
NO_VALUES = {
    "digits": "a: " + "9" * 5_000,
    "a number to the base of 60": "a: 1" + ":59" * 200_000,
    "a date with many digits": "a: 2001-01-01 10:10:10." + "1" * 200_000,
    "a month that no year has": "a: 2001-13-45",
    "no number": "a: !!int x",
    "no truth": "a: !!bool x",
    "no date": "a: !!timestamp x",
    "no bytes": "a: !!binary \u00e9",
    "a list as a key": "? [a]\n: b",
}
"""YAML that is read, and whose values cannot be made."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_of_yaml(name: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read(BOMBS[name])


@pytest.mark.parametrize("name", NO_VALUES)
def test_a_value_that_cannot_be_made_is_an_error_of_yaml_and_a_named_one_in_a_deployment(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(yaml.YAMLError):
        read(NO_VALUES[name])
    (tmp_path / "deployment.yaml").write_text(NO_VALUES[name])
    with pytest.raises(NadiError, match="INVALID_SETTING") as failed:
        read_deployment(tmp_path / "deployment.yaml")
    assert len(str(failed.value)) < 2_000


def test_a_number_of_many_digits_in_a_test_file_is_a_text() -> None:
    assert read_yaml("a: " + "9" * 5_000).value == {"a": "9" * 5_000}


def test_a_long_text_is_a_text() -> None:
    assert read("a: " + "x" * 100_000 + "\nb: '" + "9" * 5_000 + "'")["b"] == "9" * 5_000


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_in_a_deployment_is_a_named_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(BOMBS[name])
    with pytest.raises(NadiError, match="INVALID_SETTING") as failed:
        read_deployment(tmp_path / "deployment.yaml")
    assert len(str(failed.value)) < 2_000


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_in_a_test_file_is_a_named_error(name: str) -> None:
    with pytest.raises(NadiError, match="TEST_"):
        read_yaml(BOMBS[name])


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system [true]", "!!python/name:os.system", "!x y"])
def test_tags_make_no_objects(tag: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read(f"a: {tag}")


def test_a_long_list_is_an_error_of_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nadi.config.yamltext.MOST_VALUES", 1_000)
    with pytest.raises(yaml.YAMLError, match="more than 1,000 values"):
        read("[" + "1," * 1_000 + "1]")


def test_anchors_aliases_and_merges_of_an_honest_file_are_read() -> None:
    assert read("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": [{"x": 1}] * 2,
    }
    assert read("") is None
