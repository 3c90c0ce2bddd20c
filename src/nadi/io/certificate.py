"""The certificate of a node: one that is configured, or one of its own that the first need makes.

security/certificate.pem, key.pem     made where there is none, and again a month before it ends
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from nadi.errors import error
from nadi.io.tls import Tls

_MAKING = threading.Lock()  # REST listeners and sources ask at the same time


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """The certificate of a node: `configured`, or the one that is made in `folder`, for `name`, when it is first needed."""

    folder: Path
    name: str = "nadi"
    configured: Tls | None = None

    def tls(self) -> Tls:
        """Its files. Errors: CERTIFICATE_UNUSABLE, where they can be neither read nor made."""
        if self.configured is not None:
            return self.configured
        from nadi.io.owncertificate import is_good, make  # only who serves TLS needs it

        made = Tls(self.folder / "certificate.pem", self.folder / "key.pem")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _MAKING:
                if not is_good(made):
                    make(made, self.name)
        except (OSError, ValueError) as reason:
            raise error("CERTIFICATE_UNUSABLE", path=made.certificate, reason=reason) from reason
        return made
