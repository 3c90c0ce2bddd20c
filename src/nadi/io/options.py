"""Options of @source, @sink and @map: which there are, whether they are well formed, and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nadi.errors import NadiError, Span, did_you_mean, error, nearest


@dataclass(frozen=True, slots=True)
class Option:
    """An option by its lower-case name; a name that ends in `*` stands for all names with that beginning.

    `kind` is "string", "int" or "bool"; `choices` are the values allowed (no case), empty for any.
    """

    name: str
    required: bool = False
    kind: str = "string"
    choices: tuple[str, ...] = ()

    def matches(self, key: str) -> bool:
        return key.startswith(self.name[:-1]) if self.name.endswith("*") else key == self.name


def check_options(where: str, given: Mapping[str, str], known: Sequence[Option], span: Span) -> None:
    """Every option given is known and well formed, and none that is required is missing.

    `where` names the annotation, as in "@source of S (file)". Errors: OPTION_UNKNOWN, OPTION_MISSING, OPTION_INVALID.
    """
    for problem in wrong_options(where, given, known, span):
        raise problem


def wrong_options(where: str, given: Mapping[str, str], known: Sequence[Option], span: Span) -> Iterator[NadiError]:
    """An error for each option that is not as it should be: what `check_options` raises the first of. That a required one is missing is not said of an
    app that has something like it."""
    meant = set()
    for key, value in given.items():
        option = next((o for o in known if o.matches(key)), None)
        if option is None:
            hint = did_you_mean(key, [o.name for o in known])
            meant.add(nearest(key, [o.name for o in known]))
            yield error("OPTION_UNKNOWN", span, where=where, name=key, hint=hint)
        elif wanted := _wanted(option, value):
            yield error("OPTION_INVALID", span, where=where, name=key, value=value, wanted=wanted)
    for option in known:
        if option.required and option.name not in given and option.name not in meant:
            yield error("OPTION_MISSING", span, where=where, name=option.name)


def _wanted(option: Option, value: str) -> str:
    """What an option takes, if that is not what it has; "" where all is well."""
    if option.choices and value.lower() not in {c.lower() for c in option.choices}:
        return "one of " + ", ".join(option.choices)
    if option.kind == "int" and not value.strip().removeprefix("-").isdecimal():
        return "a whole number"
    if option.kind == "bool" and value.strip().lower() not in ("true", "false"):
        return "true or false"
    return ""


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """The value of a checked bool option."""
    value = options.get(name)
    return default if value is None else value.strip().lower() == "true"


def integer(options: Mapping[str, str], name: str, default: int) -> int:
    """The value of a checked int option."""
    value = options.get(name)
    return default if value is None else int(value)
