"""Who may speak to Spark's driver and executors: processes that know a secret. A stranger could run code in them.

| master | the secret |
|---|---|
| `local[…]` | Spark makes one, which stays in its Java |
| `local-cluster[…]` | nadi makes one, which executors get in their environment |
| `yarn`, `k8s://…` | Spark makes one and hands it on as the cluster does that |
| `spark://…` and what else there may be | that of the cluster, which its master and workers have, too: `spark.authenticate.secret.file` |

`spark.authenticate=false` leaves the connections open, for those who mean it.
"""

from __future__ import annotations

import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from nadi.errors import error

AUTHENTICATE = "spark.authenticate"
ENCRYPT = "spark.network.crypto.enabled"
SECRET = "spark.authenticate.secret"
FILE = "spark.authenticate.secret.file"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SHORTEST = 16  # characters
_LOCAL = re.compile(r"local(\[[^]]*\])?")
_MAKES_ONE = ("yarn", "k8s://")
_HIDDEN = re.compile(r"(?i)secret|password|token|access[.]?key|credential")


def authenticated(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """What is to be set for a master besides the settings `conf` of the user, which stay as they are but for FILE, which Spark takes on Kubernetes only.

    Errors: CLUSTER_WITHOUT_SECRET, INVALID_SETTING for a file that is not there, that others can read, or that has less than a secret.

    >>> authenticated("local[2]", {})
    {'spark.authenticate': 'true', 'spark.network.crypto.enabled': 'true'}
    >>> authenticated("spark://host:7077", {"spark.authenticate": "false"})
    {}
    """
    if conf.get(AUTHENTICATE, "true").strip().lower() == "false":
        return {}
    made = {name: "true" for name in (AUTHENTICATE, ENCRYPT) if name not in conf}
    if _LOCAL.fullmatch(master) or master.startswith(_MAKES_ONE) or conf.get(SECRET):
        return made
    if FILE in conf:
        return {**made, SECRET: _secret_in(Path(conf[FILE]))}
    if master.startswith("local-cluster"):
        return {**made, SECRET: secrets.token_hex(32)}
    raise error("CLUSTER_WITHOUT_SECRET", master=master)


def _secret_in(file: Path) -> str:
    def wrong(wanted: str) -> Exception:
        return error("INVALID_SETTING", name=FILE, value=str(file), wanted=wanted)

    try:
        found, text = file.stat(), file.read_text().strip()
    except (OSError, UnicodeDecodeError) as reason:
        raise wrong(f"a file with the secret of the cluster ({reason})") from reason
    if found.st_mode & _OTHERS:
        raise wrong("a file that only you can read (chmod 600)")
    if len(text) < _SHORTEST:
        raise wrong(f"a file with a secret of {_SHORTEST} characters or more")
    return text


def is_secret(name: str) -> bool:
    """Whether the value of a setting must not stand in a command line, which all users see.

    >>> [is_secret(name) for name in ("spark.authenticate.secret", "spark.hadoop.fs.s3a.secret.key", "spark.driver.memory", "spark.ssl.keyPassword")]
    [True, True, False, True]
    """
    return _HIDDEN.search(name) is not None and name not in (FILE, AUTHENTICATE)
