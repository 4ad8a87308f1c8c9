"""Events as JSON. A value is text if it is UTF-8, otherwise base64 under `NAME_base64`."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from veristream.errors import ModelError
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.protocol.records import Headers, Record

_HINT = 'for example {"key": "anna", "value": "two pears"}'


def to_json_value(name: str, value: bytes | None) -> dict[str, str | None]:
    """Returns the JSON field of a value: text, or base64 under another name."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode("ascii")}


def show_event(event: Consumed) -> dict[str, Any]:
    """Returns the fields of an event's JSON object."""
    return {
        "topic": event.topic,
        "partition": event.partition,
        "index": event.index,
        **to_json_value("key", event.key),
        **to_json_value("value", event.value),
        "headers": [{"name": name, **to_json_value("value", value)} for name, value in event.headers],
        "timestamp_ms": event.timestamp_ms,
        "validated": event.validated,
        "producer": event.producer,
        "time_ms": event.time_ms,
    }


def read_event(line: bytes, topic: str, where: str) -> Record:
    """Parses the event on a JSON line; raises ModelError that names the line."""
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("it is not an object")
        known = {"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp_ms"}
        unknown = sorted(fields.keys() - known)
        if unknown:
            raise ValueError(f"unknown fields {', '.join(unknown)}; allowed are {', '.join(sorted(known))}")
        return Record(
            topic=topic,
            value=_read_value(fields, "value"),
            key=_read_value(fields, "key"),
            headers=_read_headers(fields.get("headers")),
            timestamp_ms=_read_number(fields, "timestamp_ms"),
            partition=_read_number(fields, "partition"),
        )
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{where} is not an event: {error}", hint=_HINT) from error


def _read_value(fields: dict[str, Any], name: str) -> bytes | None:
    value, encoded = fields.get(name), fields.get(f"{name}_base64")
    if encoded is not None and value is None and isinstance(encoded, str):
        return b64decode(encoded, validate=True)
    if encoded is not None or not isinstance(value, str | None):
        raise ValueError(f"its {name} is not text")
    return None if value is None else value.encode("utf-8")


def _read_number(fields: dict[str, Any], name: str) -> int | None:
    number = fields.get(name)
    if number is not None and (type(number) is not int or number < 0):
        raise ValueError(f"its {name} is not a whole number")
    return number


def _read_headers(given: Any) -> Headers:
    """Parses headers given as an object, or as a list of objects if a name occurs twice."""
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ValueError("its headers are neither an object nor a list of objects")
    names = [each.get("name") for each in given]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a header has no name")
    return tuple((str(name), _read_value(each, "value")) for name, each in zip(names, given, strict=True))
