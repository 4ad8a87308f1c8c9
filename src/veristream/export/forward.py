"""Forward substitution: a local that does not change before its last use is replaced by its value.

Most locals of a command hold what was received, and most updates use it once. A message is removed at the
end if the queue is not used in between, so its parts need no locals either.
"""

from __future__ import annotations

from veristream.export.flat import FlatBlock, Put, Take, substitute_exchange
from veristream.export.rewrite import substitute_statement
from veristream.ir import expr as ir
from veristream.ir.walk import walk

USES_MAX = 3
"""A value with operators is repeated at most this often."""


def forward(block: FlatBlock) -> FlatBlock:
    """Replaces as many locals by their values as is safe and short."""
    statements = list(_drop_last(block))
    position = 0
    while position < len(statements):
        found = statements[position]
        if isinstance(found, ir.Let) and _can_go(found, statements[position + 1 :]):
            values = {found.name: found.value}
            rest = [_substitute(statement, values) for statement in statements[position + 1 :]]
            statements[position:] = rest
        else:
            position += 1
    return tuple(statements)


def _drop_last(block: FlatBlock) -> FlatBlock:
    """Moves the removal of a message to the end of the block if that is equivalent."""
    for position, found in enumerate(block):
        if isinstance(found, Take):
            rest = block[position + 1 :]
            stable = all(isinstance(index, ir.Const) for index in found.indices)
            if stable and found.channel not in {name for s in rest for name in _reads(s) | _writes(s)}:
                return (*block[:position], *rest, found)
    return block


def _can_go(let: ir.Let, rest: list[ir.Statement | Put | Take]) -> bool:
    if let.size is not None or any(let.name in _assigned(statement) for statement in rest):
        return False
    using = [i for i, statement in enumerate(rest) if let.name in _locals(statement)]
    if not using:
        return True
    uses = sum(_count(statement, let.name) for statement in rest)
    if uses > USES_MAX and not isinstance(let.value, ir.Const | ir.Load | ir.Local | ir.Peek):
        return False
    last = rest[using[-1]]
    # The last use may change what it reads if it reads everything before it writes.
    until = using[-1] if isinstance(last, ir.Assign) else using[-1] + 1
    changed = {name for statement in rest[:until] for name in _writes(statement) | _assigned(statement)}
    value = list(walk(let.value))
    return not changed & (_read_names(value) | {part.name for part in value if isinstance(part, ir.Local)})


def _substitute(
    statement: ir.Statement | Put | Take, values: dict[str, ir.Expr]
) -> ir.Statement | Put | Take:
    if isinstance(statement, Put | Take):
        return substitute_exchange(statement, values)
    return substitute_statement(statement, values)


def list_exprs(statement: ir.Statement | Put | Take) -> list[ir.Expr]:
    """Returns all expressions in the statement and in nested ones."""
    match statement:
        case ir.Assign(target=target, value=value):
            return [value, target]
        case (
            ir.Let(value=value) | ir.Return(value=value) | ir.Evaluate(value=value) | ir.Reset(value=value)
        ):
            return [value]
        case ir.Check(condition=condition):
            return [condition]
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            return [condition, *(expr for inner in then + otherwise for expr in list_exprs(inner))]
        case ir.While(condition=condition, body=body):
            return [condition, *(expr for inner in body for expr in list_exprs(inner))]
        case ir.For(body=body):
            return [expr for inner in body for expr in list_exprs(inner)]
        case Put(indices=indices, values=values):
            return [*indices, *values]
        case Take(indices=indices):
            return list(indices)


def _parts(statement: ir.Statement | Put | Take) -> list[object]:
    return [part for expr in list_exprs(statement) for part in walk(expr)]


def _read_names(parts: list[object]) -> set[str]:
    """Returns the names of variables and buffers, which are distinct in a model."""
    return {part.variable for part in parts if isinstance(part, ir.Load)} | {
        part.channel for part in parts if isinstance(part, ir.Queue | ir.Peek)
    }


def _reads(statement: ir.Statement | Put | Take) -> set[str]:
    own = {statement.channel} if isinstance(statement, Put | Take) else set[str]()
    return own | _read_names(_parts(statement))


def _locals(statement: ir.Statement | Put | Take) -> set[str]:
    return {part.name for part in _parts(statement) if isinstance(part, ir.Local)}


def _count(statement: ir.Statement | Put | Take, name: str) -> int:
    return sum(1 for part in _parts(statement) if isinstance(part, ir.Local) and part.name == name)


def _targets(statement: ir.Statement | Put | Take) -> list[ir.Load | ir.Local]:
    match statement:
        case ir.Assign(target=target):
            return [target]
        case ir.If(then=then, otherwise=otherwise):
            return [target for inner in then + otherwise for target in _targets(inner)]
        case ir.While(body=body) | ir.For(body=body):
            return [target for inner in body for target in _targets(inner)]
        case _:
            return []


def _writes(statement: ir.Statement | Put | Take) -> set[str]:
    if isinstance(statement, Put | Take):
        return {statement.channel}
    return {target.variable for target in _targets(statement) if isinstance(target, ir.Load)}


def _assigned(statement: ir.Statement | Put | Take) -> set[str]:
    return {target.name for target in _targets(statement) if isinstance(target, ir.Local)}
