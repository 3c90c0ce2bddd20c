"""Every condition that nadi can meet: one catalogue, Siddhi's exception names, places in the text.

Start with `catalogue.error`; the conditions are in `conditions.toml`.
"""

from nadi.errors.catalogue import Condition, conditions, diagnostic, error, placed, raised
from nadi.errors.diagnostics import NOWHERE, Diagnostic, Span, did_you_mean, nearest
from nadi.errors.exceptions import NadiError

__all__ = [
    "NOWHERE",
    "Condition",
    "Diagnostic",
    "NadiError",
    "Span",
    "conditions",
    "diagnostic",
    "did_you_mean",
    "error",
    "nearest",
    "placed",
    "raised",
]
