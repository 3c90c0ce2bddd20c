"""Meters: what is counted and told of running apps.

Start with `registry`; `progress` is what the pipeline tells.
"""

from nadi.metrics.progress import AppProgress, Circuit, Counts, Progress, Said

__all__ = ["AppProgress", "Circuit", "Counts", "Progress", "Said"]
