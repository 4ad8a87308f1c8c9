"""JSON values of a file, either one on each line or all in one array."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from veristream.errors import EnvironmentFailure, ModelError

_HINT: Final = "copy the file again; if it broke off where it was written, no verdict can rest on it"


class JsonReader:
    """Reads one file; yields each value with the line on which it begins."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for line, text in read_lines(self._path):
            stripped = text.lstrip()
            if not stripped.strip():
                continue
            if stripped[0] == "[":
                yield from self._array(line)
                return
            yield line, decode(self._path, line, text)

    def _array(self, first: int) -> Iterator[tuple[int, Any]]:
        text = "\n".join(line for _, line in read_lines(self._path))
        begin = text.index("[")
        if text[:begin].strip():
            raise ModelError(f"{self._path}:{first}: an array after other values", hint=_HINT)
        place, line, counted = _skip(text, begin + 1), first, begin
        if text[place : place + 1] == "]":
            self._end(text, place + 1)
            return
        while True:
            line += text.count("\n", counted, place)
            counted = place
            try:
                value, place = _DECODER.raw_decode(text, place)
            except (ValueError, RecursionError) as error:
                raise self._error(text, error, place) from error
            yield line, value
            place = _skip(text, place)
            token = text[place : place + 1]
            if token == "]":
                self._end(text, place + 1)
                return
            if token != ",":
                raise self._error(text, ValueError("expected `,` or `]`"), place)
            place = _skip(text, place + 1)

    def _end(self, text: str, place: int) -> None:
        place = _skip(text, place)
        if place < len(text):
            raise self._error(text, ValueError("there is more after the end of the history"), place)

    def _error(self, text: str, error: Exception, place: int) -> ModelError:
        at = error.pos if isinstance(error, json.JSONDecodeError) else place
        message = error.msg if isinstance(error, json.JSONDecodeError) else _told(error)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return ModelError(f"{self._path}:{line}:{column}: {message}", hint=_HINT)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields each line of a text with its number; what is not UTF-8 is an error."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for line in file:
                number += 1
                yield number, line.removesuffix("\n")
    except UnicodeDecodeError as error:
        message = f"{path}:{number + 1}: not UTF-8 text here or soon after: {error.reason}"
        raise ModelError(message, hint="name a text file") from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot read `{path}`: {error.strerror}") from error


def decode(path: Path, line: int, text: str) -> Any:
    """Returns the value of a line."""
    try:
        value, end = _DECODER.raw_decode(text, _skip(text, 0))
        if _skip(text, end) < len(text):
            raise json.JSONDecodeError("more after the value", text, end)
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}:{line}:{error.pos + 1}: not JSON: {error.msg}", hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}:{line}: {_told(error)}", hint=_HINT) from error
    return value


def _told(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
