"""Derives how a class is written and read from the types of its fields.

The type of a field says how it is encoded, by an annotation where Python's type leaves that open:

    class JoinGroup(Coded, kind="join-group"):
        group: Name
        topics: Annotated[tuple[Name, ...], at_most(TOPICS_MAX), ascending("topics")]
        session_ms: U32

`derive` turns such types into the source of `write` and `read`, as one would write them by hand, and
compiles it once, when the class is defined. Fields are encoded in the order of their declaration:

| type | encoding |
| --- | --- |
| `U8` to `U64`, `Name`, `Digest`, ..., `fixed`, `blob`, `text` | the method of `Writer` |
| `bool` | a flag |
| an enumeration | the value of the member, in one byte |
| `tuple[X, ...]` with `at_most` or `exactly` | a count unless it is exact, then the items |
| `tuple[X, Y]`, a named tuple, a dataclass without `write` | the parts, nothing in between |
| a class with `write` and `read` | what they do |
| `X | None` | a presence byte, then the value |
| a union with `tagged` | the position in the union, in one byte, then the value |
| anything with `by` | what the two functions do |
| anything with `OMITTED` | nothing; reading leaves the field's default |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Call:
    """Encoded by the methods of this name of `Writer` and `Reader`, given the limit if there is one."""

    method: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many items a tuple has at most, or exactly."""

    count: int
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Ascending:
    """The keys of the items ascend, so that a set has one encoding; `what` names them in the error."""

    what: str
    key: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Tagged:
    """A byte says which member of the union follows; `what` names the union in the error."""

    what: str


@dataclass(frozen=True, slots=True)
class By:
    """Encoded by these functions."""

    write: Callable[[Any, Any], object]
    read: Callable[[Any], object]


OMITTED = object()
"""Marks a field that has no part in the encoding."""

U8 = Annotated[int, Call("u8")]
U16 = Annotated[int, Call("u16")]
U32 = Annotated[int, Call("u32")]
U64 = Annotated[int, Call("u64")]
Name = Annotated[str, Call("text")]
Digest = Annotated[bytes, Call("digest")]
Signature = Annotated[bytes, Call("signature")]
PublicKey = Annotated[bytes, Call("public_key")]


def fixed(length: int) -> Call:
    """Marks bytes of this length."""
    return Call("fixed", length)


def blob(length_max: int) -> Call:
    """Marks bytes with their length in front."""
    return Call("blob", length_max)


def text(length_max: int) -> Call:
    """Marks a text with the length of its UTF-8 bytes in front."""
    return Call("text", length_max)


def at_most(count: int) -> Count:
    """Marks a tuple with the number of its items in front."""
    return Count(count)


def exactly(count: int) -> Count:
    """Marks a tuple that always has this many items."""
    return Count(count, exact=True)


def ascending(what: str, key: Callable[[Any], Any] | None = None) -> Ascending:
    """Marks a tuple whose items, or their keys, ascend."""
    return Ascending(what, key)


def tagged(what: str) -> Tagged:
    """Marks a union whose members are told apart by their position in it."""
    return Tagged(what)


def by(write: Callable[[Any, Any], object], read: Callable[[Any], object]) -> By:
    """Marks what `write(writer, value)` writes and `read(reader)` reads."""
    return By(write, read)


def derive(cls: type) -> dict[str, Any]:
    """Returns the `write` of a class and, if it is to have one, the `read`.

    If the class defines `check`, `read` calls it on the value in the end. Raises TypeError if a type does
    not say how its values are encoded.
    """
    source = _Source()
    fields = list(_fields(cls))
    functions: dict[str, Any] = {}
    puts = "\n    ".join(source.put(hint, f"self.{name}") for name, hint in fields)
    exec(f"def write(self, writer):\n    {puts or 'pass'}", source.constants, functions)
    if hasattr(cls, "read"):
        value = f"cls({', '.join(source.take(hint) for _, hint in fields)})"
        body = (
            f"value = {value}; value.check(); return value" if "check" in vars(cls) else f"return {value}"
        )
        exec(f"def read(cls, reader):\n    {body}", source.constants, functions)
        functions["read"] = classmethod(functions["read"])
    return functions


def _fields(cls: type) -> Iterable[tuple[str, Any]]:
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is not ClassVar and OMITTED not in _split(hint)[1]:
            yield name, hint


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the type without its annotations, and them."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


class _Source:
    """Writes source that encodes and decodes; what it refers to by name is in `constants`."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}

    def put(self, hint: Any, value: str) -> str:
        """Returns the expression that writes a value, which is an expression itself."""
        kind, marks = _split(hint)
        for mark in marks:
            match mark:
                case By():
                    return f"{self._name(mark.write)}(writer, {value})"
                case Call(method, None):
                    return f"writer.{method}({value})"
                case Call(method, limit):
                    return f"writer.{method}({value}, {limit})"
                case Count(count, exact):
                    method = "repeat" if exact else "items"
                    return f"writer.{method}({value}, {count}, {self._putter(get_args(kind)[0])})"
                case Tagged():
                    return f"{self._name(self._writers(kind))}[type({value})](writer, {value})"
        if kind is bool:
            return f"writer.flag({value})"
        if _is_union(kind):
            return f"writer.option({value}, {self._putter(_present(kind))})"
        if get_origin(kind) is tuple:
            return _sequence(self.put(part, f"{value}[{at}]") for at, part in enumerate(get_args(kind)))
        if issubclass(kind, Enum):
            return f"writer.u8({value}.value)"
        if hasattr(kind, "write"):
            return f"{value}.write(writer)"
        return _sequence(self.put(part, f"{value}.{name}") for name, part in _parts(kind))

    def take(self, hint: Any) -> str:
        """Returns the expression that reads a value."""
        kind, marks = _split(hint)
        for mark in marks:
            match mark:
                case By():
                    return f"{self._name(mark.read)}(reader)"
                case Call(method, limit):
                    return f"reader.{method}({'' if limit is None else limit})"
                case Count(count, exact):
                    method = "repeat" if exact else "items"
                    items = f"reader.{method}({count}, {self._taker(get_args(kind)[0])})"
                    return self._ordered(items, marks)
                case Tagged(what):
                    return f"reader.choose({self._name(self._readers(kind))}, {what!r})"
        if kind is bool:
            return "reader.flag()"
        if _is_union(kind):
            return f"reader.option({self._taker(_present(kind))})"
        if get_origin(kind) is tuple:
            return _sequence(map(self.take, get_args(kind)))
        if issubclass(kind, Enum):
            return f"reader.member({self._name(kind)})"
        if hasattr(kind, "read"):
            return f"{self._name(kind)}.read(reader)"
        return f"{self._name(kind)}({', '.join(self.take(part) for _, part in _parts(kind))})"

    def _ordered(self, items: str, marks: tuple[Any, ...]) -> str:
        for mark in marks:
            if isinstance(mark, Ascending):
                return f"reader.ascending({items}, {mark.what!r}, {self._name(mark.key)})"
        return items

    def _putter(self, hint: Any) -> str:
        """Returns the expression of a function that writes its argument."""
        source = self.put(hint, "each")
        return source.removesuffix("(each)") if source.endswith("(each)") else f"lambda each: {source}"

    def _taker(self, hint: Any) -> str:
        """Returns the expression of a function that reads a value."""
        source = self.take(hint)
        return source.removesuffix("()") if source.endswith("()") else f"lambda: {source}"

    def _writers(self, union: Any) -> dict[type, Any]:
        """Returns what writes a value, with its tag, by the value's class."""
        writers: dict[type, Any] = {}
        for tag, member in enumerate(get_args(union)):
            source = f"lambda writer, each: (writer.u8({tag}), {self.put(member, 'each')})"
            function = eval(source, self.constants)
            writers |= dict.fromkeys(_classes(member), function)
        return writers

    def _readers(self, union: Any) -> tuple[Any, ...]:
        """Returns what reads a value, by its tag."""
        return tuple(
            eval(f"lambda reader: {self.take(member)}", self.constants) for member in get_args(union)
        )

    def _name(self, constant: object) -> str:
        name = f"_{len(self.constants)}"
        self.constants[name] = constant
        return name


def _sequence(sources: Iterable[str]) -> str:
    return f"({''.join(f'{source}, ' for source in sources)})"


def _present(union: Any) -> Any:
    """Returns X of `X | None`."""
    present = [member for member in get_args(union) if member is not NoneType]
    if len(present) != 1 or len(get_args(union)) != 2:
        raise TypeError(f"{union} needs `tagged`")
    return present[0]


def _classes(hint: Any) -> list[type]:
    """Returns the classes that values of the type have."""
    kind, _ = _split(hint)
    return [each for member in get_args(kind) for each in _classes(member)] if _is_union(kind) else [kind]


def _parts(kind: Any) -> Iterable[tuple[str, Any]]:
    """Returns the fields of a dataclass or named tuple with their types."""
    if not dataclasses.is_dataclass(kind) and not hasattr(kind, "_fields"):
        raise TypeError(f"{kind} needs an annotation that says how it is encoded")
    return _fields(kind)
