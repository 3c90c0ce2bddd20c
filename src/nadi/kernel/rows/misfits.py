"""What Python could not work with, as a condition and in words of the language: a reason is for those who write apps."""

from __future__ import annotations

import re
from types import TracebackType

from nadi.errors import NadiError, error
from nadi.functions.arithmetic import WrongClass
from nadi.functions.valuewords import KINDS

MISFITS = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError)
"""What Python raises where a value is none that an operation takes."""
_CLASS = re.compile(rf"\b({'|'.join(KINDS)})\b")
_OWN = "nadi."


def cast_failed(where: str, problem: Exception) -> Exception:
    """Java's ClassCastException for a value that Python could not work with; the problem itself where it is one of somebody else's code."""
    return _cast(where, problem) or problem


def named(problem: Exception, where: str = "a query") -> NadiError:
    """Any exception as a condition. What somebody else's code raises (a function, store or callback of a package) keeps its own words.

    >>> try:
    ...     sorted([{}, 1.5])
    ... except TypeError as problem:
    ...     print(named(problem))
    [CLASS_CAST] a value is not of the type that a query needs: a number and a map cannot be compared
    """
    if isinstance(problem, NadiError):
        return problem
    return _cast(where, problem) or error("QUERY_FAILED", reason=f"{type(problem).__name__}: {problem}")


def _cast(where: str, problem: Exception) -> NadiError | None:
    """CLASS_CAST for what a value brought about; None for what somebody else's code raises."""
    if isinstance(problem, TypeError) or (isinstance(problem, MISFITS) and _is_own(problem.__traceback__)):
        return error("CLASS_CAST", where=where, reason=_reason(problem))
    return None


def _is_own(trace: TracebackType | None) -> bool:
    """Whether code of nadi, or what it has compiled of an expression, met the problem."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    return code.co_filename.startswith("<expression") or str(trace.tb_frame.f_globals.get("__name__")).startswith(_OWN)


def _reason(problem: Exception) -> str:
    if isinstance(problem, WrongClass):
        return str(problem)
    if isinstance(problem, UnicodeError):
        return "a text has a half of a character"
    text = str(problem)
    kinds = list(dict.fromkeys(KINDS[name] for name in _CLASS.findall(text)))
    if "between instances" in text:
        return f"{' and '.join(kinds)} cannot be compared" if len(kinds) > 1 else "values that have no order came"
    if "unhashable" in text:
        return f"{kinds[0] if kinds else 'such a value'} cannot be a key"
    if "NaN" in text or "infinity" in text:
        return "a value that is no number, or an infinite one, is no whole number"
    found = [kind for kind in kinds if kind not in ("a number", "a whole number")] or kinds
    return f"{' and '.join(found)} came" if found else "a value came that it cannot work with"
