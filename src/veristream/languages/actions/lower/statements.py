"""Compiles the statements of a model to IR updates."""

from __future__ import annotations

import ast
from dataclasses import replace

from veristream.ir import expr as ir
from veristream.languages.actions.lower import values
from veristream.languages.actions.lower.changes import (
    add_to_bag,
    append,
    change_set,
    check_some,
    clear,
    pinned,
    pop_first,
    pop_last,
    remove_from_bag,
    store,
    taken,
)
from veristream.languages.actions.lower.collections import (
    Domain,
    collection_in,
    domain_of_value,
    loop_name,
    numbers_below,
    range_of_length,
    static_domain,
)
from veristream.languages.actions.lower.convert import (
    compile_condition,
    compile_open,
    compile_value,
    convert,
    describe_value,
)
from veristream.languages.actions.lower.functions import find_routine, routine_scope
from veristream.languages.actions.lower.names import (
    Body,
    aliases_of,
    assigned_names,
    check_replaced,
    check_rounds,
    hold,
    hold_all,
    joined_scope,
)
from veristream.languages.actions.read import types
from veristream.languages.actions.read.module import Routine

_UNSUPPORTED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.While: ("while", "a loop needs a bound: write `for _ in range(n):`"),
    ast.For: ("for with else", "write the else block after the loop"),
    ast.Break: ("break", "use a condition in the loop instead"),
    ast.Continue: ("continue", "use `if` in the loop instead"),
    ast.Return: ("return here", "use if and else; only a function without updates returns a value"),
    ast.Try: ("try", "test with `if` before you act"),
    ast.TryStar: ("try", "test with `if` before you act"),
    ast.With: ("with", "actions are atomic already"),
    ast.Raise: ("raise", "use `assert condition` for a condition that must hold"),
    ast.Delete: ("del", "use remove, discard or pop"),
    ast.Import: ("import", "a model is compiled, not run"),
    ast.ImportFrom: ("import", "a model is compiled, not run"),
    ast.FunctionDef: ("a function inside a function", "write it at the top level of the model"),
    ast.AsyncFunctionDef: ("a function inside a function", "write it at the top level of the model"),
    ast.ClassDef: ("a class inside a function", "write it at the top level of the model"),
    ast.Nonlocal: ("nonlocal", "use `global` for the model's state"),
    ast.Match: ("match", "use if and elif"),
    ast.AsyncFor: ("async", "actions are atomic already"),
    ast.AsyncWith: ("async", "actions are atomic already"),
    ast.AnnAssign: ("a type on a local name", "remove the annotation; the value determines the type"),
}


def compile_block(
    statements: list[ast.stmt], scope: values.Scope, body: Body
) -> tuple[ir.Block, values.Scope]:
    """Compiles the statements; returns them and the scope after them, with the names set on all paths."""
    block: list[ir.Statement] = []
    for statement in statements:
        compiled, scope = _statement(statement, scope, body)
        block += compiled
    return tuple(block), scope


def _statement(node: ast.stmt, scope: values.Scope, body: Body) -> tuple[list[ir.Statement], values.Scope]:
    text = scope.module.text
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
            return [], scope
        case ast.Global(names=names):
            for name in names:
                if name not in scope.module.state:
                    hint = scope.module.similar(name) or f"declare it with a type: `{name}: Int[0, 3] = 0`"
                    raise text.error(node, f"{name} is not part of the model's state", hint)
            body.globals.update(names)
            return [], scope
        case ast.Assign(targets=[target], value=value):
            return _assign(node, target, value, scope, body)
        case ast.Assign():
            raise text.error(node, "chained assignment", "write one assignment per line")
        case ast.AugAssign():
            return _change_by(node, scope, body)
        case ast.If(test=test, body=then_body, orelse=else_body):
            condition = compile_condition(test, scope)
            then, after_then = compile_block(then_body, scope, body)
            otherwise, after_else = compile_block(else_body, scope, body)
            after = joined_scope(scope, after_then, after_else)
            return [ir.If(condition, then, otherwise, span=scope.span(node))], after
        case ast.For(orelse=[]):
            return _for(node, scope, body)
        case ast.Assert(test=test, msg=message):
            said = str(message.value) if isinstance(message, ast.Constant) else ast.unparse(test)
            return [
                ir.Check(compile_condition(test, scope), f"assertion failed: {said}", span=scope.span(node))
            ], scope
        case ast.Expr(value=ast.Call() as call):
            return _call(node, call, scope, body), scope
        case ast.Expr():
            raise text.error(node, "this line has no effect", "assign the value, or remove the line")
        case _:
            what, hint = _UNSUPPORTED.get(type(node), (f"`{type(node).__name__}`", ""))
            raise text.error(node, f"models cannot use {what}", hint)


# Assignments.


def _assign(
    node: ast.stmt, target: ast.expr, value: ast.expr, scope: values.Scope, body: Body
) -> tuple[list[ir.Statement], values.Scope]:
    text = scope.module.text
    match target:
        case ast.Name(id=name) if name in body.globals:
            return _assign_path(node, target, value, scope, body), scope
        case ast.Name(id=name) if name in scope.module.state:
            raise text.error(
                node,
                f"in Python, {name} would be a new local name here",
                f"write `global {name}` at the top of the function",
            )
        case ast.Name(id=name):
            scope.module.check_local(name, target)
            return _assign_name(node, name, value, scope, body)
        case ast.Attribute() | ast.Subscript():
            return _assign_path(node, target, value, scope, body), scope
        case _:
            raise text.error(target, "cannot assign to this", "assign one value to one name")


def _change_by(
    node: ast.AugAssign, scope: values.Scope, body: Body
) -> tuple[list[ir.Statement], values.Scope]:
    """Compiles `x += 1` as `x = x + 1`; a set changes in place, which all its names observe."""
    target = node.target
    whole = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
    value = compile_value(target, scope)
    if isinstance(value.shape, types.SetOf):
        if not isinstance(value, values.Stored):
            raise scope.module.text.error(
                node, "this would change the set in place", "write `x = x | y` for a new set"
            )
        if (
            isinstance(target, ast.Name)
            and target.id in scope.module.state
            and target.id not in body.globals
        ):
            return _assign(node, target, whole, scope, body)
        return store(value, compile_value(whole, scope, value.shape), scope, scope.span(node)), scope
    return _assign(node, target, whole, scope, body)


def _place(target: ast.expr, scope: values.Scope) -> values.Stored:
    place = compile_value(target, scope)
    if not isinstance(place, values.Stored):
        raise scope.module.text.error(
            target,
            "this is a copy, so the change would be lost",
            "assign to the state itself, such as self.request.epoch",
        )
    return place


def _assign_path(
    node: ast.stmt, target: ast.expr, value: ast.expr, scope: values.Scope, body: Body
) -> list[ir.Statement]:
    place, span = _place(target, scope), scope.span(node)
    check_replaced(node, place, scope, body)
    popped = _popped(value, scope)
    if popped is not None:
        item, statements = popped
        return [*statements, *store(place, convert(item, place.shape, value, scope), scope, span)]
    return store(place, compile_value(value, scope, place.shape), scope, span)


def _assign_name(
    node: ast.stmt, name: str, value: ast.expr, scope: values.Scope, body: Body
) -> tuple[list[ir.Statement], values.Scope]:
    popped = _popped(value, scope)
    if popped is not None:
        item, statements = popped
        copies, scope = hold(node, name, item, scope, body)
        return [*statements, *copies], scope
    known = body.held[name].shape if name in body.held else None
    given = compile_open(value, scope, known)
    if isinstance(given, values.Listed) or given.shape == types.NONE:
        if known is None:
            raise scope.module.text.error(
                value, f"the type of {name} is unknown", "take the value from the state, or build it there"
            )
        given = convert(given, known, value, scope)
    return hold(node, name, given, scope, body)


# Loops.


def _for(node: ast.For, scope: values.Scope, body: Body) -> tuple[list[ir.Statement], values.Scope]:
    before, domain, variable = _loop_domain(node, scope)
    inside = scope
    counter = scope.fresh.name("k")
    if not (isinstance(node.target, ast.Name) and node.target.id == "_"):
        name = loop_name(node, scope)
        if name in scope.locals:
            raise scope.module.text.error(
                node.target, f"the loop would overwrite {name}", "use another name"
            )
        inside = scope.bind(name, domain.element(ir.Local(counter)))
    block, after = compile_block(node.body, inside, body)
    check_rounds(node, scope, after)
    if variable is not None and variable in _changed(block):
        raise scope.module.text.error(
            node, "the loop changes the collection it iterates over", "collect first, then change"
        )
    if domain.counts is not None:
        block = (ir.If(domain.counts(ir.Local(counter)), block),)
    set_inside = scope.unset | (set(after.locals) | after.unset) - set(scope.locals)
    loop = ir.For(counter, domain.low, domain.high, block, span=scope.span(node))
    return [*before, loop], replace(scope, unset=frozenset(set_inside))


def _loop_domain(node: ast.For, scope: values.Scope) -> tuple[list[ir.Statement], Domain, str | None]:
    """Returns the statements that fix a loop's domain, the domain, and the variable it must not change."""
    span = scope.span(node)
    static = static_domain(node.iter, scope)
    if static is not None:
        return [], static, None
    limited = range_of_length(node.iter, scope)
    if limited is not None:
        bound, length = limited
        name = scope.fresh.name("length")
        return (
            [ir.Let(name, types.scalar_type(types.INTEGER), length, span=span)],
            numbers_below(bound, ir.Local(name)),
            None,
        )
    value = collection_in(node.iter, scope)
    variable = value.variable if isinstance(value, values.Stored) else None
    if isinstance(value.shape, types.SetOf):
        name = scope.fresh.name("all")
        let = ir.Let(name, types.leaves(value.shape)[0].type, values.scalar(value), span=span)
        return [let], domain_of_value(values.Plain(value.shape, ir.Local(name))), variable
    assert isinstance(value, values.Stored)
    statements, place = pinned(value, scope, span)
    return statements, domain_of_value(place), variable if isinstance(value.shape, types.SeqOf) else None


def _changed(block: ir.Block) -> set[str]:
    """Returns the variables that a block assigns, and all their prefixes."""
    names: set[str] = set()
    for statement in block:
        match statement:
            case ir.Assign(target=ir.Load(variable=variable)):
                parts = variable.split(".")
                names |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
            case ir.If(then=then, otherwise=otherwise):
                names |= _changed(then) | _changed(otherwise)
            case ir.For(body=inner):
                names |= _changed(inner)
    return names


# Calls.


def _popped(value: ast.expr, scope: values.Scope) -> tuple[values.Held, list[ir.Statement]] | None:
    """Compiles `queue.pop(0)` and `queue.pop()`: returns the item and the statements that remove it."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="pop")):
            place = compile_open(owner, scope)
            if (
                isinstance(place, values.Stored)
                and isinstance(place.shape, types.SeqOf)
                and not place.shape.is_bag
            ):
                return _pop(value, place, scope)
    return None


def _pop(
    node: ast.Call, place: values.Stored, scope: values.Scope
) -> tuple[values.Held, list[ir.Statement]]:
    span = scope.span(node)
    assert isinstance(place.shape, types.SeqOf)
    match node.args, node.keywords:
        case [ast.Constant(value=0)], []:
            is_first = True
        case [], []:
            is_first = False
        case _:
            raise scope.module.text.error(
                node, "pop takes no argument or 0", "pop(0) removes the oldest item, pop() the newest"
            )
    statements, place = pinned(place, scope, span)
    assert isinstance(place.shape, types.SeqOf)
    index: ir.Expr = ir.Const(0) if is_first else ir.Binary("-", values.length_of(place), ir.Const(1))
    copies, item = taken(values.item_at(place, index), place.shape, scope, span)
    take = pop_first(place, scope, span) if is_first else pop_last(place, span)
    return item, [*statements, check_some(place, span), *copies, *take]


def _call(statement: ast.stmt, node: ast.Call, scope: values.Scope, body: Body) -> list[ir.Statement]:
    text = scope.module.text
    match node.func:
        case ast.Name(id="require"):
            hint = "move it to the top of the action, outside of every if and for"
            raise text.error(node, "require must come before the first change of the state", hint)
        case ast.Name(id="print"):
            raise text.error(node, "models cannot print", "remove the line; traces show every step")
        case ast.Attribute(value=owner_node, attr=method):
            owner = compile_open(owner_node, scope)
            if not isinstance(owner, values.Listed) and isinstance(owner.shape, types.SetOf | types.SeqOf):
                return _change(node, owner, method, scope)
        case ast.Name(id=name) if name in scope.module.records:
            raise text.error(node, "this line has no effect", "assign the value, or remove the line")
    routine, arguments = find_routine(node, scope)
    return _procedure(statement, routine, arguments, scope, body)


def _procedure(
    statement: ast.stmt, routine: Routine, arguments: list[values.Value], scope: values.Scope, body: Body
) -> list[ir.Statement]:
    """Expands a call of a function that changes the state; its arguments keep their values at the call."""
    inner = Body(body.declared, aliases=aliases_of(scope, body))
    inside = routine_scope(routine, arguments, scope)
    assigned = assigned_names(routine.node.body)
    names = [name for name, value in inside.locals.items() if name in assigned or values.reads_state(value)]
    copies, inside = hold_all(statement, names, inside, inner)
    block, _ = compile_block(routine.node.body, inside, inner)
    return [*copies, *block]


def _change(node: ast.Call, owner: values.Value, method: str, scope: values.Scope) -> list[ir.Statement]:
    shape, text, span = owner.shape, scope.module.text, scope.span(node)
    assert isinstance(shape, types.SetOf | types.SeqOf)
    if not isinstance(owner, values.Stored):
        raise text.error(
            node,
            f"this {describe_value(owner)} is not part of the state",
            f"call {method} on the state itself",
        )
    known = ["add", "discard", "remove", "clear"]
    if isinstance(shape, types.SeqOf):
        known = ["add", "remove", "clear"] if shape.is_bag else ["append", "pop", "clear"]
    if method not in known:
        raise text.error(node, f"{types.describe(shape)} has no {method}", f"it has {', '.join(known)}")
    if method == "pop":
        return _pop(node, owner, scope)[1]
    if len(node.args) != (method != "clear") or node.keywords:
        raise text.error(
            node,
            f"{method} takes {'no' if method == 'clear' else 'one'} argument",
            f"write {method}({'' if method == 'clear' else 'item'})",
        )
    before, place = pinned(owner, scope, span)
    if method == "clear":
        return [*before, *clear(place, scope, span)]
    element = compile_value(node.args[0], scope, shape.item)
    if isinstance(shape, types.SetOf):
        return [*before, *change_set(node, place, method, element, scope)]
    change = {"append": append, "add": add_to_bag, "remove": remove_from_bag}[method]
    return [*before, *change(place, element, scope, span)]
