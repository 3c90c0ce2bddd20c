"""What the models of a deployment.yaml have in common: unknown keys are kept and become notices, and so do keys that have no effect here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nadi.errors import NadiError, error, nearest, redaction

_UNUSED, _SHIPPED = "unused", "shipped"


class Section(BaseModel):
    """A section: keys that it does not know are kept, and become notices."""

    # `id: 5` is a text as well as `id: "5"`: who writes YAML does not think of it
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)


def unused(name: str, why: str, *shipped: str | int | bool) -> Any:
    """A key of the reference that has no effect here. It is a notice, unless it has one of the values that are shipped: they ask for nothing else."""
    return Field(default=None, alias=name, json_schema_extra={_UNUSED: why, _SHIPPED: list(shipped)}, exclude=True)


def notices_of(value: object, path: str, settled: Callable[[object], bool]) -> Iterator[str]:
    """What is written in a section, and in those within it, and has no effect; nothing of those that are `settled`: all their keys are looked at elsewhere."""
    if settled(value):
        return
    if isinstance(value, Section):
        names = {name: str(f.alias or name) for name, f in type(value).model_fields.items()}
        for extra in value.model_extra or {}:
            yield unknown(f"{path}.{extra}", extra, list(names.values()))
        for name, written in names.items():
            yield from _unused(value, name, f"{path}.{written}")
            yield from notices_of(getattr(value, name), f"{path}.{written}", settled)
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from notices_of(inner, f"{path}[{i}]", settled)


def _unused(section: Section, name: str, path: str) -> Iterator[str]:
    extra = type(section).model_fields[name].json_schema_extra
    value = getattr(section, name)
    if isinstance(extra, dict) and _UNUSED in extra and value is not None:
        shipped = extra[_SHIPPED]
        if not shipped or (isinstance(shipped, list) and value not in shipped):
            yield f"'{path}' has no effect: {extra[_UNUSED]}"


def unknown(path: str, name: str, known: list[str]) -> str:
    """The notice of a key that nothing reads."""
    near = nearest(name, known)
    return f"'{path}' has no effect: nothing reads it" + (f"; did you mean '{near}'?" if near else "")


def invalid(problem: ValidationError) -> NadiError:
    """The first of what pydantic found, as a condition."""
    first = problem.errors(include_url=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
    value = first["input"]
    shown = "missing" if first["type"] == "missing" else "…" if is_secret(path) else value
    return error("INVALID_SETTING", name=path, value=shown, wanted=_wanted(first))


def _wanted(found: Mapping[str, Any]) -> str:
    """What a value should have been, after `wanted is`."""
    context = found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_type" | "int_from_float":
            return "a whole number"
        case "greater_than_equal":
            return f"a number of {context['ge']} or more"
        case "less_than_equal":
            return f"a number of {context['le']} or less"
        case "bool_parsing" | "bool_type":
            return "true or false"
        case "literal_error":
            return f"one of {context['expected']}"
        case "string_type":
            return "a text"
        case "tuple_type" | "list_type":
            return "a list"
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            return "keys with values"
        case "missing":
            return "a value: it has no default"
        case "string_too_short":
            return "a text that is not empty"
        case "value_error":
            return str(context["error"])
    return str(found["msg"])


def is_secret(path: str) -> bool:
    """Whether the value at a path is not to be shown."""
    last = path.rpartition(".")[2]
    return redaction.is_secret(last) and not last.lower().endswith("url")
