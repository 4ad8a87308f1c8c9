"""Compiles the expressions of a model to the IR."""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir.expr import Binary, BinaryOp, Conditional, Const, Expr, FoldOp, Primed, Unary
from veristream.ir.walk import mentions
from veristream.languages.actions.lower import values
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
from veristream.languages.actions.read import types
from veristream.languages.actions.read.module import Module
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


def new_scope(module: Module, allows_after: bool = False) -> values.Scope:
    """Returns a scope without local names."""
    return values.Scope(module, compile_expression, allows_after=allows_after)


def compile_expression(
    node: ast.expr, scope: values.Scope, wanted: types.Shape | None
) -> values.Value | values.Listed:
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
            return values.Listed(node, tuple(items))
        case ast.SetComp():
            return compile_set_comprehension(node, scope, wanted)
        case _:
            what, hint = _UNSUPPORTED.get(type(node), (f"`{type(node).__name__}`", ""))
            raise scope.module.text.error(node, f"models cannot use {what}", hint)


def _constant(node: ast.Constant, scope: values.Scope) -> values.Value:
    match node.value:
        case bool() as flag:
            return values.Plain(types.BOOLEAN, Const(int(flag), scope.span(node)))
        case int() as number:
            if number > types.INTEGER.high:
                raise scope.module.text.error(
                    node, "this number is too large", f"numbers go up to {types.INTEGER.high}"
                )
            return values.Plain(types.Scalar(number, number), Const(number, scope.span(node)))
        case None:
            return values.Plain(types.NONE, Const(0, scope.span(node)))
        case value:
            kind = {"str": "text", "bytes": "text", "ellipsis": "`...`"}.get(
                type(value).__name__, "such numbers"
            )
            raise scope.module.text.error(
                node, f"models have no {kind}", "use whole numbers, bools and enums"
            )


def _name(node: ast.Name, scope: values.Scope) -> values.Value:
    module, name = scope.module, node.id
    if name in scope.locals:
        return scope.locals[name]
    if name in module.constants:
        number = module.constants[name]
        shape = types.BOOLEAN if isinstance(number, bool) else types.Scalar(number, number)
        return values.Plain(shape, Const(int(number), scope.span(node)))
    if name in module.state:
        return values.Stored(module.state[name].shape, name)
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


def _attribute(node: ast.Attribute, scope: values.Scope) -> values.Value:
    module = scope.module
    match node.value:
        case ast.Name(id=name) if name in module.enums:
            if node.attr not in module.enums[name]:
                members = ", ".join(module.enums[name])
                raise module.text.error(node, f"{name} has no member {node.attr}", f"it has {members}")
            return values.Plain(
                module.enum(name), Const(module.enums[name].index(node.attr), scope.span(node))
            )
    owner = compile_value(node.value, scope)
    match owner.shape:
        case types.Record(name=name, fields=fields):
            if owner.shape.field(node.attr) is None:
                names = ", ".join(field for field, _ in fields)
                raise module.text.error(node, f"{name} has no field {node.attr}", f"it has {names}")
            part = values.part_of(owner, node.attr)
            if isinstance(part.shape, types.SeqOf | types.MapOf) and not isinstance(part, values.Stored):
                raise module.text.error(
                    node,
                    f"{node.attr} of a record outside the state cannot be read",
                    "store the record first",
                )
            return part
        case types.Scalar(kind="role", name=name):
            return _of_role(node, scope, name, owner)
        case _:
            raise module.text.error(
                node,
                f"{describe_value(owner)} has no field {node.attr}",
                "only records and roles have fields",
            )


def _of_role(node: ast.Attribute, scope: values.Scope, role: str, instance: values.Value) -> values.Value:
    found = scope.module.roles[role]
    if node.attr == "id":
        if found.symmetric:
            raise scope.module.text.error(
                node,
                f"the instances of {role} are symmetric, so they have no numbers",
                "compare instances with == and !=, or remove symmetric=True",
            )
        number = values.scalar(convert(instance, found.scalar, node.value, scope))
        return values.Plain(types.Scalar(0, found.count - 1), number)
    for variable in found.state:
        if variable.name == node.attr:
            index = replace(values.scalar(instance), span=scope.span(node))
            return values.Stored(variable.shape, f"{role}.{variable.name}", (index,))
    names = ", ".join(["id", *(variable.name for variable in found.state)])
    raise scope.module.text.error(node, f"{role} has no {node.attr}", f"it has {names}")


def _subscript(node: ast.Subscript, scope: values.Scope) -> values.Value:
    match node.value:
        case ast.Name(id=name) if name in scope.module.roles:
            return _instance(node, name, scope)
    owner = compile_value(node.value, scope)
    if not isinstance(owner, values.Stored) or not isinstance(owner.shape, types.SeqOf | types.MapOf):
        raise scope.module.text.error(
            node, f"{describe_value(owner)} cannot be indexed", "only sequences and maps can"
        )
    if isinstance(node.slice, ast.Slice):
        what, hint = _UNSUPPORTED[ast.Slice]
        raise scope.module.text.error(node, f"models cannot use {what}", hint)
    if isinstance(owner.shape, types.MapOf):
        key = owner.shape.key
        index = shifted(compile_scalar(node.slice, scope, key), key.low)
        return values.item_at(owner, replace(index, span=scope.span(node)))
    if owner.shape.is_bag:
        raise scope.module.text.error(node, "a bag has no order", "choose an item with any_of(...)")
    return values.item_at(owner, _position(node, scope, owner))


def _instance(node: ast.Subscript, name: str, scope: values.Scope) -> values.Value:
    role = scope.module.roles[name]
    if role.symmetric:
        raise scope.module.text.error(
            node,
            f"the instances of {name} are symmetric, so a single one cannot be named",
            f"use all of them, `for x in {name}`, or remove symmetric=True",
        )
    number = compile_number(node.slice, scope)
    assert isinstance(number.shape, types.Scalar)
    if role.scalar.covers(number.shape):
        return values.Plain(role.scalar, number.expr)
    if isinstance(number.expr, Const):
        raise scope.module.text.error(
            node, f"there is no {name}[{number.expr.value}]", f"the last one is {name}[{role.count - 1}]"
        )
    found = checked(number.expr, role.scalar, f"instance_of_{name}", "number", scope.span(node), scope)
    return values.Plain(role.scalar, found)


def _position(node: ast.Subscript, scope: values.Scope, owner: values.Stored) -> Expr:
    """Compiles an index into a sequence: a negative one counts from the end, one past it is a fault."""
    assert isinstance(owner.shape, types.SeqOf)
    number, span = compile_number(node.slice, scope), scope.span(node)
    assert isinstance(number.shape, types.Scalar)
    index, length = number.expr, values.length_of(owner)
    from_end = Binary("+", length, index, span=span)
    if number.shape.high < 0:
        return from_end
    # Items past the length are meaningless: replace the index by one that fails.
    beyond = Const(owner.shape.bound, span)
    from_start = Conditional(Binary("<", index, length), index, beyond, span=span)
    if number.shape.low >= 0:
        return from_start
    return Conditional(Binary("<", index, Const(0)), from_end, from_start, span=span)


def _unary(node: ast.UnaryOp, scope: values.Scope) -> values.Value:
    match node.op:
        case ast.Not():
            return values.Plain(
                types.BOOLEAN, Unary("not", compile_condition(node.operand, scope), span=scope.span(node))
            )
        case ast.USub():
            inner = compile_number(node.operand, scope)
            assert isinstance(inner.shape, types.Scalar)
            shape = types.Scalar(-inner.shape.high, -inner.shape.low)
            if isinstance(inner.expr, Const):
                return values.Plain(shape, Const(-inner.expr.value, scope.span(node)))
            return values.Plain(shape, Unary("-", inner.expr, span=scope.span(node)))
        case _:
            sign = "~" if isinstance(node.op, ast.Invert) else "+"
            raise scope.module.text.error(node, f"models cannot use `{sign}` here", "remove it")


def _connective(node: ast.BoolOp, scope: values.Scope) -> values.Value:
    word: BinaryOp = "and" if isinstance(node.op, ast.And) else "or"
    first, *rest = [compile_condition(part, scope) for part in node.values]
    for part in rest:
        first = Binary(word, first, part, span=scope.span(node))
    return values.Plain(types.BOOLEAN, first)


def _operation(node: ast.BinOp, scope: values.Scope, wanted: types.Shape | None) -> values.Value:
    # A union must keep all elements; the other operations accept an operand of another range.
    inner = wanted if isinstance(wanted, types.SetOf) and isinstance(node.op, ast.BitOr) else None
    left, right = compile_open(node.left, scope, inner), compile_open(node.right, scope, inner)
    for value in (left, right):
        if not isinstance(value, values.Listed) and isinstance(value.shape, types.SetOf):
            return _set_operation(node, left, right, scope)
    if isinstance(left, values.Listed) and isinstance(right, values.Listed) and inner is not None:
        return _set_operation(node, convert(left, inner, node.left, scope), right, scope)
    a = convert(left, types.INTEGER, node.left, scope)
    b = convert(right, types.INTEGER, node.right, scope)
    return _arithmetic(node, a, b, scope)


def _set_operation(
    node: ast.BinOp,
    left: values.Value | values.Listed,
    right: values.Value | values.Listed,
    scope: values.Scope,
) -> values.Value:
    if isinstance(left, values.Listed):
        assert not isinstance(right, values.Listed)
        first, second = convert(left, right.shape, node.left, scope), right
    elif not isinstance(right, values.Listed) and types.is_compatible(right.shape, left.shape):
        first, second = convert(left, right.shape, node.left, scope), right
    else:
        first, second = left, convert(right, left.shape, node.right, scope)
    shape, span = second.shape, scope.span(node)
    if not isinstance(shape, types.SetOf) or not isinstance(first.shape, types.SetOf):
        raise scope.module.text.error(
            node, f"{describe_value(second)} is not a set", "write {a, b} or set()"
        )
    shape = first.shape
    if isinstance(node.op, ast.Sub):
        whole = Const((1 << shape.item.size) - 1)
        without = Binary("^", Binary("&", values.scalar(second), whole), whole)
        return values.Plain(shape, Binary("&", values.scalar(first), without, span=span))
    word = _SET_OPERATORS.get(type(node.op))
    if word is None:
        raise scope.module.text.error(
            node, "sets support only |, &, ^ and -", "write `a | b` for the union of two sets"
        )
    return values.Plain(shape, Binary(word, values.scalar(first), values.scalar(second), span=span))


def _arithmetic(
    node: ast.BinOp, left: values.Value, right: values.Value, scope: values.Scope
) -> values.Value:
    text, span = scope.module.text, scope.span(node)
    a, b = values.scalar(left), values.scalar(right)
    assert isinstance(left.shape, types.Scalar) and isinstance(right.shape, types.Scalar)
    match node.op:
        case ast.FloorDiv():
            # Python rounds down: subtract the remainder first, so that the division is exact.
            rest = _remainder(a, b, right.shape, span)
            return values.Plain(
                types.INTEGER, Binary("div", Binary("-", a, rest.expr, span=span), b, span=span)
            )
        case ast.Mod():
            return _remainder(a, b, right.shape, span)
        case ast.Div():
            raise text.error(node, "models have only whole numbers", "write // to divide and round down")
        case op if type(op) in _ARITHMETIC:
            word = _ARITHMETIC[type(op)]
            return values.Plain(_range(word, left.shape, right.shape), Binary(word, a, b, span=span))
        case _:
            raise text.error(node, "models cannot use this operator on numbers", "use + - * // %")


def _remainder(a: Expr, b: Expr, divisor: types.Scalar, span: Span) -> values.Plain:
    """Builds Python's remainder, which has the sign of the divisor; the IR requires a positive divisor."""
    positive = Binary("mod", a, b, span=span)
    if divisor.low >= 0:
        return values.Plain(types.Scalar(0, max(divisor.high - 1, 0)), positive)
    mirrored = Unary("-", Binary("mod", Unary("-", a), Unary("-", b), span=span))
    expr = Conditional(Binary("<", b, Const(0)), mirrored, positive, span=span)
    return values.Plain(types.Scalar(min(divisor.low + 1, 0), max(divisor.high - 1, 0)), expr)


def _range(op: BinaryOp, left: types.Scalar, right: types.Scalar) -> types.Scalar:
    """Returns a range that contains the result of an operation; INTEGER if it is not worth computing."""
    match op:
        case "+":
            found = types.Scalar(left.low + right.low, left.high + right.high)
        case "-":
            found = types.Scalar(left.low - right.high, left.high - right.low)
        case _:
            corners = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
            found = types.Scalar(min(corners), max(corners))
    return found if types.INTEGER.covers(found) else types.INTEGER


def _call(node: ast.Call, scope: values.Scope) -> values.Value | values.Listed:
    if not isinstance(node.func, ast.Name):
        return compile_call(node, scope)
    match node.func.id, node.args, node.keywords:
        case "all" | "any" | "sum" as word, [ast.GeneratorExp() as generator], []:
            op: FoldOp = "all" if word == "all" else "any" if word == "any" else "sum"
            return compile_fold(op, generator, scope)
        case "len", [_], []:
            return compile_length(node, scope)
        case "set", [], []:
            return values.Listed(node, ())
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


def _extreme(word: BinaryOp, nodes: list[ast.expr], scope: values.Scope, node: ast.Call) -> values.Value:
    numbers = [compile_number(part, scope) for part in nodes]
    shape, expr = numbers[0].shape, numbers[0].expr
    for number in numbers[1:]:
        assert isinstance(shape, types.Scalar) and isinstance(number.shape, types.Scalar)
        shape = types.joined(shape, number.shape)
        expr = Binary(word, expr, number.expr, span=scope.span(node))
    return values.Plain(shape, expr)


def _after(node: ast.Call, argument: ast.expr, scope: values.Scope) -> values.Value:
    text = scope.module.text
    if not scope.allows_after:
        raise text.error(
            node,
            "after(...) is not allowed here",
            "only a @transition property can refer to the state after a step",
        )
    inner = compile_value(argument, scope)
    if not isinstance(inner, values.Plain | values.Stored) or not isinstance(
        inner.shape, types.Scalar | types.SetOf
    ):
        raise text.error(
            node, "after(...) takes a number, bool, enum, role or set", "compare a record field by field"
        )
    if mentions(values.scalar(inner), Primed):
        raise text.error(node, "after(...) cannot be nested", "a @transition property covers one step")
    return values.primed(inner)
