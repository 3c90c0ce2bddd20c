"""What a node is configured with."""

from nadi.config.persistence import DataSource, Persistence, read_persistence
from nadi.config.settings import Settings, read_settings, settings_table

__all__ = ["DataSource", "Persistence", "Settings", "read_persistence", "read_settings", "settings_table"]
