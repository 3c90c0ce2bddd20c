"""Meters: what is counted and told of running apps."""

from nadi.metrics.progress import AppProgress, Circuit, Counts, Progress

__all__ = ["AppProgress", "Circuit", "Counts", "Progress"]
