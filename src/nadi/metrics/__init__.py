"""Meters: what is counted and told of running apps."""

from nadi.metrics.progress import AppProgress, Counts, Progress

__all__ = ["AppProgress", "Counts", "Progress"]
