"""Lines of JSON from Kafka's verifiable clients, and their fields, read strictly.

The tools print their logging on the same output, if it is left enabled; lines that begin as a logger's
lines do are left out. Everything else must be an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from veristream.errors import ModelError
from veristream.history.foreign.json import decode, read_lines

LOGGED: Final = re.compile(
    r"\[?\d{4}-\d\d-\d\d[ T]\d|\[\d+\.\d+s\]\[|SLF4J[:(]|log4j:|OpenJDK |Option --|WARNING: "
)
"""How lines of Log4j and of the Java virtual machine begin."""

_NUMBERS_MAX: Final = 2**62
_PARTITIONS_MAX: Final = 2**31
_TIME_MS_MAX: Final = 2**43


@dataclass(frozen=True, slots=True)
class Line:
    """An event that a client printed."""

    path: Path
    number: int
    name: str
    fields: dict[str, Any]

    def error(self, message: str, hint: str = "") -> ModelError:
        """Returns an error that says where the event is."""
        return ModelError(f"{self.path}:{self.number}: {message}", hint=hint)

    def text(self, name: str) -> str:
        """Returns a field that is a string."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self.error(f"`{name}` of {self.name} is {value!r}, not a string")
        return value

    def natural(self, name: str, lowest: int = 0) -> int:
        """Returns a field that is a number, and not too small."""
        return natural(self, self.fields, name, lowest)

    def time_ms(self) -> int:
        """Returns the time of day at which the event was printed."""
        time_ms = self.natural("timestamp")
        if time_ms >= _TIME_MS_MAX:
            raise self.error(f"`timestamp` is {time_ms}, far behind our time")
        return time_ms

    def items(self, name: str) -> list[dict[str, Any]]:
        """Returns a field that is a list of objects."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.error(f"`{name}` of {self.name} is {value!r}, not a list of objects")
        return value


def natural(line: Line, fields: dict[str, Any], name: str, lowest: int = 0) -> int:
    """Returns a number among the fields of a line, or of an object in it."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise line.error(f"`{name}` of {line.name} is {value!r}, not a number from {lowest}")
    if value >= (_PARTITIONS_MAX if name == "partition" else _NUMBERS_MAX):
        raise line.error(f"`{name}` of {line.name} is {value}, which is too large")
    return value


def read_client(path: Path) -> Iterator[Line]:
    """Yields the events of a client, whose times never decrease."""
    any_event = False
    for number, text in read_lines(path):
        if not text.strip() or LOGGED.match(text):
            continue
        if not text.startswith("{"):
            raise ModelError(
                f"{path}:{number}: neither an event nor a line of a log: {text[:60]!r}",
                hint="name the output of kafka-verifiable-producer.sh or kafka-verifiable-consumer.sh",
            )
        value = decode(path, number, text)
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str):
            raise ModelError(
                f"{path}:{number}: the event has no `name`", hint="name the output of one client"
            )
        line = Line(path, number, name, value)
        line.time_ms()
        any_event = True
        yield line
    if not any_event:
        raise ModelError(f"`{path}` contains no event", hint="name the output of a client that has run")


def name_files(paths: Iterable[Path]) -> dict[Path, str]:
    """Returns a name for each file: its stem, with as many folders as it takes to tell it from others."""
    paths = list(paths)
    for depth in range(1, 64):
        names = {path: "/".join((*path.parent.parts, path.stem)[-depth:]) for path in paths}
        if len(set(names.values())) == len(paths):
            return names
    raise ModelError(f"`{paths[0]}` is named twice", hint="name each file once")
