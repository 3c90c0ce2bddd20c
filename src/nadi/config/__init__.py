"""What a node is configured with."""

from nadi.config.persistence import DataSource, ErrorStoring, Persistence, read_error_storing, read_persistence
from nadi.config.settings import Settings, read_settings, settings_table

__all__ = [
    "DataSource",
    "ErrorStoring",
    "Persistence",
    "Settings",
    "read_error_storing",
    "read_persistence",
    "read_settings",
    "settings_table",
]
