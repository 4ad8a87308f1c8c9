"""Declarations of a model: constants, enums, records, roles, state, actions and properties."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from veristream.errors import ModelError
from veristream.languages.actions.read.annotations import shape_of
from veristream.languages.actions.read.constants import constant_value
from veristream.languages.actions.read.module import (
    DECORATORS,
    PROPERTIES,
    RESERVED,
    Module,
    RoleClass,
    Routine,
    StateVariable,
)
from veristream.languages.actions.read.parse import Text
from veristream.languages.actions.read.types import Record, Shape

INSTANCE_COUNT_MAX = 1000

_FAIRNESS = ("none", "weak-action", "strong-action", "weak-process", "strong-process")
_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "action": {"fair": ("weak", "strong")},
    "terminal": {},
    **{kind: {"fairness": _FAIRNESS} for kind in PROPERTIES},
}
"""The options of each decorator, with the values they accept."""


def declare(tree: ast.Module, text: Text, overrides: Mapping[str, int]) -> Module:
    """Reads all declarations in order; a name is visible only to the declarations after it."""
    module = Module(text)
    adjustable: set[str] = set()
    for statement in tree.body:
        _declare_statement(module, statement, overrides, adjustable)
    for name in overrides:
        if name not in adjustable:
            known = ", ".join(sorted(adjustable)) or "none"
            raise ModelError(
                f"the model has no constant {name}",
                hint=f"its constants are: {known}; declare one with `{name} = constant(2)`",
            )
    return module


def _declare_statement(
    module: Module, statement: ast.stmt, overrides: Mapping[str, int], adjustable: set[str]
) -> None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
            return
        case ast.ImportFrom(module="veristream.actions" | "__future__", names=names):
            if any(alias.asname for alias in names):
                raise module.text.error(
                    statement, "names of the language cannot be renamed", "import them without `as`"
                )
        case ast.Import() | ast.ImportFrom():
            raise module.text.error(
                statement,
                "a model can import only veristream.actions",
                "a model is compiled, not run; define what you need in the model itself",
            )
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            _name(module, name, statement)
            _declare_assignment(module, name, value, overrides, adjustable)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
            _name(module, name, statement)
            module.state[name] = StateVariable(name, shape_of(module, annotation), default, statement)
        case ast.ClassDef():
            _name(module, statement.name, statement)
            _declare_class(module, statement)
        case ast.FunctionDef():
            _name(module, statement.name, statement)
            module.routines[statement.name] = _routine(module, statement, None)
        case _:
            raise module.text.error(
                statement,
                "this is not a declaration",
                "a model consists of constants, enums, records, roles, state, actions and properties",
            )


def _name(module: Module, name: str, statement: ast.stmt) -> None:
    if name in module.places:
        line = module.places[name].lineno
        raise module.text.error(statement, f"{name} is already declared in line {line}", "use another name")
    if name in RESERVED or name == "self":
        raise module.text.error(statement, f"{name} cannot be declared", "the name is reserved")
    _check_spelling(module, name, statement)
    module.places[name] = statement


def _check_spelling(module: Module, name: str, statement: ast.stmt) -> None:
    # Two underscores join the parts of a record, so a name must not contain them.
    if name.startswith("_") or "__" in name:
        raise module.text.error(
            statement,
            f"{name} cannot be declared",
            "a name cannot begin with an underscore or contain two in a row",
        )


def _declare_assignment(
    module: Module, name: str, value: ast.expr, overrides: Mapping[str, int], adjustable: set[str]
) -> None:
    match value:
        case ast.Call(func=ast.Name(id="constant"), args=[default], keywords=[]):
            adjustable.add(name)
            found = constant_value(default, module)
            module.constants[name] = _override(name, found, overrides)
        case ast.Call(func=ast.Name(id="deadlock_free"), args=[], keywords=[]):
            module.deadlock.append((name, value))
        case ast.Call(func=ast.Name(id="constant" | "deadlock_free" as word)):
            example = "constant(3)" if word == "constant" else "deadlock_free()"
            raise module.text.error(value, f"wrong use of {word}", f"write `{name} = {example}`")
        case ast.List() | ast.Dict() | ast.Set() | ast.Call(func=ast.Name(id="set" | "list" | "dict")):
            raise module.text.error(
                value,
                f"{name} has no type",
                f"declare state with a bounded type, such as `{name}: Seq[Int[0, 3], 4] = []`",
            )
        case _:
            module.constants[name] = constant_value(value, module)


def _override(name: str, default: int, overrides: Mapping[str, int]) -> int:
    if name not in overrides:
        return default
    given = overrides[name]
    if isinstance(default, bool):
        if given not in (0, 1):
            raise ModelError(
                f"the constant {name} is a bool and cannot be {given}", hint="set it to 0 or 1"
            )
        return bool(given)
    return given


def _declare_class(module: Module, node: ast.ClassDef) -> None:
    if node.decorator_list:
        raise module.text.error(node.decorator_list[0], "a class takes no decorator", "remove it")
    match node.bases:
        case [ast.Name(id="Role")]:
            _declare_role(module, node)
            return
        case [ast.Name(id="Enum" | "Record")] if node.keywords:
            raise module.text.error(node.keywords[0], "only a role takes options", "remove it")
        case [ast.Name(id="Enum")]:
            module.enums[node.name] = _enum_members(module, node)
        case [ast.Name(id="Record")]:
            module.records[node.name] = _record(module, node)
        case _:
            raise module.text.error(
                node,
                f"{node.name} is neither an Enum, a Record nor a Role",
                f"write `class {node.name}(Record):`, or use Enum or Role",
            )


def _enum_members(module: Module, node: ast.ClassDef) -> tuple[str, ...]:
    members: list[str] = []
    for statement in _body(node):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if not _counts(value, len(members)):
                    raise module.text.error(
                        value,
                        f"enum members are numbered from 0: {name} is {len(members)}",
                        f"write `{name} = {len(members)}` or `{name} = auto()`",
                    )
                if name in members:
                    raise module.text.error(
                        statement, f"{node.name} already has a member {name}", "use another name"
                    )
                _check_spelling(module, name, statement)
                members.append(name)
            case _:
                raise module.text.error(
                    statement, "an enum has only members", "write them as `IDLE = 0`, `BUSY = 1`, ..."
                )
    if not members:
        raise module.text.error(node, f"the enum {node.name} has no members", "write `IDLE = 0` in it")
    return tuple(members)


def _counts(value: ast.expr, number: int) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="auto"), args=[], keywords=[]):
            return True
        case ast.Constant(value=int() as given) if not isinstance(given, bool):
            return given == number
        case _:
            return False


def _body(node: ast.ClassDef) -> list[ast.stmt]:
    """Returns the statements of a class without docstrings and `pass`."""
    return [
        statement
        for statement in node.body
        if not isinstance(statement, ast.Pass)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def _record(module: Module, node: ast.ClassDef) -> Record:
    fields: list[tuple[str, Shape]] = []
    for statement in _body(node):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                if name in dict(fields):
                    raise module.text.error(
                        statement, f"{node.name} already has a field {name}", "use another name"
                    )
                _check_spelling(module, name, statement)
                fields.append((name, shape_of(module, annotation)))
                if default is not None:
                    module.defaults[node.name, name] = default
            case _:
                raise module.text.error(
                    statement, "a record has only fields", "write them with a type: `epoch: Int[0, 3]`"
                )
    if not fields:
        raise module.text.error(
            node, f"the record {node.name} has no fields", "write `epoch: Int[0, 3]` in it"
        )
    return Record(node.name, tuple(fields))


def _declare_role(module: Module, node: ast.ClassDef) -> None:
    count, symmetric = _role_options(module, node)
    # Declared before its own body, so that its state can refer to it.
    module.roles[node.name] = RoleClass(node.name, count, symmetric, (), node)
    names: set[str] = {"id"}
    state: list[StateVariable] = []
    for statement in _body(node):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                state.append(StateVariable(name, shape_of(module, annotation), default, statement))
            case ast.FunctionDef(name=name):
                module.methods[node.name, name] = _routine(module, statement, node.name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                raise module.text.error(
                    statement,
                    f"{name} has no type",
                    f"declare state with a type, such as `{name}: Int[0, 3] = 0`",
                )
            case _:
                raise module.text.error(
                    statement,
                    "a role contains only state and functions",
                    "declare the rest at the top level of the model",
                )
        if name in names:
            raise module.text.error(statement, f"{node.name} already has {name}", "use another name")
        _check_spelling(module, name, statement)
        names.add(name)
    module.roles[node.name] = RoleClass(node.name, count, symmetric, tuple(state), node)


def _role_options(module: Module, node: ast.ClassDef) -> tuple[int, bool]:
    """Returns the number of instances and whether they are symmetric."""
    count, symmetric = 1, False
    for keyword in node.keywords:
        match keyword:
            case ast.keyword(arg="count", value=value):
                count = int(constant_value(value, module))
            case ast.keyword(arg="symmetric", value=ast.Constant(value=bool() as flag)):
                symmetric = flag
            case ast.keyword(arg="symmetric"):
                raise module.text.error(keyword, "symmetric must be True or False", "write symmetric=True")
            case _:
                raise module.text.error(
                    keyword, f"a role has no option {keyword.arg}", "its options are count and symmetric"
                )
    if not 1 <= count <= INSTANCE_COUNT_MAX:
        raise module.text.error(
            node,
            f"the role {node.name} has {count} instances",
            f"the count must be from 1 to {INSTANCE_COUNT_MAX}",
        )
    return count, symmetric


def _routine(module: Module, node: ast.FunctionDef, role: str | None) -> Routine:
    if len(node.decorator_list) > 1:
        raise module.text.error(
            node.decorator_list[1], "a function takes only one decorator", "write a second function"
        )
    kind, options = "function", dict[str, str]()
    for decorator in node.decorator_list:
        kind, keywords = _decorator(module, decorator)
        options = dict(_option(module, kind, keyword) for keyword in keywords)
    _check_parameters(module, node, role)
    if kind == "terminal" and node.args.args:
        raise module.text.error(
            node,
            "a @terminal condition has no parameters",
            "write it outside of roles, with `all(... for x in ...)` to cover all instances",
        )
    return Routine(node.name, node, kind, role, options)


def _check_parameters(module: Module, node: ast.FunctionDef, role: str | None) -> None:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        raise module.text.error(node, f"{node.name} has *, / or ** parameters", "name each parameter")
    if arguments.defaults:
        raise module.text.error(
            arguments.defaults[0],
            "parameters cannot have default values",
            "pass every argument in each call",
        )
    if role is not None and (not arguments.args or arguments.args[0].arg != "self"):
        raise module.text.error(
            node,
            f"the first parameter of the method {node.name} must be `self`",
            f"write `def {node.name}(self, ...)`",
        )


def _decorator(module: Module, node: ast.expr) -> tuple[str, list[ast.keyword]]:
    match node:
        case ast.Name(id=name) if name in DECORATORS:
            return name, []
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in DECORATORS:
            return name, keywords
        case ast.Call(func=ast.Name(id=name)) if name in DECORATORS:
            raise module.text.error(node, f"pass the options of @{name} by keyword", _takes(name))
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            hint = module.similar(name) or f"the decorators are @{', @'.join(DECORATORS)}"
            raise module.text.error(node, f"unknown decorator @{name}", hint)
        case _:
            raise module.text.error(
                node, "this is not a decorator", f"the decorators are @{', @'.join(DECORATORS)}"
            )


def _option(module: Module, kind: str, keyword: ast.keyword) -> tuple[str, str]:
    match keyword:
        case ast.keyword(arg=str() as name, value=ast.Constant(value=str() as value)):
            if value in _OPTIONS[kind].get(name, ()):
                return name, value
    raise module.text.error(keyword, f"@{kind} does not accept this option", _takes(kind))


def _takes(kind: str) -> str:
    options = _OPTIONS[kind].items()
    known = "; ".join(f"{name} = {' or '.join(map(repr, values))}" for name, values in options)
    return f"it takes {known or 'no options'}"
