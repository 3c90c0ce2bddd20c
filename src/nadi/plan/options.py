"""Options of @source, @sink and @map: which there are, whether they are well formed, and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nadi.errors import NadiError, Span, did_you_mean, error, nearest

LARGEST = 2**31 - 1  # what Siddhi's options of this type take
HOURS = 1_000_000  # which in ns are still a number of 64 bits


@dataclass(frozen=True, slots=True)
class Option:
    """An option by its lower-case name; a name that ends in `*` stands for all names with that beginning.

    `kind` is "string", "int" or "bool"; `choices` are the values allowed (no case), empty for any; `least` and `most` are the smallest and the largest
    number allowed. `doc` says what it is for, and its default: the page on sources, sinks and mappers is made from it, so links in it are that page's.
    `default` is what `nadi explain` shows where neither it nor the option `other`, which means the same, is given ("": nothing); `{app}` and `{stream}` in it
    stand for their names. `secret`: nobody is shown its value.
    """

    name: str
    required: bool = False
    kind: str = "string"
    choices: tuple[str, ...] = ()
    least: int = -LARGEST
    most: int = LARGEST
    doc: str = ""
    default: str = ""
    other: str = ""
    secret: bool = False

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


def one_of(where: str, options: Mapping[str, str], names: Sequence[str], span: Span) -> tuple[str, str]:
    """The one of these options that is there, and its value. Errors: OPTION_MISSING, OPTION_INVALID where there are several."""
    given = [name for name in names if options.get(name)]
    if not given:
        raise error("OPTION_MISSING", span, where=where, name="' or '".join(names))
    if len(given) > 1:
        value, wanted = options[given[1]], f"nothing where '{given[0]}' is given: it is the one or the other"
        raise error("OPTION_INVALID", span, where=where, name=given[1], value=value, wanted=wanted)
    return given[0], options[given[0]]


def described(options: Sequence[Option], docs: Mapping[str, str]) -> tuple[Option, ...]:
    """Options that two types have in common, some of which are for something else in one of them.

    >>> [o.doc for o in described((Option("url", doc="the broker"), Option("topic", doc="what to read")), {"topic": "where to"})]
    ['the broker', 'where to']
    """
    assert set(docs) <= {o.name for o in options}
    return tuple(replace(o, doc=docs.get(o.name, o.doc)) for o in options)


def _wanted(option: Option, value: str) -> str:
    """What an option takes, if that is not what it has; "" where all is well."""
    if "\0" in value:
        return "a text without a null character"
    if option.choices and value.lower() not in {c.lower() for c in option.choices}:
        return "one of " + ", ".join(option.choices)
    if option.kind == "int" and not value.strip().removeprefix("-").isdecimal():
        return "a whole number"
    if option.kind == "int" and not option.least <= int(value) <= option.most:
        return f"a whole number from {option.least} to {option.most}"
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
