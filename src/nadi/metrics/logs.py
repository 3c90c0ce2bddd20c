"""How the processes of a node log: lines for people, or an object in JSON for each record, with app, group and batch where it is about one.

| field | what |
|---|---|
| `timestamp`, `level`, `logger` | when (UTC, ISO 8601), how serious, which part of nadi or which library |
| `event` | what happened, a sentence |
| `app`, `group`, `batch` | what it is about; a batch has the number of its cut: the one that wrote a line, or the last one that was done before |
| `request`, `user` | the REST request that it belongs to, and who made it |
| `exception` | a stack trace |

Secrets do not get in: what `${sec:…}` stands for, passwords of URLs, values of fields whose names say so.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import structlog

from nadi.errors.readable import readable
from nadi.errors.redaction import MASKED
from nadi.metrics.linerate import LineRate

TEXT, JSON = "text", "json"
VARIABLE = "NADI_LOG"
"""What the other processes of a node know it by: `<format>:<level>`."""

LEVELS = ("debug", "info", "warning", "error")
_QUIET = ("py4j", "httpx", "httpcore", "asyncio", "uvicorn", "botocore", "urllib3", "faker")  # of these only warnings
_NAMED = re.compile(r"passw|secret|token|authorization|cookie", re.IGNORECASE)

Hide = Callable[[str], str]
Event = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Logging:
    """How to log: `format` is TEXT or JSON, `level` one of LEVELS, `file` the place of a file ("": standard error). A file that is moved away is made anew."""

    format: str = TEXT
    level: str = "info"
    file: str = ""


class OneHandler(logging.Handler):
    """What all records of a process go through, but those of libraries that have no logger of their own: `nadi.pipeline.session` keeps these."""

    def __init__(self, inner: logging.Handler, formatter: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner
        self._rate = LineRate()
        inner.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "root":
            return
        is_kept, said = self._rate.admit(record)
        for text in said:
            self._inner.handle(logging.LogRecord("nadi.log", logging.WARNING, "", 0, text, None, None))
        if is_kept:
            self._inner.handle(record)

    def close(self) -> None:
        self._inner.close()
        super().close()


def begin(how: Logging, hide: Hide = str) -> None:
    """Log in this process, and in those that it starts, as `how` says. `hide` takes out of a text what is secret. Errors: OSError, for the file."""
    os.environ[VARIABLE] = f"{how.format}:{how.level}"
    _configure(how, hide)


def follow() -> None:
    """Log to standard error as the process says that has started this one; where it has said nothing, as structlog does by itself."""
    format_, _, level = os.environ.get(VARIABLE, "").partition(":")
    if format_ in (TEXT, JSON) and level in LEVELS:
        _configure(Logging(format_, level), str)


def _configure(how: Logging, hide: Hide) -> None:
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        hidden(hide),
    ]
    in_order = structlog.processors.EventRenamer("event")
    colours = not how.file and sys.stderr.isatty()
    shown: list[Any] = (
        [in_order, structlog.processors.JSONRenderer(default=str, ensure_ascii=False)]
        if how.format == JSON
        else [_on_one_line, structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=30)]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *shared],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shown],
    )
    inner = WatchedFileHandler(how.file, encoding="utf-8") if how.file else logging.StreamHandler(sys.stderr)
    if how.file:
        Path(how.file).chmod(0o600)
    root = logging.getLogger()
    for before in [h for h in root.handlers if isinstance(h, OneHandler)]:
        root.removeHandler(before)
        before.close()
    root.addHandler(OneHandler(inner, formatter))
    root.setLevel(how.level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(how.level.upper())))


def hidden(hide: Hide) -> Callable[[Any, str, Event], Event]:
    """A processor that takes out what is secret.

    >>> hidden(lambda text: text.replace("hush", "***"))(None, "info", {"event": "it is hush", "password": "x", "more": {"a": ["hush"]}})
    {'event': 'it is ***', 'password': '***', 'more': {'a': ['***']}}
    """

    def clean(name: str, value: Any) -> Any:
        if isinstance(value, str):
            return MASKED if value and _NAMED.search(name) else hide(value)
        if isinstance(value, dict):
            return {key: clean(str(key), inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [clean(name, inner) for inner in value]
        return value

    def process(_logger: Any, _method: str, event: Event) -> Event:
        for name, value in event.items():
            if not name.startswith("_"):
                event[name] = clean(name, value)
        return event

    return process


def _on_one_line(_logger: Any, _method: str, event: Event) -> Event:
    """What an app writes into its log must not look like a record of somebody else."""
    if isinstance(event.get("event"), str):
        event["event"] = readable(event["event"])
    return event
