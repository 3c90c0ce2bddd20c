"""What messages do not show: credentials in URLs, and the values of options that are secrets.

It is done where messages are made, so that logs, panels, circuits, error stores and REST answers have none, whoever wrote the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection

MASKED = "***"

_SECRET = re.compile(
    r"passw|passphrase|certpass|secret|token|credential|authorization|(?:api|access|private|account|shared)[._-]?key|\Aheaders\Z",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(?<=://)[^/?#\s'\"<>]*(?=@)")
_SECRET_WORD = r"(?:passw(?:or)?d|passphrase|pwd|secret|token|api[._-]?key|access[._-]?key|sig|signature)"
_IN_QUERY = re.compile(rf"(?<=[?&;])({_SECRET_WORD}=)[^&;\s'\"]+", re.IGNORECASE)
_IN_OPTION = re.compile(
    rf"(\b[\w.\-]{{0,40}}{_SECRET_WORD}[\w.\-]{{0,40}}\s{{0,9}}=\s{{0,9}})('[^']*'|\"\"\"(?:(?!\"\"\").)*\"\"\"|\"[^\"]*\")",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether the value of an option or setting of this name is not to be shown.

    >>> is_secret("basic.auth.password"), is_secret("client.secret"), is_secret("publisher.url"), is_secret("partition.key")
    (True, True, False, False)
    """
    return _SECRET.search(name) is not None


def redacted(text: str, secrets: Collection[str] = ()) -> str:
    """A message without the credentials of the URLs in it, and without what is known to be secret. Takes time that grows with the length of the text.

    >>> redacted("nats://me:pa@ss@host:4222 and http://host/?token=abc&n=1 hush", {"hush"})
    'nats://***@host:4222 and http://host/?token=***&n=1 ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASKED)
    if "://" in text:
        text = _IN_URL.sub(MASKED, text)
    return _IN_QUERY.sub(rf"\g<1>{MASKED}", text) if "=" in text else text


def covered(line: str) -> str:
    """A line of an app's text, as long as it was, without the secrets that its author wrote into it.

    >>> covered("@sink(password = 'abc', url = 'http://a:b@host')")
    "@sink(password = '***', url = 'http://***@host')"
    """
    line = _IN_URL.sub(lambda found: "*" * len(found.group()), line)
    line = _IN_QUERY.sub(lambda found: found[1] + "*" * (len(found.group()) - len(found[1])), line)
    return _IN_OPTION.sub(lambda found: f"{found[1]}{found[2][0]}{'*' * (len(found[2]) - 2)}{found[2][-1]}", line)
