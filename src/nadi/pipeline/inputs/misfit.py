"""What a record of the control log asks for, and the app as it is now cannot take."""

from __future__ import annotations


class Misfit(Exception):
    """Why something cannot be sent into the app as it is now."""
