"""Converts frozen dataclasses to JSON and back, by their declared field types.

A field may be an int, float, bool or str, another dataclass, a tuple, an optional value, or a union of
dataclasses. Only a union needs a tag to tell its alternatives apart: the name of the class, under "type".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TAG = "type"

Message = TypeVar("Message", bound="DataclassInstance")


class MessageError(ValueError):
    """The JSON does not encode the expected dataclass."""


def encode(message: DataclassInstance) -> bytes:
    """Returns the dataclass as JSON."""
    return json.dumps(_to_json(type(message), message)).encode()


def decode(expected: type[Message], payload: bytes | str) -> Message:
    """Returns the dataclass that the JSON encodes; raises MessageError if it encodes anything else."""
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise MessageError(f"{expected.__name__}: not JSON: {error}") from error
    found = _from_json(expected, value, expected.__name__)
    assert isinstance(found, expected)
    return found


@cache
def _hints(kind: type[DataclassInstance]) -> Mapping[str, Any]:
    """The types of the fields, in their order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _to_json(declared: Any, value: Any) -> Any:
    if is_dataclass(declared):
        assert isinstance(declared, type)
        return {name: _to_json(hint, getattr(value, name)) for name, hint in _hints(declared).items()}
    if get_origin(declared) is tuple:
        return [_to_json(hint, one) for hint, one in zip(_item_types(declared, value), value, strict=True)]
    if _is_union(declared) and value is not None:
        alternatives = _alternatives(declared)
        if len(alternatives) == 1:
            return _to_json(alternatives[0], value)
        assert type(value) in alternatives, f"{declared} has no alternative {type(value).__name__}"
        return {TAG: type(value).__name__, **_to_json(type(value), value)}
    return value


def _from_json(declared: Any, value: Any, where: str) -> Any:
    if is_dataclass(declared):
        assert isinstance(declared, type)
        return _read_fields(declared, value, where)
    if get_origin(declared) is tuple:
        _require(isinstance(value, list), where, "a list", value)
        hints = _item_types(declared, value)
        _require(len(hints) == len(value), where, f"{len(hints)} items", value)
        pairs = zip(hints, value, strict=True)
        return tuple(_from_json(hint, one, f"{where}[{i}]") for i, (hint, one) in enumerate(pairs))
    if _is_union(declared):
        return _read_alternative(declared, value, where)
    _require(type(value) is declared, where, declared.__name__, value)
    return value


def _read_fields(declared: type[DataclassInstance], value: Any, where: str) -> DataclassInstance:
    _require(isinstance(value, dict), where, "an object", value)
    hints = _hints(declared)
    if missing := hints.keys() - value.keys():
        raise MessageError(f"{where}: missing field {', '.join(sorted(missing))}")
    if unknown := value.keys() - hints.keys():
        raise MessageError(f"{where}: unknown field {', '.join(sorted(unknown))}")
    found = {name: _from_json(hint, value[name], f"{where}.{name}") for name, hint in hints.items()}
    return declared(**found)


def _read_alternative(declared: Any, value: Any, where: str) -> Any:
    alternatives = _alternatives(declared)
    if value is None and NoneType in get_args(declared):
        return None
    if len(alternatives) == 1:
        return _from_json(alternatives[0], value, where)
    _require(isinstance(value, dict) and TAG in value, where, f'an object with "{TAG}"', value)
    for one in alternatives:
        if one.__name__ == value[TAG]:
            return _read_fields(one, {name: value[name] for name in value if name != TAG}, where)
    raise MessageError(f"{where}: unknown type {value[TAG]!r}")


def _is_union(declared: Any) -> bool:
    return get_origin(declared) in (Union, UnionType)


def _alternatives(declared: Any) -> list[Any]:
    """The types in a union, without None."""
    return [one for one in get_args(declared) if one is not NoneType]


def _item_types(declared: Any, value: Any) -> tuple[Any, ...]:
    """The type of each item of a tuple; `tuple[X, ...]` has as many as the value."""
    arguments = get_args(declared)
    return (arguments[0],) * len(value) if arguments[-1] is Ellipsis else arguments


def _require(holds: bool, where: str, expected: str, value: Any) -> None:
    if not holds:
        raise MessageError(f"{where}: expected {expected}, found {json.dumps(value)[:80]}")
