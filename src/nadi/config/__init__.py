"""What a node is configured with: settings, and the deployment.yaml of a worker.

Start with `settings.Settings` for a node, and with `deployment.Deployment` for a worker.
"""

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
