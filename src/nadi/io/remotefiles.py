"""What `pyarrow.fs` reaches by a URL: HDFS, object stores of the kinds of S3, Google and Azure; and such a URL without its secrets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nadi.errors import error


def is_remote(place: str) -> bool:
    """Whether a place is anything but a folder of this machine.

    >>> is_remote("s3://bucket/log"), is_remote("file:///srv/log"), is_remote("/srv/log")
    (True, False, False)
    """
    scheme, found, _ = place.partition("://")
    return bool(found) and scheme != "file"


def system_at(url: str, setting: str = "nadi.state.url") -> tuple[Any, str]:
    """The `pyarrow.fs.FileSystem` of a URL, which a setting says, and the path in it. Errors: INVALID_SETTING, without what may be secret."""
    from pyarrow import fs  # loads the clients of all clouds, which few need

    try:
        system, path = fs.FileSystem.from_uri(_quick(url))
    except (pa.ArrowException, OSError, ValueError) as reason:
        told = str(reason)
        for secret in _secrets(url):
            told = told.replace(secret, "…")
        wanted = f"a URL of pyarrow.fs: {told}"
        # not `from reason`: a stack trace would show the whole URL
        raise error("INVALID_SETTING", name=setting, value=shown(url), wanted=wanted) from None
    return system, path


_AT_ONCE = "allow_delayed_open"


def _quick(url: str) -> str:
    """A URL by which a small object is put into S3 in one request instead of three.

    >>> _quick("s3://bucket/a"), _quick("s3://bucket/a?region=eu"), _quick("hdfs://host/a")
    ('s3://bucket/a?allow_delayed_open=true', 's3://bucket/a?region=eu&allow_delayed_open=true', 'hdfs://host/a')
    """
    if not url.startswith("s3://") or _AT_ONCE in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}{_AT_ONCE}=true"


def shown(url: str) -> str:
    """A URL without what may be secret: the user's part and the parameters.

    >>> shown("s3://key:secret@bucket/a?endpoint_override=h:1")
    's3://bucket/a'
    """
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def inside(place: str, *names: str) -> str:
    """A place in a folder or under a URL, whose parameters stay at its end.

    >>> inside("s3://bucket/nadi/?region=eu-west-1", "A", "log")
    's3://bucket/nadi/A/log?region=eu-west-1'
    >>> inside("/srv/nadi", "A", "log")
    '/srv/nadi/A/log'
    >>> inside("file:///n/state?replica=/n/sync", "A")
    'file:///n/state/A?replica=/n/sync'
    """
    path, mark, parameters = place.partition("?") if "://" in place else (place, "", "")
    return "/".join((path.rstrip("/"), *names)) + mark + parameters


def _secrets(url: str) -> list[str]:
    """What a message must not have of a URL, the longest first: all of it, the user's part, the parameters and their values."""
    rest, _, parameters = url.partition("://")[2].partition("?")  # also in the longer form that `_quick` gives
    user = rest.partition("/")[0].rpartition("@")[0]
    values = [pair.partition("=")[2] for pair in parameters.split("&")]
    return sorted(
        {part for part in (_quick(url), url, user, *user.split(":"), parameters, *values) if part},
        key=len,
        reverse=True,
    )
