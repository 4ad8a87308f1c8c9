"""Compiles the expressions of a model to the IR."""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir.expr import Binary, BinaryOp, Conditional, Const, Expr, FoldOp, Primed, Unary
from veristream.ir.walk import mentions
from veristream.languages.actions.lower.collections import (
    compile_fold,
    compile_length,
    compile_set_comprehension,
)
from veristream.languages.actions.lower.comparisons import compile_comparison
from veristream.languages.actions.lower.convert import (
    checked,
    compile_condition,
    compile_number,
    compile_open,
    compile_scalar,
    compile_value,
    convert,
    describe_value,
    shifted,
)
from veristream.languages.actions.lower.functions import compile_call, merge
from veristream.languages.actions.lower.records import compile_record, compile_replace
from veristream.languages.actions.lower.values import (
    Listed,
    Plain,
    Scope,
    Stored,
    Value,
    item_at,
    length_of,
    part_of,
    primed,
    scalar,
)
from veristream.languages.actions.read.module import Module
from veristream.languages.actions.read.types import (
    BOOLEAN,
    INTEGER,
    NONE,
    MapOf,
    Record,
    Scalar,
    SeqOf,
    SetOf,
    Shape,
    is_compatible,
    joined,
)
from veristream.source import Span

_ARITHMETIC: dict[type[ast.operator], BinaryOp] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_SET_OPERATORS: dict[type[ast.operator], BinaryOp] = {ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^"}

_UNSUPPORTED: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("a lambda", "write a function with def"),
    ast.JoinedStr: ("an f-string", "models have no text; use an Enum"),
    ast.ListComp: ("a list comprehension", "use all(...), any(...), sum(...) or a set comprehension"),
    ast.DictComp: ("a dict comprehension", "a Map has a value for every key; change them in a loop"),
    ast.Dict: ("a dict here", "write set() for an empty set; a dict is only the initial value of a Map"),
    ast.Await: ("await", "actions are atomic already"),
    ast.Yield: ("yield", "actions are atomic already"),
    ast.YieldFrom: ("yield", "actions are atomic already"),
    ast.NamedExpr: ("an assignment inside an expression", "assign on a separate line"),
    ast.Starred: ("a starred expression", "name the values one by one"),
    ast.Slice: ("a slice", "use pop(0), an index, or a loop"),
    ast.GeneratorExp: ("a generator here", "put it into all(...), any(...) or sum(...)"),
}


def new_scope(module: Module, allows_after: bool = False) -> Scope:
    """Returns a scope without local names."""
    return Scope(module, compile_expression, allows_after=allows_after)


def compile_expression(node: ast.expr, scope: Scope, wanted: Shape | None) -> Value | Listed:
    """Compiles an expression; literals inside it take the type `wanted`, if given."""
    match node:
        case ast.Constant():
            return _constant(node, scope)
        case ast.Name():
            return _name(node, scope)
        case ast.Attribute():
            return _attribute(node, scope)
        case ast.Subscript():
            return _subscript(node, scope)
        case ast.UnaryOp():
            return _unary(node, scope)
        case ast.BinOp():
            return _operation(node, scope, wanted)
        case ast.BoolOp():
            return _connective(node, scope)
        case ast.Compare():
            return compile_comparison(node, scope)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return merge(
                test, compile_value(body, scope, wanted), compile_value(orelse, scope, wanted), scope
            )
        case ast.Call():
            return _call(node, scope)
        case ast.List(elts=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            return Listed(node, tuple(items))
        case ast.SetComp():
            return compile_set_comprehension(node, scope, wanted)
        case _:
            what, hint = _UNSUPPORTED.get(type(node), (f"`{type(node).__name__}`", ""))
            raise scope.module.text.error(node, f"models cannot use {what}", hint)


def _constant(node: ast.Constant, scope: Scope) -> Value:
    match node.value:
        case bool() as flag:
            return Plain(BOOLEAN, Const(int(flag), scope.span(node)))
        case int() as number:
            if number > INTEGER.high:
                raise scope.module.text.error(
                    node, "this number is too large", f"numbers go up to {INTEGER.high}"
                )
            return Plain(Scalar(number, number), Const(number, scope.span(node)))
        case None:
            return Plain(NONE, Const(0, scope.span(node)))
        case value:
            kind = {"str": "text", "bytes": "text", "ellipsis": "`...`"}.get(
                type(value).__name__, "such numbers"
            )
            raise scope.module.text.error(
                node, f"models have no {kind}", "use whole numbers, bools and enums"
            )


def _name(node: ast.Name, scope: Scope) -> Value:
    module, name = scope.module, node.id
    if name in scope.locals:
        return scope.locals[name]
    if name in module.constants:
        number = module.constants[name]
        shape = BOOLEAN if isinstance(number, bool) else Scalar(number, number)
        return Plain(shape, Const(int(number), scope.span(node)))
    if name in module.state:
        return Stored(module.state[name].shape, name)
    if name in module.enums:
        hint = f"write {name}.{module.enums[name][0]}, or loop over {name}"
        raise module.text.error(node, f"{name} is an enum, not a value", hint)
    if name in module.roles:
        hint = f"write {name}[i] for one instance, or loop over {name}"
        raise module.text.error(node, f"{name} is a role, not a value", hint)
    if name in module.records or name in module.routines:
        raise module.text.error(node, f"{name} is not a value", f"write {name}(...)")
    if name in scope.unset:
        raise module.text.error(
            node, f"{name} is set only on some paths", "set it before the `if`, or in all of its branches"
        )
    raise module.text.error(node, f"unknown name `{name}`", module.similar(name, list(scope.locals)))


def _attribute(node: ast.Attribute, scope: Scope) -> Value:
    module = scope.module
    match node.value:
        case ast.Name(id=name) if name in module.enums:
            if node.attr not in module.enums[name]:
                members = ", ".join(module.enums[name])
                raise module.text.error(node, f"{name} has no member {node.attr}", f"it has {members}")
            return Plain(module.enum(name), Const(module.enums[name].index(node.attr), scope.span(node)))
    owner = compile_value(node.value, scope)
    match owner.shape:
        case Record(name=name, fields=fields):
            if owner.shape.field(node.attr) is None:
                names = ", ".join(field for field, _ in fields)
                raise module.text.error(node, f"{name} has no field {node.attr}", f"it has {names}")
            part = part_of(owner, node.attr)
            if isinstance(part.shape, SeqOf | MapOf) and not isinstance(part, Stored):
                raise module.text.error(
                    node,
                    f"{node.attr} of a record outside the state cannot be read",
                    "store the record first",
                )
            return part
        case Scalar(kind="role", name=name):
            return _of_role(node, scope, name, owner)
        case _:
            raise module.text.error(
                node,
                f"{describe_value(owner)} has no field {node.attr}",
                "only records and roles have fields",
            )


def _of_role(node: ast.Attribute, scope: Scope, role: str, instance: Value) -> Value:
    found = scope.module.roles[role]
    if node.attr == "id":
        if found.symmetric:
            raise scope.module.text.error(
                node,
                f"the instances of {role} are symmetric, so they have no numbers",
                "compare instances with == and !=, or remove symmetric=True",
            )
        number = scalar(convert(instance, found.scalar, node.value, scope))
        return Plain(Scalar(0, found.count - 1), number)
    for variable in found.state:
        if variable.name == node.attr:
            index = replace(scalar(instance), span=scope.span(node))
            return Stored(variable.shape, f"{role}.{variable.name}", (index,))
    names = ", ".join(["id", *(variable.name for variable in found.state)])
    raise scope.module.text.error(node, f"{role} has no {node.attr}", f"it has {names}")


def _subscript(node: ast.Subscript, scope: Scope) -> Value:
    match node.value:
        case ast.Name(id=name) if name in scope.module.roles:
            return _instance(node, name, scope)
    owner = compile_value(node.value, scope)
    if not isinstance(owner, Stored) or not isinstance(owner.shape, SeqOf | MapOf):
        raise scope.module.text.error(
            node, f"{describe_value(owner)} cannot be indexed", "only sequences and maps can"
        )
    if isinstance(node.slice, ast.Slice):
        what, hint = _UNSUPPORTED[ast.Slice]
        raise scope.module.text.error(node, f"models cannot use {what}", hint)
    if isinstance(owner.shape, MapOf):
        key = owner.shape.key
        index = shifted(compile_scalar(node.slice, scope, key), key.low)
        return item_at(owner, replace(index, span=scope.span(node)))
    if owner.shape.is_bag:
        raise scope.module.text.error(node, "a bag has no order", "choose an item with any_of(...)")
    return item_at(owner, _position(node, scope, owner))


def _instance(node: ast.Subscript, name: str, scope: Scope) -> Value:
    role = scope.module.roles[name]
    if role.symmetric:
        raise scope.module.text.error(
            node,
            f"the instances of {name} are symmetric, so a single one cannot be named",
            f"use all of them, `for x in {name}`, or remove symmetric=True",
        )
    number = compile_number(node.slice, scope)
    assert isinstance(number.shape, Scalar)
    if role.scalar.covers(number.shape):
        return Plain(role.scalar, number.expr)
    if isinstance(number.expr, Const):
        raise scope.module.text.error(
            node, f"there is no {name}[{number.expr.value}]", f"the last one is {name}[{role.count - 1}]"
        )
    found = checked(number.expr, role.scalar, f"instance_of_{name}", "number", scope.span(node), scope)
    return Plain(role.scalar, found)


def _position(node: ast.Subscript, scope: Scope, owner: Stored) -> Expr:
    """Compiles an index into a sequence: a negative one counts from the end, one past it is a fault."""
    assert isinstance(owner.shape, SeqOf)
    number, span = compile_number(node.slice, scope), scope.span(node)
    assert isinstance(number.shape, Scalar)
    index, length = number.expr, length_of(owner)
    from_end = Binary("+", length, index, span)
    if number.shape.high < 0:
        return from_end
    # Items past the length are meaningless: replace the index by one that fails.
    beyond = Const(owner.shape.bound, span)
    from_start = Conditional(Binary("<", index, length), index, beyond, span)
    if number.shape.low >= 0:
        return from_start
    return Conditional(Binary("<", index, Const(0)), from_end, from_start, span)


def _unary(node: ast.UnaryOp, scope: Scope) -> Value:
    match node.op:
        case ast.Not():
            return Plain(BOOLEAN, Unary("not", compile_condition(node.operand, scope), scope.span(node)))
        case ast.USub():
            inner = compile_number(node.operand, scope)
            assert isinstance(inner.shape, Scalar)
            shape = Scalar(-inner.shape.high, -inner.shape.low)
            if isinstance(inner.expr, Const):
                return Plain(shape, Const(-inner.expr.value, scope.span(node)))
            return Plain(shape, Unary("-", inner.expr, scope.span(node)))
        case _:
            sign = "~" if isinstance(node.op, ast.Invert) else "+"
            raise scope.module.text.error(node, f"models cannot use `{sign}` here", "remove it")


def _connective(node: ast.BoolOp, scope: Scope) -> Value:
    word: BinaryOp = "and" if isinstance(node.op, ast.And) else "or"
    first, *rest = [compile_condition(part, scope) for part in node.values]
    for part in rest:
        first = Binary(word, first, part, scope.span(node))
    return Plain(BOOLEAN, first)


def _operation(node: ast.BinOp, scope: Scope, wanted: Shape | None) -> Value:
    # A union must keep all elements; the other operations accept an operand of another range.
    inner = wanted if isinstance(wanted, SetOf) and isinstance(node.op, ast.BitOr) else None
    left, right = compile_open(node.left, scope, inner), compile_open(node.right, scope, inner)
    for value in (left, right):
        if not isinstance(value, Listed) and isinstance(value.shape, SetOf):
            return _set_operation(node, left, right, scope)
    if isinstance(left, Listed) and isinstance(right, Listed) and inner is not None:
        return _set_operation(node, convert(left, inner, node.left, scope), right, scope)
    a = convert(left, INTEGER, node.left, scope)
    b = convert(right, INTEGER, node.right, scope)
    return _arithmetic(node, a, b, scope)


def _set_operation(node: ast.BinOp, left: Value | Listed, right: Value | Listed, scope: Scope) -> Value:
    if isinstance(left, Listed):
        assert not isinstance(right, Listed)
        first, second = convert(left, right.shape, node.left, scope), right
    elif not isinstance(right, Listed) and is_compatible(right.shape, left.shape):
        first, second = convert(left, right.shape, node.left, scope), right
    else:
        first, second = left, convert(right, left.shape, node.right, scope)
    shape, span = second.shape, scope.span(node)
    if not isinstance(shape, SetOf) or not isinstance(first.shape, SetOf):
        raise scope.module.text.error(
            node, f"{describe_value(second)} is not a set", "write {a, b} or set()"
        )
    shape = first.shape
    if isinstance(node.op, ast.Sub):
        whole = Const((1 << shape.item.size) - 1)
        without = Binary("^", Binary("&", scalar(second), whole), whole)
        return Plain(shape, Binary("&", scalar(first), without, span))
    word = _SET_OPERATORS.get(type(node.op))
    if word is None:
        raise scope.module.text.error(
            node, "sets support only |, &, ^ and -", "write `a | b` for the union of two sets"
        )
    return Plain(shape, Binary(word, scalar(first), scalar(second), span))


def _arithmetic(node: ast.BinOp, left: Value, right: Value, scope: Scope) -> Value:
    text, span = scope.module.text, scope.span(node)
    a, b = scalar(left), scalar(right)
    assert isinstance(left.shape, Scalar) and isinstance(right.shape, Scalar)
    match node.op:
        case ast.FloorDiv():
            # Python rounds down: subtract the remainder first, so that the division is exact.
            rest = _remainder(a, b, right.shape, span)
            return Plain(INTEGER, Binary("div", Binary("-", a, rest.expr, span), b, span))
        case ast.Mod():
            return _remainder(a, b, right.shape, span)
        case ast.Div():
            raise text.error(node, "models have only whole numbers", "write // to divide and round down")
        case op if type(op) in _ARITHMETIC:
            word = _ARITHMETIC[type(op)]
            return Plain(_range(word, left.shape, right.shape), Binary(word, a, b, span))
        case _:
            raise text.error(node, "models cannot use this operator on numbers", "use + - * // %")


def _remainder(a: Expr, b: Expr, divisor: Scalar, span: Span) -> Plain:
    """Builds Python's remainder, which has the sign of the divisor; the IR requires a positive divisor."""
    positive = Binary("mod", a, b, span)
    if divisor.low >= 0:
        return Plain(Scalar(0, max(divisor.high - 1, 0)), positive)
    mirrored = Unary("-", Binary("mod", Unary("-", a), Unary("-", b), span))
    expr = Conditional(Binary("<", b, Const(0)), mirrored, positive, span)
    return Plain(Scalar(min(divisor.low + 1, 0), max(divisor.high - 1, 0)), expr)


def _range(op: BinaryOp, left: Scalar, right: Scalar) -> Scalar:
    """Returns a range that contains the result of an operation; INTEGER if it is not worth computing."""
    match op:
        case "+":
            found = Scalar(left.low + right.low, left.high + right.high)
        case "-":
            found = Scalar(left.low - right.high, left.high - right.low)
        case _:
            corners = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
            found = Scalar(min(corners), max(corners))
    return found if INTEGER.covers(found) else INTEGER


def _call(node: ast.Call, scope: Scope) -> Value | Listed:
    if not isinstance(node.func, ast.Name):
        return compile_call(node, scope)
    match node.func.id, node.args, node.keywords:
        case "all" | "any" | "sum" as word, [ast.GeneratorExp() as generator], []:
            op: FoldOp = "all" if word == "all" else "any" if word == "any" else "sum"
            return compile_fold(op, generator, scope)
        case "len", [_], []:
            return compile_length(node, scope)
        case "set", [], []:
            return Listed(node, ())
        case "min" | "max" as word, [first, second, *rest], []:
            return _extreme("min" if word == "min" else "max", [first, second, *rest], scope, node)
        case "min" | "max" | "all" | "any" | "sum" | "len" | "set" | "range" as word, _, _:
            raise scope.module.text.error(
                node,
                f"wrong use of {word}",
                "write all(... for x in xs), any(...), sum(...), len(xs), min(a, b), max(a, b), set()",
            )
        case "after", [argument], []:
            return _after(node, argument, scope)
        case "any_of" | "one_of" as word, _, _:
            raise scope.module.text.error(
                node,
                f"{word} is not allowed here",
                f"choose on a separate line at the top of an action: `x = {word}(...)`",
            )
        case "replace", [record], _:
            return compile_replace(node, scope, record)
        case name, _, _ if name in scope.module.records:
            return compile_record(node, scope, name)
        case _:
            return compile_call(node, scope)


def _extreme(word: BinaryOp, nodes: list[ast.expr], scope: Scope, node: ast.Call) -> Value:
    numbers = [compile_number(part, scope) for part in nodes]
    shape, expr = numbers[0].shape, numbers[0].expr
    for number in numbers[1:]:
        assert isinstance(shape, Scalar) and isinstance(number.shape, Scalar)
        shape = joined(shape, number.shape)
        expr = Binary(word, expr, number.expr, scope.span(node))
    return Plain(shape, expr)


def _after(node: ast.Call, argument: ast.expr, scope: Scope) -> Value:
    text = scope.module.text
    if not scope.allows_after:
        raise text.error(
            node,
            "after(...) is not allowed here",
            "only a @transition property can refer to the state after a step",
        )
    inner = compile_value(argument, scope)
    if not isinstance(inner, Plain | Stored) or not isinstance(inner.shape, Scalar | SetOf):
        raise text.error(
            node, "after(...) takes a number, bool, enum, role or set", "compare a record field by field"
        )
    if mentions(scalar(inner), Primed):
        raise text.error(node, "after(...) cannot be nested", "a @transition property covers one step")
    return primed(inner)
