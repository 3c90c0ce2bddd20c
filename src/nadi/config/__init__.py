"""What a node is configured with."""

from nadi.config.settings import Settings, read_settings, settings_table

__all__ = ["Settings", "read_settings", "settings_table"]
