"""Executes a model as Python: the oracle for tests of the compiler.

The text of the model is executed with plain definitions of the language's names: a role is a class with
instances, a sequence a list, a set a set, a map a dict, a bag a list with an irrelevant order. An action
runs once for each nondeterministic choice. A state is stored as nested tuples and converted to fresh
objects for every run, so only the state survives a step.

Storing a value copies it and checks its type immediately, and records are values: these are the language's
own rules, not Python's.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, EnumMeta, auto
from functools import cached_property
from inspect import get_annotations
from itertools import product
from typing import Any, ClassVar

Frozen = tuple[Any, ...]
Shown = dict[str, Any]


class Disabled(Exception):  # noqa: N818 - not an error
    """The action is disabled for these choices."""


class OutOfRange(Exception):  # noqa: N818
    """A value is outside its type."""


# Types, as written in annotations.


class Type:
    """A bounded type: how to freeze, thaw and show its values."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def values(self) -> list[Any]:
        raise TypeError(f"{type(self).__name__} has no list of values")

    @cached_property
    def positions(self) -> dict[tuple[bool, Any], int]:
        """Returns the position of each value; distinguishes True from 1."""
        return {(isinstance(value, bool), value): i for i, value in enumerate(self.values())}

    @cached_property
    def listed(self) -> list[Any]:
        return self.values()

    def start(self, default: Any) -> Any:
        return copy.deepcopy(default)

    def freeze(self, value: Any) -> Any:
        if (isinstance(value, bool), value) not in self.positions:
            raise OutOfRange(value)
        return self.positions[isinstance(value, bool), value]

    def thaw(self, frozen: Any) -> Any:
        return self.listed[frozen]

    def show(self, value: Any) -> dict[str, Any]:
        return {"": show(value)}


def show(value: Any) -> Any:
    match value:
        case Enum():
            return value.name
        case Role():
            return f"{type(value).__name__}({value.id})"
        case _:
            return value


class IntType(Type):
    def values(self) -> list[Any]:
        low, high = self.arguments
        return list(range(low, high + 1))


class BoolType(Type):
    def values(self) -> list[Any]:
        return [False, True]


class MemberType(Type):
    """An enum or a role."""

    def values(self) -> list[Any]:
        return list(self.arguments[0])


class MaybeType(Type):
    def values(self) -> list[Any]:
        return [None, *self.arguments[0].values()]

    def freeze(self, value: Any) -> Any:
        return 0 if value is None else 1 + self.arguments[0].freeze(value)

    def show(self, value: Any) -> dict[str, Any]:
        return {"": str(show(value))}


class SetType(Type):
    def start(self, default: Any) -> Any:
        return set() if default is None else super().start(default)

    def freeze(self, value: Any) -> Any:
        assert type(value) is set
        return tuple(sorted(self.arguments[0].freeze(item) for item in value))

    def thaw(self, frozen: Any) -> Any:
        return {self.arguments[0].thaw(item) for item in frozen}

    def show(self, value: Any) -> dict[str, Any]:
        return {"": [str(show(item)) for item in self.arguments[0].listed if item in value]}


class SeqType(Type):
    container: Any

    def start(self, default: Any) -> Any:
        return self.made([] if default is None else super().start(default))

    def made(self, items: Iterable[Any]) -> Any:
        made = self.container(items)
        made.type = self
        return made

    def freeze(self, value: Any) -> Any:
        item, bound = self.arguments
        if len(value) > bound:
            raise OutOfRange(value)
        return tuple(item.freeze(part) for part in value)

    def thaw(self, frozen: Any) -> Any:
        return self.made(self.arguments[0].thaw(part) for part in frozen)

    def show(self, value: Any) -> dict[str, Any]:
        parts = [self.arguments[0].show(part) for part in value]
        return {"": [p[""] if set(p) == {""} else {k.lstrip("."): v for k, v in p.items()} for p in parts]}


class Seq(list[Any]):
    type: SeqType

    def append(self, item: Any) -> None:
        super().append(stored(item))
        self.type.freeze(self)

    def __setitem__(self, index: Any, item: Any) -> None:
        super().__setitem__(index, stored(item))
        self.type.freeze(self)


class Bag(Seq):
    def add(self, item: Any) -> None:
        self.append(item)


class BagType(SeqType):
    container = Bag

    def freeze(self, value: Any) -> Any:
        return tuple(sorted(super().freeze(value), key=repr))

    def show(self, value: Any) -> dict[str, Any]:
        return {"": sorted(super().show(value)[""], key=repr)}


SeqType.container = Seq


class Map(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        if key not in self:
            raise KeyError(key)
        super().__setitem__(key, stored(value))

    def __deepcopy__(self, memo: object) -> Map:
        return Map({key: stored(value) for key, value in self.items()})


class MapType(Type):
    def start(self, default: Any) -> Any:
        key, value = self.arguments
        one = default if isinstance(default, dict) else dict.fromkeys(key.listed, default)
        return Map({k: value.start(v) for k, v in one.items()})

    def freeze(self, value: Any) -> Any:
        key, inner = self.arguments
        return tuple(inner.freeze(value[k]) for k in key.listed)

    def thaw(self, frozen: Any) -> Any:
        key, inner = self.arguments
        return Map(zip(key.listed, map(inner.thaw, frozen), strict=True))

    def show(self, value: Any) -> dict[str, Any]:
        shown = [self.arguments[1].show(value[key]) for key in self.arguments[0].listed]
        return {suffix: [one[suffix] for one in shown] for suffix in shown[0]}


class RecordType(Type):
    def fields(self) -> dict[str, Type]:
        return self.arguments[0].types()  # type: ignore[no-any-return]

    def start(self, default: Any) -> Any:
        return self.arguments[0]() if default is None else super().start(default)

    def freeze(self, value: Any) -> Any:
        assert type(value) is self.arguments[0]
        return tuple(inner.freeze(getattr(value, name)) for name, inner in self.fields().items())

    def thaw(self, frozen: Any) -> Any:
        parts = zip(self.fields().items(), frozen, strict=True)
        return self.arguments[0](**{name: inner.thaw(part) for (name, inner), part in parts})

    def show(self, value: Any) -> dict[str, Any]:
        return {
            f".{name}{suffix}": shown
            for name, inner in self.fields().items()
            for suffix, shown in inner.show(getattr(value, name)).items()
        }


def generic(made: type[Type]) -> Any:
    """Returns the definition of `Int`, `Set`, ... in annotations."""

    class Generic:
        def __class_getitem__(cls, arguments: Any) -> Type:
            given = arguments if isinstance(arguments, tuple) else (arguments,)
            return made(
                *(argument if isinstance(argument, int) else as_type(argument) for argument in given)
            )

    return Generic


def as_type(annotation: Any) -> Type:
    if isinstance(annotation, Type):
        return annotation
    if annotation is bool:
        return BoolType()
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return RecordType(annotation)
    assert isinstance(annotation, EnumMeta | RoleMeta), annotation
    return MemberType(annotation)


def types_of(annotations: Mapping[str, str], names: dict[str, Any]) -> dict[str, Type]:
    return {name: as_type(eval(text, names)) for name, text in annotations.items()}


# The names of the language.


def stored(value: Any) -> Any:
    """Returns a copy, as storing does."""
    return copy.deepcopy(value) if isinstance(value, Record | list | set | dict) else value


class Record:
    names: ClassVar[dict[str, Any]]  # to resolve its annotations
    known_types: ClassVar[dict[str, Type]]

    @classmethod
    def types(cls) -> dict[str, Type]:
        if "known_types" not in cls.__dict__:
            cls.known_types = types_of(get_annotations(cls), cls.names)
        return cls.known_types

    def __init__(self, *values: Any, **fields: Any) -> None:
        types = self.types()
        given = {**dict(zip(types, values, strict=False)), **fields}
        assert set(given) <= set(types)
        for name, inner in types.items():
            default = given.get(name, getattr(type(self), name, None))
            setattr(self, name, inner.start(default) if default is None else default)

    def __setattr__(self, name: str, value: Any) -> None:
        self.types()[name].freeze(value)
        object.__setattr__(self, name, stored(value))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__})"

    __hash__ = None  # type: ignore[assignment]


class RoleMeta(type):
    instances: list[Any]
    types: dict[str, Type]

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.instances)

    def __len__(cls) -> int:
        return len(cls.instances)

    def __getitem__(cls, number: int) -> Any:
        if not 0 <= number < len(cls.instances):
            raise IndexError(number)
        return cls.instances[number]


class Role(metaclass=RoleMeta):
    id: int

    def __init_subclass__(cls, count: int = 1, symmetric: bool = False) -> None:
        cls.instances = []
        for number in range(count):
            instance = object.__new__(cls)
            object.__setattr__(instance, "id", number)
            cls.instances.append(instance)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).types:
            raise AttributeError(name)
        type(self).types[name].freeze(value)
        changed_in_place = self.__dict__.get(name) is value
        object.__setattr__(self, name, value if changed_in_place else stored(value))

    def __deepcopy__(self, memo: object) -> Role:
        return self


class Chooser:
    """Supplies the choices of one run, and advances to those of the next."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []
        self.position = 0

    def choose(self, options: Sequence[Any]) -> Any:
        if not options:
            raise Disabled
        if self.position == len(self.taken):
            self.taken.append((0, len(options)))
        number, count = self.taken[self.position]
        assert count == len(options), "a repeated run differs from the first"
        self.position += 1
        return options[number]

    def advance(self) -> bool:
        """Advances to the next run's choices; returns False after the last."""
        self.position = 0
        while self.taken:
            number, count = self.taken.pop()
            if number + 1 < count:
                self.taken.append((number + 1, count))
                return True
        return False


def options_of(values: Any) -> list[Any]:
    match values:
        case Bag():
            return [item for i, item in enumerate(values) if item not in values[:i]]
        case set():
            return sorted(values, key=lambda item: getattr(item, "id", getattr(item, "value", item)) or 0)
        case _:
            return list(values)


# The model.


@dataclass
class Marked:
    """A function with its decorator."""

    kind: str
    function: Callable[..., Any]


@dataclass
class Found:
    """All states as shown, the numbers of steps and failures, and the states before and after each step."""

    states: dict[Frozen, Shown]
    steps: list[tuple[Frozen, Frozen]] = field(default_factory=list)
    failures: int = 0


class Execution:
    """The execution of a model."""

    def __init__(self, text: str, constants: Mapping[str, int] | None = None) -> None:
        self.chooser = Chooser()
        self.other: Frozen | None = None  # the state that `after` refers to
        self.marked: list[Marked] = []
        self.names: dict[str, Any] = self._words()
        tree = Rewrite(constants or {}).visit(ast.parse(text))
        flags = __future__.annotations.compiler_flag
        self.names["Record"].names = self.names
        exec(compile(ast.fix_missing_locations(tree), "model", "exec", flags, True), self.names)
        self._resolve()
        self.initial = self.freeze()

    def _words(self) -> dict[str, Any]:
        marks = ("action", "always", "exists", "eventually", "leads_to", "transition", "terminal")
        kinds = {"Int": IntType, "Maybe": MaybeType, "Set": SetType, "Seq": SeqType, "Bag": BagType}
        return {
            **{mark: self._decorator(mark) for mark in marks},
            **{name: generic(kind) for name, kind in {**kinds, "Map": MapType}.items()},
            "Enum": Enum,
            "auto": auto,
            "Record": type("Record", (Record,), {}),
            "Role": Role,
            "constant": lambda value: value,
            "require": self._require,
            "any_of": lambda values: self.chooser.choose(options_of(values)),
            "one_of": lambda *values: self.chooser.choose(values),
            "after": self._after,
            "replace": lambda record, **fields: type(record)(**{**record.__dict__, **fields}),
            "deadlock_free": lambda: None,
            "stored_as": self._stored_as,
        }

    def _decorator(self, kind: str) -> Any:
        def mark(function: Any = None, **options: Any) -> Any:
            if function is None:
                return mark
            self.marked.append(Marked(kind, function))
            return function

        return mark

    @staticmethod
    def _require(condition: bool) -> None:
        assert isinstance(condition, bool)
        if not condition:
            raise Disabled

    def _stored_as(self, name: str, value: Any) -> Any:
        """Returns the value stored under a name of the model: a copy of its type."""
        self.types[name].freeze(value)
        return value if value is self.names[name] else stored(value)

    def _after(self, value: Callable[[], Any]) -> Any:
        assert self.other is not None
        before = self.freeze()
        self.thaw(self.other)
        result = copy.deepcopy(value())
        self.thaw(before)
        return result

    def _resolve(self) -> None:
        """Resolves annotations to types and assigns initial values."""
        for cls in [value for value in self.names.values() if isinstance(value, type)]:
            if issubclass(cls, Role) and cls is not Role:
                cls.types = types_of(get_annotations(cls), self.names)
        self.types = types_of(self.names.get("__annotations__", {}), self.names)
        self.roles = [v for v in self.names.values() if isinstance(v, RoleMeta) and v is not Role]
        for name, type_ in self.types.items():
            self.names[name] = type_.start(self.names.get(name))
        for role in self.roles:
            for instance in role:
                for name, type_ in role.types.items():
                    setattr(instance, name, type_.start(role.__dict__.get(name)))

    def freeze(self) -> Frozen:
        own = [type_.freeze(self.names[name]) for name, type_ in self.types.items()]
        return (*own, *(type_.freeze(getattr(i, name)) for i, name, type_ in self._attributes()))

    def thaw(self, state: Frozen) -> None:
        values = iter(state)
        for name, type_ in self.types.items():
            self.names[name] = type_.thaw(next(values))
        for instance, name, type_ in self._attributes():
            object.__setattr__(instance, name, type_.thaw(next(values)))

    def _attributes(self) -> Iterator[tuple[Any, str, Type]]:
        for role in self.roles:
            for instance in role:
                for name, type_ in role.types.items():
                    yield instance, name, type_

    def show(self) -> Shown:
        """Returns the current state in the format of `show_state`."""
        shown: Shown = {}
        for name, type_ in self.types.items():
            shown |= {name + suffix: one for suffix, one in type_.show(self.names[name]).items()}
        for instance, name, type_ in self._attributes():
            parts = type_.show(getattr(instance, name)).items()
            shown |= {f"{show(instance)}.{name}{suffix}": one for suffix, one in parts}
        return shown

    def explore(self, state_count_max: int) -> Found:
        """Explores the reachable states."""
        self.thaw(self.initial)
        found = Found({self.initial: self.show()})
        frontier = [self.initial]
        while frontier:
            state = frontier.pop()
            for after in self._successors(state, found):
                found.steps.append((state, after))
                if after not in found.states:
                    self.thaw(after)
                    found.states[after] = self.show()
                    frontier.append(after)
                    assert len(found.states) <= state_count_max
        return found

    def _successors(self, state: Frozen, found: Found) -> Iterator[Frozen]:
        for marked in self.marked:
            if marked.kind == "action":
                for arguments in self.arguments(marked.function):
                    yield from self._runs(marked.function, arguments, state, found)

    def _runs(self, function: Any, arguments: Any, state: Frozen, found: Found) -> Iterator[Frozen]:
        self.chooser = Chooser()
        is_more = True
        while is_more:
            self.thaw(state)
            try:
                function(*arguments)
                after = self.freeze()
            except Disabled:
                pass
            except Exception:  # noqa: BLE001 - any exception is a failure of the model
                found.failures += 1
            else:
                yield after
            is_more = self.chooser.advance()

    def arguments(self, function: Any) -> Iterator[tuple[Any, ...]]:
        """Yields all values of a function's parameters, including `self`."""
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        types = types_of({n: t for n, t in function.__annotations__.items() if n in names}, self.names)
        role = self.names.get(function.__qualname__.partition(".")[0])
        yield from product(
            *(
                list(role) if name == "self" and isinstance(role, RoleMeta) else types[name].values()
                for name in names
            )
        )

    def value(self, function: Any, arguments: Any, state: Frozen, after: Frozen | None = None) -> Any:
        """Returns the value of a property in a state, or for a step."""
        self.thaw(state)
        self.other = after
        return function(*arguments)


class Rewrite(ast.NodeTransformer):
    """Removes the imports, sets constants, delays the argument of `after`, and passes assigned values
    through `stored_as`."""

    def __init__(self, constants: Mapping[str, int]) -> None:
        self.constants = constants
        self.globals: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.globals = {n for part in ast.walk(node) if isinstance(part, ast.Global) for n in part.names}
        result = self.generic_visit(node)
        self.globals = set()
        return result

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        match node.target:
            case ast.Name(id=name) if name in self.globals:
                again = ast.Assign([ast.Name(name, ast.Store())], ast.Name(name, ast.Load()))
                return [self.generic_visit(node), self.visit_Assign(again)]
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node.targets:
            case [ast.Name(id=name)] if name in self.constants:
                node.value = ast.Constant(self.constants[name])
            case [ast.Name(id=name)] if name in self.globals:
                arguments = [ast.Constant(name), node.value]
                node.value = ast.Call(ast.Name("stored_as", ast.Load()), arguments, [])
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node.func:
            case ast.Name(id="after"):
                empty = ast.arguments([], [], None, [], [], None, [])
                node.args = [ast.Lambda(empty, node.args[0])]
        return self.generic_visit(node)
