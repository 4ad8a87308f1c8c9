"""The log of a party: JSON lines in files of bounded number and size.

Each line has `time` (UTC), `level`, `party`, `logger`, `message`, and `error` if there is a traceback. Keys
and payloads are never logged: a key's `repr` shows only its public half.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from veristream.kabis.process.settings import LogSettings

FILE = "party.log"
MESSAGE_CHARACTERS_MAX = 10_000


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, without its end."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "party": self._party,
            "logger": record.name,
            "message": record.getMessage()[:MESSAGE_CHARACTERS_MAX],
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-MESSAGE_CHARACTERS_MAX:]
        return json.dumps(line, ensure_ascii=False)


class PrivateFile(RotatingFileHandler):
    """A rotated file that only its owner may read; a full disk loses lines, not the party."""

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Drops a line that cannot be written."""


def log_to_file(folder: Path, party: str, settings: LogSettings) -> logging.Handler:
    """Sends all log records of this process to the party's log, and returns the handler."""
    handler = PrivateFile(
        folder / FILE,
        maxBytes=settings.bytes_max,
        backupCount=settings.files_max - 1,
        encoding="utf-8",
        delay=True,
    )
    handler.setFormatter(JsonLines(party))
    root = logging.getLogger()
    root.setLevel(settings.level.upper())
    root.addHandler(handler)
    return handler
