"""The folder that a worker lives in.

deployment/siddhi-files/    a file per app; those who may write here deploy apps
files/                      what connectors of apps reach, where the operator names no other folders
security/                   certificate, key, users, secrets: 0700
state/                      what the apps need to go on: events, state, revisions: 0700
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nadi.config.deployment import Deployment
from nadi.config.ownership import OWN_FOLDER, make_private
from nadi.errors import error
from nadi.io.reach import OWN_FOLDER_OF_APPS, files_of


@dataclass(frozen=True, slots=True)
class Home:
    """See the module's text. `deployment` may be elsewhere, by `wso2.artifact.deployment.repositoryLocation`."""

    folder: Path
    deployment: Path

    @property
    def apps(self) -> Path:
        """The folder of the apps' files."""
        return self.deployment / "siddhi-files"

    @property
    def security(self) -> Path:
        """What proves who this node and its users are."""
        return self.folder / "security"

    @property
    def addresses(self) -> Path:
        """Which app listens where (`nadi.server.claims`)."""
        return self.folder / "addresses.json"

    @property
    def owners(self) -> Path:
        """Which user has deployed which app (`nadi.server.quota`)."""
        return self.folder / "owners.json"

    @property
    def state(self) -> Path:
        """The state folder of the node."""
        return self.folder / "state"

    def closed(self, deployment: Deployment) -> tuple[Path, ...]:
        """What no folder that apps may reach opens to them: state, keys and users, texts of apps, the log, and databases of the node that are files."""
        sections = deployment.sections
        databases = [file for entry in sections.datasources.entries for file in files_of(entry.source.jdbc_url)]
        named = (sections.own.tls.key, sections.own.log.file, *databases)
        return (self.state, self.security, self.deployment, *(self.folder / file for file in named if file))

    def make(self) -> None:
        """Make the folders that are not there. Errors: FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE."""
        try:
            self.folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        except OSError as reason:
            raise error("FOLDER_NOT_MADE", folder=self.folder, reason=reason.strerror) from reason
        for folder in (self.security, self.state):
            make_private(folder)
        make_folder(self.apps)
        make_folder(self.folder / OWN_FOLDER_OF_APPS)


def open_home(folder: Path, repository: str = "") -> Home:
    """The home in a folder; `repository` is where the folder of apps is, if not in it."""
    folder = folder.resolve()
    return Home(folder, folder / (repository or "deployment"))


def make_folder(folder: Path) -> None:
    """Make a folder where there is none. Errors: FOLDER_NOT_MADE."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise error("FOLDER_NOT_MADE", folder=folder, reason=reason.strerror) from reason
