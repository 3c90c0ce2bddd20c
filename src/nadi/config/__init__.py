"""What a node is configured with."""

from nadi.config.places import DataSource, ErrorStoring, Persistence
from nadi.config.settings import Settings, read_settings, settings_table

__all__ = [
    "DataSource",
    "ErrorStoring",
    "Persistence",
    "Settings",
    "read_settings",
    "settings_table",
]
