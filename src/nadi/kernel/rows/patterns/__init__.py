"""Patterns and sequences (language text §9, §10): one machine, whose elements differ in a few rules."""

from nadi.kernel.rows.patterns.runtime import StateRuntime

__all__ = ["StateRuntime"]
