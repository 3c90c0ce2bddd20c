"""The catalogue of conditions (`conditions.toml` beside this file) and the one way to raise one of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from string import Formatter

from nadi.errors import exceptions
from nadi.errors.diagnostics import NOWHERE, Diagnostic, Span
from nadi.errors.redaction import MASKED, is_secret, redacted


@dataclass(frozen=True, slots=True)
class Condition:
    """An entry: the name, the sentence with {parameters}, the exception class, what to do next."""

    name: str
    message: str
    siddhi_class: str
    next_step: str

    @property
    def parameters(self) -> frozenset[str]:
        """The names that must be given, no more and no fewer."""
        fields = Formatter().parse(self.message + self.next_step)
        return frozenset(name for _text, name, _spec, _conversion in fields if name)


@cache
def conditions() -> dict[str, Condition]:
    """All conditions by name."""
    text = resources.files("nadi.errors").joinpath("conditions.toml").read_text(encoding="utf-8")
    return {
        name: Condition(name, entry["message"], entry["class"], entry.get("next", ""))
        for name, entry in tomllib.loads(text).items()
    }


def diagnostic(
    condition: str, /, span: Span = NOWHERE, source: str = "", file: str = "", **parameters: object
) -> Diagnostic:
    """A filled-in condition that is not raised (yet).

    Raises:
        ValueError: the condition is unknown, or parameters are missing or too many.
    """
    entry = conditions().get(condition)
    if entry is None:
        raise ValueError(f"no condition {condition} in conditions.toml")
    if entry.parameters != parameters.keys():
        raise ValueError(f"{condition} takes {sorted(entry.parameters)}, not {sorted(parameters)}")
    if "value" in parameters and is_secret(str(parameters.get("name", ""))):
        parameters = {**parameters, "value": MASKED}
    message, next_step = (redacted(template.format(**parameters)) for template in (entry.message, entry.next_step))
    return Diagnostic(condition, entry.siddhi_class, message, next_step, span, source, file)


def raised(found: Diagnostic, /, **parameters: object) -> exceptions.NadiError:
    """The exception for a diagnostic, of the class that the catalogue names."""
    kind: type[exceptions.NadiError] = getattr(exceptions, found.siddhi_class)
    return kind(found, parameters)


def error(
    condition: str, /, span: Span = NOWHERE, source: str = "", file: str = "", **parameters: object
) -> exceptions.NadiError:
    """The exception for a condition: `raise error("STREAM_NOT_DEFINED", name="S", hint="…")`."""
    return raised(diagnostic(condition, span, source, file, **parameters), **parameters)


def placed(found: exceptions.NadiError, span: Span = NOWHERE, source: str = "", file: str = "") -> exceptions.NadiError:
    """The same error with a place (`NOWHERE`: the one that it has), and with the text and the file of it where it has none yet.

    >>> told = placed(error("OPTION_MISSING", where="@sink of S (http)", name="publisher.url"), file="a.siddhi")
    >>> print(told)
    a.siddhi: [OPTION_MISSING] @sink of S (http) needs the option 'publisher.url'
    """
    d = found.diagnostic
    where = d.span if span == NOWHERE else span
    told = replace(d, span=where, source=d.source or ("" if where == NOWHERE else source), file=d.file or file)
    return found if told == d else raised(told, **found.parameters)
